"""Time as a parameter: what reads the clock gets one passed in, so that tests turn the hands."""

from __future__ import annotations

import time
from typing import Protocol


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
