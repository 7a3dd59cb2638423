"""Time as a parameter: what reads the clock gets one passed in, so that tests turn the hands."""

from __future__ import annotations

import time
from typing import Protocol

# What calendars and the system's own clock can tell: the years 1970 to 9999.
_END_OF_CALENDAR = 253_402_300_800.0


def written_moment(told: object) -> float:
    """Return the moment, in seconds since 1970, that was written down somewhere. Raises ValueError where it is none."""
    number = float(str(told))
    if not 0.0 <= number < _END_OF_CALENDAR:
        raise ValueError(f"{number} is no moment")
    return number


class Clock(Protocol):
    """Wall time for what is stored and shown, monotonic time for waiting. Both in seconds."""

    def now(self) -> float:
        """Return the wall time in seconds since 1970 (UTC); it may jump."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never run backwards; only differences mean anything."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()
