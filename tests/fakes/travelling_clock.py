"""A clock that only moves when told to, and takes the system's wall clock along: APScheduler asks that one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import time_machine

from tests.fakes.manual_clock import ManualClock


class TravellingClock(ManualClock):
    """Implements kbsync.clock.Clock. Made by `travelling` only."""

    def __init__(self, now: float, system: time_machine.Traveller) -> None:
        super().__init__(now)
        self._system = system

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        self._system.move_to(self.now())

    def jump(self, seconds: float) -> None:
        super().jump(seconds)
        self._system.move_to(self.now())


@contextmanager
def travelling(now: float = 1_000_000_000.0) -> Iterator[TravellingClock]:
    """Have the system's wall clock stand at `now`, and hand out the clock that moves it."""
    with time_machine.travel(now, tick=False) as system:
        yield TravellingClock(now, system)
