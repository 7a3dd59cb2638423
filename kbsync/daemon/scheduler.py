"""The timetable, on APScheduler. Its jobs only set flags; the loops do the work.

APScheduler waits for a time of the wall clock and by the monotonic one, which stands still while a machine sleeps:
after a night, or where the clock was set back, it would ring hours or years too late. So `tick` looks at both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from apscheduler.events import EVENT_SCHEDULER_STARTED, SchedulerEvent
from apscheduler.executors.debug import DebugExecutor
from apscheduler.schedulers.blocking import BlockingScheduler

from kbsync.clock import Clock

_DAY_S = 86400.0
# What is late by this much has not been rung in time.
_LATE_S = 30.0
# A machine that slept for so long, or whose clock was set forward by it, has its folders looked at.
_SLEPT_S = 60.0
# The wall clock may run back by so much without anything being wrong with the timetable.
_SET_BACK_S = 1.0


@dataclass(slots=True)
class _Job:
    """Something to ring for every so many seconds, and when that was done last, by either clock."""

    ring: Callable[[], object]
    every_s: float
    wall: float
    steady: float

    def is_late(self, wall: float, steady: float) -> bool:
        return max(wall - self.wall, steady - self.steady) >= self.every_s + _LATE_S


class Scheduler:
    """Rings for a rescan every `rescan_s` seconds and for the upkeep once a day."""

    def __init__(
        self, clock: Clock, rescan_s: float, rescan: Callable[[], object], upkeep: Callable[[], object]
    ) -> None:
        self._clock = clock
        # Guards the jobs' times: APScheduler rings in the thread that runs it.
        self._lock = threading.Lock()
        self._wall, self._steady = clock.now(), clock.monotonic()
        self._jobs = {
            "rescan": _Job(rescan, rescan_s, self._wall, self._steady),
            "upkeep": _Job(upkeep, _DAY_S, self._wall, self._steady),
        }
        # A late run is made up for once, however long the machine slept (defaults would drop it after one second).
        # Without a pool of threads beside its own: nobody would notice where that died.
        self._scheduler = BlockingScheduler(
            timezone=UTC,
            executors={"default": DebugExecutor()},
            job_defaults={"coalesce": True, "misfire_grace_time": None, "max_instances": 1},
        )
        self._stopped = False
        self._ending = threading.Lock()
        self._scheduler.add_listener(self._started, EVENT_SCHEDULER_STARTED)
        for name, job in self._jobs.items():
            self._scheduler.add_job(partial(self._ring, name), "interval", seconds=job.every_s, id=name)

    def run(self) -> None:
        """Ring when it is time, until told to stop; one that was stopped before ends at once."""
        self._scheduler.start()

    def tick(self) -> None:
        """Ring what is late, and set the timetable right where the machine slept or its clock was set. Never blocks."""
        wall, steady = self._clock.now(), self._clock.monotonic()
        gained = (wall - self._wall) - (steady - self._steady)
        self._wall, self._steady = wall, steady
        with self._lock:
            late = [name for name, job in self._jobs.items() if job.is_late(wall, steady)]
            if gained < -_SET_BACK_S:
                for job in self._jobs.values():
                    job.wall = min(job.wall, wall)
        if gained >= _SLEPT_S and "rescan" not in late:
            late.append("rescan")
        for name in late:
            self._ring(name)
        for name in self._jobs if gained < -_SET_BACK_S else late:
            self._begin_anew(name)

    def set_rescan(self, rescan_s: float) -> None:
        """Follow a changed setting."""
        with self._lock:
            self._jobs["rescan"].every_s = rescan_s
        self._begin_anew("rescan")

    def status(self) -> dict[str, object]:
        """Return when each job runs next, as seconds since 1970."""
        times: dict[str, object] = {}
        for job in self._scheduler.get_jobs():
            at: datetime | None = getattr(job, "next_run_time", None)
            times[job.id] = None if at is None else at.timestamp()
        return times

    def stop(self) -> None:
        """End `run` without waiting for it, whenever it may begin. Twice does no harm."""
        self._stopped = True
        self._end()

    def _started(self, _event: SchedulerEvent) -> None:
        if self._stopped:  # before it ran
            self._end()

    def _end(self) -> None:
        with self._ending:
            if self._scheduler.running:
                self._scheduler.shutdown(wait=False)

    def _ring(self, name: str) -> None:
        with self._lock:
            job = self._jobs[name]
            job.wall, job.steady = self._clock.now(), self._clock.monotonic()
        job.ring()

    def _begin_anew(self, name: str) -> None:
        self._scheduler.reschedule_job(name, trigger="interval", seconds=self._jobs[name].every_s)
