"""Keeps the logs short that nobody looks after while nothing is written to them, and the one that launchd writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import structlog

log = structlog.stdlib.get_logger(__name__)

# Our own logs are rotated when they are full; by then this much is enough to begin a new one, and less stays together.
_WORTH_BYTES = 1 << 20
# Of what others write the end is kept.
_KEPT_BYTES = 256 << 10


class Logs:
    """Called from one thread. `own`: how each log of ours, by its path, begins a new file. `foreign`: others' files."""

    def __init__(self, own: Mapping[str, Callable[[], object]], foreign: tuple[str, ...]) -> None:
        self._own = own
        self._foreign = foreign

    def rotate(self) -> None:
        """Begin new files in place of those that are long. What cannot be done is told in the log."""
        for path, begin_new in self._own.items():
            if _size(path) >= _WORTH_BYTES:
                begin_new()
        for path in self._foreign:
            if _size(path) >= _WORTH_BYTES:
                try:
                    shorten(path)
                except OSError as error:
                    log.warning("log_not_shortened", path=path, error=str(error))


def shorten(path: str) -> None:
    """Leave the last lines of a file that another program holds open to append to. Raises OSError.

    What it writes in that moment may be lost; the file stays the same one, so that it writes on into it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW)
    with open(descriptor, "r+b", buffering=0) as file:
        file.seek(max(0, os.fstat(descriptor).st_size - _KEPT_BYTES))
        kept = file.read(_KEPT_BYTES).partition(b"\n")[2]
        file.truncate(0)
        file.write(kept)


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
