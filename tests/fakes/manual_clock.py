"""A clock that only moves when told to."""

from __future__ import annotations


class ManualClock:
    """Implements kbsync.clock.Clock. The monotonic hand starts elsewhere, so that mixing the two up shows."""

    def __init__(self, now: float = 1_000_000_000.0) -> None:
        self._now = now
        self._monotonic = 1_000.0

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Move both hands forward."""
        self._now += seconds
        self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        """Move the wall clock alone, forward or back, as a corrected clock does."""
        self._now += seconds
