"""A machine on which a timetable lives: it is awake, sleeps, is switched off, its clock is set. All is simulated."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from kbsync.config.settings import Settings
from kbsync.daemon.due import Run
from kbsync.daemon.scheduler import Scheduler
from tests.fakes.travelling_clock import TravellingClock

# How long a walk over all folders takes, and how long a duty does.
WALK_S, DUTY_S = 20.0, 90.0


@dataclass(frozen=True, slots=True)
class Done:
    """A duty that was begun, or a walk that was asked for: when by the wall clock, and by one that is never wrong."""

    name: str
    at: float
    true: float


class Machine:
    """Ticks a scheduler and does what it asks for. `true`: seconds since 1970 by a clock that nobody sets.

    Its database was seen first `known_s` seconds ago, and nothing was ever done since.
    """

    def __init__(
        self,
        clock: TravellingClock,
        schedule: Mapping[str, object],
        rescan_s: float = 300.0,
        known_s: float = 30 * 86_400.0,
    ) -> None:
        self.clock = clock
        self.settings = Settings(schedule=schedule, rescan_s=rescan_s)  # type: ignore[arg-type]  # checked by pydantic
        self.true = clock.now()
        self.since = clock.now() - known_s
        self.done: list[Done] = []
        self.kept: dict[str, Run] = {}
        self.holds: str | None = None
        # What cannot be done now: it waits for its next try, which nobody has to ask for.
        self.failing: set[str] = set()
        self.began_at = self.woke_at = clock.monotonic()
        # When each walk has ended, by its ticket; 0 is the first one, which comes by itself.
        self.walks: list[float] = []
        self._doing: tuple[str, float, float] | None = None
        self._is_running = False
        self.scheduler = self._begin()

    # ---- what the scheduler sees ----

    def ask(self, name: str) -> None:
        assert self._doing is None, "one at a time"
        self.done.append(Done(name, self.clock.now(), self.true))
        if name in self.failing:
            return
        self._doing = (name, self.clock.now(), self.clock.monotonic() + DUTY_S)

    def is_free(self) -> bool:
        return self._doing is None

    def doing(self) -> str | None:
        return None if self._doing is None else self._doing[0]

    def failed(self) -> Mapping[str, str]:
        return dict.fromkeys(self.failing, "The database is busy.")

    def rescan(self) -> int:
        self.walks.append(self.clock.monotonic() + WALK_S)
        self.done.append(Done("rescan", self.clock.now(), self.true))
        return len(self.walks) - 1

    def walked(self, ticket: int) -> bool:
        ended = [end <= self.clock.monotonic() for end in self.walks]
        return ended[0] and any(ended[ticket:])

    # ---- what happens to it ----

    def awake(self, seconds: float, step: float = 1.0) -> None:
        """Let time pass as it does, with a tick each `step` seconds."""
        left = seconds
        while left > 0:
            passed = min(step, left)
            left -= passed
            self.true += passed
            self.clock.advance(passed)
            if self._doing is not None and self.clock.monotonic() >= self._doing[2]:
                self.end_duty()
            self.scheduler.tick()

    def end_duty(self) -> None:
        """Be done with what is being done."""
        assert self._doing is not None
        name, began, _ = self._doing
        self._doing = None
        self.scheduler.ran(name, began)

    def sleep(self, seconds: float) -> None:
        """Stand still, as with the lid closed: the wall clock goes on, the monotonic one does not."""
        self.true += seconds
        self.clock.jump(seconds)
        self.woke_at = self.clock.monotonic()

    def off(self, seconds: float) -> None:
        """Be switched off for a while. What was being done is broken off."""
        self.scheduler.stop()
        self._doing = None
        self.true += seconds
        self.clock.advance(seconds)
        self.began_at = self.woke_at = self.clock.monotonic()
        self.scheduler = self._begin()

    def set_clock(self, seconds: float) -> None:
        """Have somebody set the clock on, or back."""
        self.clock.jump(seconds)

    def runs(self, name: str) -> list[Done]:
        """Return what was done of a kind."""
        return [done for done in self.done if done.name == name]

    def _begin(self) -> Scheduler:
        self.walks = [self.clock.monotonic() + WALK_S]
        scheduler = Scheduler(
            self.clock,
            self.settings.timetable(),
            self.rescan,
            self.walked,
            self,
            self.kept.update,
            lambda: self.holds,
        )
        scheduler.start(dict(self.kept), self.since)
        return scheduler


@contextmanager
def in_zone(name: str) -> Iterator[None]:
    """Have the machine stand in a time zone."""
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TZ", name)
            time.tzset()
            yield
    finally:
        time.tzset()


def travel_to(zone: str) -> None:
    """Carry the machine into another zone, within `in_zone`: the scheduler finds out by itself."""
    os.environ["TZ"] = zone
