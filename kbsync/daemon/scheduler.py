"""The timetable, on APScheduler. Its jobs only set flags; `tick` passes them on, and the loops do the work.

It has no thread: one would wait for a time of the wall clock by the monotonic one, which stands still while the machine
sleeps, and after a night, or where the clock was set back, ring hours or years too late. `tick` comes each second
anyway and looks at both clocks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Literal, Protocol

from apscheduler.executors.debug import DebugExecutor
from apscheduler.schedulers.base import BaseScheduler
from apscheduler.triggers.base import BaseTrigger

from kbsync.clock import Clock
from kbsync.config.times import Every, When
from kbsync.daemon.due import Run, believed, first_after, next_due, run_at, set_back

RESCAN = "rescan"
# What waits while the machine is spared; the rest is done in a moment.
_HEAVY = frozenset({"reindex", "compact", "check"})
# The ones that `scheduler` in `status` knows as the daily upkeep.
_UPKEEP = ("retention", "compact", "check")

# A machine that slept for so long, or whose clock was set forward by it, has its folders looked at.
_SLEPT_S = 60.0
# The wall clock may run back by so much without anything being wrong with the timetable.
_SET_BACK_S = 1.0
# What is this late by the monotonic clock is due, whatever the wall clock says.
_LATE_S = 30.0
# Who starts the daemon wants to search first. And a look at the folders that hangs holds up nothing for ever.
_AFTER_START_S, _LONGEST_LOOK_S = 300.0, 3600.0
# Somebody who travels takes the machine into another zone: the system's setting is read again this often.
_ZONE_EVERY_S = 60.0

State = Literal["off", "scheduled", "waiting", "running", "failed"]


class Duties(Protocol):
    """Who does what the timetable asks for, one thing at a time."""

    def ask(self, name: str) -> None:
        """Have it be done soon; never blocks."""
        ...

    def is_free(self) -> bool:
        """Return whether nothing is being done, or is about to be."""
        ...

    def doing(self) -> str | None:
        """Return what is being done."""
        ...

    def failed(self) -> Mapping[str, str]:
        """Return what could not be done the last time and is tried again, with the reason."""
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One job as `status` shows it. Times are seconds since 1970; `next` is None for what is off.

    What is due already and waits has as its next when it may be done at the earliest, and `detail` says what for.
    """

    name: str
    every: str
    last: float | None
    next: float | None
    state: State
    detail: str | None = None


@dataclass(slots=True)
class _Job:
    """One line of the timetable. `seen`: since when (monotonic) it is known not to have run, at the latest."""

    written: str
    when: When | None
    seen: float
    last: Run | None = None
    # What it counts from as long as it never ran.
    since: Run | None = None
    next: float | None = None
    # Its time has come; and somebody was asked to do it.
    due: bool = False
    asked: bool = False
    # What it is planned by is another than when it was planned.
    changed: bool = False
    # Which of all that was asked for it was; 0: nobody was yet.
    turn: int = 0

    def order(self) -> tuple[int, float]:
        """Return what says which one goes first of those that are due."""
        return self.turn, 0.0 if self.last is None else self.last.at


class _Trigger(BaseTrigger):
    """The first time after the present one: what was missed comes once, however often it was missed."""

    def __init__(self, job: _Job) -> None:
        self._job = job

    def get_next_fire_time(self, _previous: datetime | None, now: datetime) -> datetime | None:
        when = self._job.when
        return None if when is None else _as_time(first_after(when, now.timestamp()))


class _Hands(BaseScheduler):
    """APScheduler without a thread, a pool or a wait of its own: whoever calls `process` has what is due be run."""

    def process(self) -> None:
        self._process_jobs()

    def wakeup(self) -> None:
        """Do nothing: the next `process` is never far."""

    def shutdown(self, wait: bool = True) -> None:
        """End it. Twice does no harm."""
        if self.running:
            BaseScheduler.shutdown(self, wait)


class Scheduler:
    """Rings for a rescan and asks for duties, one after another. `start`, `tick` and `stop` belong to one thread.

    `rescan` has every folder walked and returns a ticket, `scanned` says whether that has ended (0: whether each was
    walked at all). `record` keeps the last runs. `holds` says why the machine is to be spared now, None where not, and
    `rests` why all is left alone: then folders are walked only when somebody asks.
    """

    def __init__(
        self,
        clock: Clock,
        times: Mapping[str, tuple[str, When | None]],
        rescan: Callable[[], int],
        scanned: Callable[[int], bool],
        duties: Duties,
        record: Callable[[Mapping[str, Run]], None],
        holds: Callable[[], str | None] = lambda: None,
        rests: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._rescan = rescan
        self._scanned = scanned
        self._duties = duties
        self._record = record
        self._holds = holds
        self._rests = rests
        # Guards the jobs: duties end, settings change and people look in other threads. APScheduler belongs to `tick`.
        self._lock = threading.Lock()
        self._wall, self._steady = clock.now(), clock.monotonic()
        self._jobs = {name: _Job(written, when, self._steady) for name, (written, when) in times.items()}
        # What is late is made up for once, however long the machine slept (its defaults would drop it after a second).
        self._hands = _Hands(
            timezone=UTC,
            executors={"default": DebugExecutor()},
            job_defaults={"coalesce": True, "misfire_grace_time": None, "max_instances": 1},
        )
        # Of the last walk that was asked for; and the one that is to have ended before anything else is done.
        self._ticket = self._looked = self._turns = 0
        self._slept = False
        self._quiet_until = self._looking_until = self._zone_at = self._steady
        self._offset = time.localtime(self._wall).tm_gmtoff

    def start(self, last: Mapping[str, Run], since: float) -> None:
        """Begin, where `last` tells of earlier lives. What was missed is made up for once all folders were walked.

        What never ran counts from `since`, in seconds since 1970: nothing of a new installation was missed.
        """
        now, steady = self._clock.now(), self._clock.monotonic()
        self._wall, self._steady = now, steady
        self._quiet_until, self._looking_until = steady + _AFTER_START_S, steady + _LONGEST_LOOK_S
        self._hands.start()
        with self._lock:
            for name, job in self._jobs.items():
                # The first walk comes by itself.
                job.last = Run(now) if name == RESCAN else believed(job.when, last.get(name), now)
                # One that a wrong clock wrote did run, nobody knows when: it is due.
                job.since = None if name in last else Run(min(since, now))
                job.seen = steady
        for name, job in self._jobs.items():
            self._hands.add_job(partial(self._come, job), _Trigger(job), id=name, next_run_time=None)
        self._plan(self._jobs, now)

    def tick(self) -> None:
        """Pass on what is due, and set the timetable right where the machine slept or its clock was set.

        Never blocks. Before the start and after the end it does nothing.
        """
        if not self._hands.running:
            return
        now, steady = self._clock.now(), self._clock.monotonic()
        gained = (now - self._wall) - (steady - self._steady)
        self._wall, self._steady = now, steady
        if gained < -_SET_BACK_S:
            self._set_right(now, steady)
        elif gained >= _SLEPT_S:
            self._woke(steady)
        with self._lock:
            moved = self._has_moved(now, steady)
            changed = [name for name, job in self._jobs.items() if moved or job.changed]
        self._plan(changed, now)
        self._hands.process()
        self._note_late(steady)
        self._pass_on(now, steady)

    def follow(self, times: Mapping[str, tuple[str, When | None]]) -> None:
        """Follow changed settings, from the next tick on. Any thread."""
        with self._lock:
            for name, (written, when) in times.items():
                job = self._jobs[name]
                if (job.written, job.when) != (written, when):
                    job.written, job.when, job.changed = written, when, True

    def ran(self, name: str, began: float) -> None:
        """A duty that began at that time has ended well: it is not done again. Any thread; raises RetryLater."""
        with self._lock:
            job = self._jobs[name]
            run = run_at(job.when, began)
            runs = {other: known.last for other, known in self._jobs.items() if other != RESCAN and known.last}
        self._record({**runs, name: run})
        with self._lock:
            job.last, job.seen = run, self._clock.monotonic()
            job.due = job.asked = False
            job.changed = True

    def status(self) -> dict[str, float | None]:
        """Return when the folders are walked next, and when the daily upkeep goes on, as seconds since 1970."""
        found = {entry.name: entry.next for entry in self.entries()}
        daily = [at for name in _UPKEEP if (at := found.get(name)) is not None]
        return {RESCAN: found[RESCAN], "upkeep": min(daily, default=None)}

    def entries(self) -> list[Entry]:
        """Return all jobs as `status` shows them."""
        doing, failed, steady = self._duties.doing(), self._duties.failed(), self._clock.monotonic()
        soon = self._clock.now() + max(0.0, self._quiet_until - steady)
        walking = not self._scanned(self._ticket)
        waits = self._waits(steady)
        spared = {**dict.fromkeys(_HEAVY, self._holds()), RESCAN: self._rests()}
        with self._lock:
            return [
                self._entry(name, job, soon, doing, failed, spared.get(name) or waits, walking)
                for name, job in self._jobs.items()
            ]

    def stop(self) -> None:
        """Ring no more. Twice does no harm."""
        self._hands.shutdown(wait=False)

    # ---- both clocks ----

    def _set_right(self, now: float, steady: float) -> None:
        """The clock was set back: no last run lies ahead of it, none that a job waits for is a year away."""
        with self._lock:
            for job in self._jobs.values():
                if job.last is not None:
                    job.last = set_back(job.when, job.last, now, steady - job.seen)
                if job.since is not None:
                    job.since = set_back(job.when, job.since, now, steady - job.seen)
                job.changed = True

    def _woke(self, steady: float) -> None:
        """The machine slept: nothing told what others changed on its disks, and what was missed waits for a look."""
        self._looking_until = steady + _LONGEST_LOOK_S
        self._slept = True
        with self._lock:
            self._jobs[RESCAN].due = True

    def _has_moved(self, now: float, steady: float) -> bool:
        """Return whether local time is another than a minute ago. The lock is held."""
        if steady < self._zone_at:
            return False
        self._zone_at = steady + _ZONE_EVERY_S
        time.tzset()
        before, self._offset = self._offset, time.localtime(now).tm_gmtoff
        return self._offset != before

    def _note_late(self, steady: float) -> None:
        """A wall clock that is set back a little again and again, or runs slowly, holds nothing up."""
        with self._lock:
            for job in self._jobs.values():
                if isinstance(job.when, Every) and steady - job.seen >= job.when.seconds + _LATE_S:
                    job.due = True

    # ---- what is due ----

    def _come(self, job: _Job) -> None:
        with self._lock:
            job.due = True

    def _plan(self, names: Iterable[str], now: float) -> None:
        """Tell APScheduler when these jobs are due."""
        for name in names:
            with self._lock:
                job = self._jobs[name]
                job.changed = False
                if job.when is None:
                    job.due, job.next = False, None
                elif job.due:  # it comes no second time before it was done
                    job.next = first_after(job.when, now)
                else:
                    job.next = next_due(job.when, job.last or job.since, now)
                at = job.next
            self._hands.modify_job(name, next_run_time=None if at is None else _as_time(at))

    def _pass_on(self, now: float, steady: float) -> None:
        rescan = self._jobs[RESCAN]
        if rescan.due and self._rests() is None:
            self._ticket = self._rescan()
            if self._slept:
                self._slept, self._looked = False, self._ticket
            with self._lock:
                rescan.due = False
                rescan.last, rescan.seen = Run(now), steady
            self._plan([RESCAN], now)
        if self._waits(steady) is not None:
            return
        spared = self._holds() is not None
        with self._lock:
            wanted = [name for name, job in self._jobs.items() if job.due and not job.asked and name != RESCAN]
            allowed = [name for name in wanted if not (spared and name in _HEAVY)]
            if not allowed:
                return
            # In turn: one that takes longer than its interval is due again at once, and holds up no other for ever.
            # What was done longest ago goes first: a machine that is on for minutes a day gets to each of them.
            name = min(allowed, key=lambda name: self._jobs[name].order())
            self._turns += 1
            self._jobs[name].asked, self._jobs[name].turn = True, self._turns
        self._duties.ask(name)

    def _waits(self, steady: float) -> str | None:
        """Return what every duty waits for that is due; None where one may be done."""
        if steady < self._looking_until and not self._scanned(self._looked):
            return "the folders are looked through first"
        if steady < self._quiet_until:
            return "kbsync has just been started"
        return None if self._duties.is_free() else "one after another"

    def _entry(
        self,
        name: str,
        job: _Job,
        soon: float,
        doing: str | None,
        failed: Mapping[str, str],
        waits: str | None,
        walking: bool,
    ) -> Entry:
        state: State = "scheduled"
        detail = None
        if job.when is None:
            state = "off"
        elif name == doing or (name == RESCAN and walking):
            state = "running"
        elif name in failed:
            state, detail = "failed", failed[name]
        elif job.due:
            state, detail = "waiting", waits
        # The walk of the start is one as soon as it has ended.
        is_first_walk = name == RESCAN and walking and not self._ticket
        last = None if job.last is None or is_first_walk else job.last.at
        return Entry(name, job.written, last, soon if job.due else job.next, state, detail)


def _as_time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
