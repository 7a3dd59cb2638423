"""How long a start under a service manager waits after others that soon ended: longer each time, and not for ever.

systemd knows growing delays from version 254 on only, launchd none at all. So the program counts, in a file.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass

# Who ran so long has not failed at its start: the next end is the first one again.
LASTED_S = 120.0
# The manager's own pause (RestartSec) comes before each. The first restart is at once: most mishaps are single.
_FIRST_S, _LONGEST_S = 10.0, 600.0


@dataclass(frozen=True, slots=True)
class EarlyEnds:
    """`count` starts in a row were not seen to last; the latest began at `at` (Unix seconds)."""

    count: int = 0
    at: float = 0.0

    def wait_s(self, now: float) -> float:
        """Return how many seconds from now the next start should wait. Of a clock that jumped nothing is believed."""
        if self.count < 2:
            return 0.0
        delay = min(_FIRST_S * 2.0 ** (min(self.count, 20) - 2), _LONGEST_S)
        passed = now - self.at
        return delay if passed < 0 else max(0.0, delay - passed)

    def begun(self, now: float) -> EarlyEnds:
        """Return what is to be remembered when a start begins: until it has lasted it counts as one that did not."""
        return EarlyEnds(self.count + 1, now)


def read(path: str) -> EarlyEnds:
    """Return what the file says; a missing or unreadable one says nothing."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        if not isinstance(content, Mapping):
            return EarlyEnds()
        return EarlyEnds(max(0, int(content["count"])), float(content["at"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return EarlyEnds()


def write(path: str, ends: EarlyEnds) -> None:
    """Keep it. A disk that takes nothing is no reason not to start: then it is only not counted."""
    folder = os.path.dirname(path)
    temporary = ""
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=".early-ends-", dir=folder)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(ends), file)
        os.replace(temporary, path)
    except OSError:
        if temporary:
            _remove(temporary)


def forget(path: str) -> None:
    """The program lasted, or was told to end."""
    _remove(path)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # nothing was counted
