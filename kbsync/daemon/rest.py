"""When the daemon leaves the machine alone: a person's pause, quiet hours, the battery. A pure decision, and who asks.

While it rests, changes are noticed and queued, and search goes on. What a person asks for by hand is done at once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import structlog

from kbsync.clock import Clock, written_moment
from kbsync.config.quiet_hours import MINUTES, QuietHours
from kbsync.daemon.wake import Wake
from kbsync.model import Lane, Priority
from kbsync.store import events, jobs, meta
from kbsync.store.connection import Connection
from kbsync.store.writer import Readers, Writer

if TYPE_CHECKING:
    from kbsync.config.sections import ResourceSettings

log = structlog.stdlib.get_logger(__name__)

OnBattery = Literal["pause", "slow", "go"]
Cause = Literal["paused", "quiet_hours", "battery"]

# Asking for the battery reads some files.
_LOOK_S = 30.0
_RECKONED_S = 60.0
# A pause without an end is brought to mind after so long.
PAUSED_LONG_S = 7 * 86400.0
# A day is never longer than this, also where the clocks are set back.
_LONGEST_QUIET_MINUTES = MINUTES + 180
_SLOWED = "kbsync runs on the battery: it reads a file at a time, and what can wait waits."


@dataclass(frozen=True, slots=True)
class Pause:
    """A person's word, in seconds since 1970; without `until` it holds until another word."""

    since: float
    until: float | None

    def left(self, now: float) -> float | None:
        """Return for how many seconds it still holds, 0 where it is over, None where it has no end.

        Never longer than it was meant for: a clock that was set back must not prolong it for years.
        """
        return None if self.until is None else max(0.0, min(self.until - now, self.until - self.since))


@dataclass(frozen=True, slots=True)
class Resting:
    """Why work rests, since when and until when, in seconds since 1970. `until` None: nobody knows."""

    cause: Cause
    since: float
    until: float | None


@dataclass(frozen=True, slots=True)
class Manners:
    """What the settings say about rest."""

    quiet_hours: tuple[QuietHours, ...] = ()
    on_battery: OnBattery = "go"


def manners_of(resources: ResourceSettings) -> Manners:
    """Return what the settings say about rest."""
    return Manners(resources.hours, resources.on_battery)


def cause_of(manners: Manners, *, is_paused: bool, minute: int, is_on_battery: bool) -> Cause | None:
    """Decide why work rests at a minute of the day, None where it goes on. A person's word comes first."""
    if is_paused:
        return "paused"
    if any(hours.cover(minute) for hours in manners.quiet_hours):
        return "quiet_hours"
    return "battery" if is_on_battery and manners.on_battery == "pause" else None


def quiet_until(hours: Iterable[QuietHours], now: float, minute_of: Callable[[float], int]) -> float:
    """Return when quiet hours that hold now end, whatever the clocks are set to before.

    Minute by minute: hours follow one another, some come twice and some not at all.
    """
    found = tuple(hours)
    at = now - now % 60.0
    for _ in range(_LONGEST_QUIET_MINUTES):
        at += 60.0
        if not any(one.cover(minute_of(at)) for one in found):
            return at
    return at


def said(resting: Resting, now: float) -> str:
    """Say for people why work rests and when it goes on. Times are the machine's own."""
    until = "" if resting.until is None else f" until {_moment(resting.until, now)}"
    if resting.cause == "quiet_hours":
        return f"Nothing is indexed{until}: these are quiet hours."
    if resting.cause == "battery":
        return "Nothing is indexed while the machine runs on its battery."
    if resting.until is not None:
        return f"Paused by you{until}; `kbsync resume` goes on at once."
    days = int((now - resting.since) // 86400)
    lasting = f", for {days} days" if now - resting.since >= PAUSED_LONG_S else ""
    return f"Paused by you since {_moment(resting.since, now)}{lasting}; `kbsync resume` goes on."


def stored_pause(connection: Connection) -> Pause | None:
    """Return the pause that a person ordered last, over or not; None where there is none, or none that can be read."""
    try:
        told = json.loads(meta.get(connection, meta.PAUSE) or "null")
        if told is None:
            return None
        until = told["until"]
        return Pause(written_moment(told["since"]), None if until is None else written_moment(until))
    except (ValueError, TypeError, KeyError):
        return None


def resting_by_word(pause: Pause | None, now: float) -> Resting | None:
    """Return how a pause holds now, for a process that runs no daemon; None where it does not."""
    if pause is None or (left := pause.left(now)) == 0.0:
        return None
    return Resting("paused", pause.since, None if left is None else now + left)


def minute_of_day(at: float) -> int:
    """Return the minute of the local day; the timetable sees to it that the zone is the one that holds now."""
    local = time.localtime(at)
    return local.tm_hour * 60 + local.tm_min


class Rest:
    """What the loops ask before they work. Any thread may ask, and give a person's word; `tick` is for one.

    `pause`: the one that stands in the database. `work` is rung when rest ends.
    """

    def __init__(
        self,
        clock: Clock,
        writer: Writer,
        readers: Readers,
        work: Wake,
        manners: Manners,
        is_on_battery: Callable[[], bool] = lambda: False,
        minute_of: Callable[[float], int] = minute_of_day,
    ) -> None:
        self._clock = clock
        self._writer = writer
        self._readers = readers
        self._work = work
        self._manners = manners
        self._is_on_battery = is_on_battery
        self._minute_of = minute_of
        # With the moment (monotonic) at which it ends, whatever the wall clock says; one assignment changes both.
        self._pause: tuple[Pause, float | None] | None = None
        self._looked_at: float | None = None
        self._on_battery = False
        # What holds, and since when; the ticking thread's and, for `since`, any other's to read.
        self._begun: tuple[Cause, float] | None = None
        # Of which hours, when, and until when they last.
        self._reckoned: tuple[tuple[QuietHours, ...], float, float] | None = None
        self._is_waived = False

    def open(self) -> None:
        """Take up the pause that stands in the database."""
        self._take(self._readers.read(stored_pause))

    def follow(self, manners: Manners) -> None:
        """Follow changed settings."""
        self._manners = manners

    def waive(self) -> None:
        """Never rest in this process: a person asked for the work itself, and waits for it."""
        self._is_waived = True

    def pause(self, seconds: float | None) -> Resting:
        """Rest for so many seconds, None: until `resume`. A pause before is replaced. Raises RetryLater."""
        now = self._clock.now()
        pause = Pause(now, None if seconds is None else now + seconds)

        def write(connection: Connection) -> None:
            meta.put(connection, meta.PAUSE, json.dumps({"since": pause.since, "until": pause.until}))
            events.record(connection, "paused", now, detail="all of kbsync, by you")

        self._writer.run(write)
        self._take(pause)
        return Resting("paused", pause.since, pause.until)

    def resume(self) -> bool:
        """End a person's pause; return whether there was one. Raises RetryLater."""
        was_paused = self._paused() is not None
        self._forget_pause()
        self._work.ring()
        return was_paused

    def now(self) -> Resting | None:
        """Return why work rests now, None where it goes on."""
        cause = self._cause()
        if cause is None:
            return None
        now, begun = self._clock.now(), self._begun
        if cause == "paused":
            paused = self._paused()
            if paused is not None:
                pause, left = paused
                return Resting(cause, pause.since, None if left is None else now + left)
        since = begun[1] if begun is not None and begun[0] == cause else now
        until = None
        if cause == "quiet_hours":
            until = self._quiet_until(now)
        return Resting(cause, since, until)

    def holds(self) -> str | None:
        """Return a sentence that says why work rests now, None where it goes on."""
        resting = self.now()
        return None if resting is None else said(resting, self._clock.now())

    def holds_all(self) -> str | None:
        """Return the same sentence, None also where something waits that a person asked for: that is done."""
        told = self.holds()
        if told is None or self._readers.read(_waits_by_hand):
            return None
        return told

    def defers(self) -> str | None:
        """Return why what nobody waits for is put off: all rests, or the battery is spared. None where it is not."""
        return self.holds() or (_SLOWED if self.slows() else None)

    def slows(self) -> bool:
        """Return whether work goes slowly now, on the battery."""
        return self._manners.on_battery == "slow" and not self._is_waived and self._battery()

    def allows(self, number: int = 0) -> Priority:
        """Return the least pressing work that worker `number` of its kind may do now: by hand, everything goes on."""
        if self._cause() is not None or (number > 0 and self.slows()):
            return Priority.ADDED
        return Priority.LOW

    def tick(self) -> bool:
        """Look whether rest begins or ends; return whether it ended just now. Raises RetryLater."""
        if self._pause is not None and self._paused() is None:
            self._forget_pause()
        cause, begun = self._cause(), self._begun
        if cause == (None if begun is None else begun[0]):
            return False
        self._begun = None if cause is None else (cause, self._clock.now())
        if cause is not None:
            log.info("rest_began", reason=cause)
            return False
        log.info("rest_ended")
        self._work.ring()
        return True

    def _cause(self) -> Cause | None:
        if self._is_waived:
            return None
        return cause_of(
            self._manners,
            is_paused=self._paused() is not None,
            minute=self._minute_of(self._clock.now()),
            is_on_battery=self._manners.on_battery == "pause" and self._battery(),
        )

    def _paused(self) -> tuple[Pause, float | None] | None:
        """Return the pause that holds now and for how many seconds it still does, None where none does."""
        taken = self._pause
        if taken is None:
            return None
        pause, ends_at = taken
        left = pause.left(self._clock.now())
        if left is None or ends_at is None:
            return pause, None
        left = min(left, ends_at - self._clock.monotonic())
        return (pause, left) if left > 0 else None

    def _quiet_until(self, now: float) -> float:
        """Return when the quiet hours end that hold now; it is asked each second, so it is reckoned once a minute."""
        hours = self._manners.quiet_hours
        known = self._reckoned
        if known is None or known[0] is not hours or not known[1] <= now < min(known[1] + _RECKONED_S, known[2]):
            known = self._reckoned = (hours, now, quiet_until(hours, now, self._minute_of))
        return known[2]

    def _take(self, pause: Pause | None) -> None:
        left = None if pause is None else pause.left(self._clock.now())
        ends_at = None if left is None else self._clock.monotonic() + left
        self._pause = None if pause is None else (pause, ends_at)

    def _forget_pause(self) -> None:
        """Take the pause out of the database, where one stands there."""
        taken, now = self._pause, self._clock.now()
        if taken is None:
            return

        def write(connection: Connection) -> None:
            if stored_pause(connection) == taken[0]:  # nobody paused again meanwhile
                meta.remove(connection, meta.PAUSE)
                events.record(connection, "resumed", now, detail="all of kbsync")

        self._writer.run(write)
        if self._pause is taken:
            self._pause = None

    def _battery(self) -> bool:
        now = self._clock.monotonic()
        if self._looked_at is None or now - self._looked_at >= _LOOK_S:
            self._looked_at = now
            self._on_battery = self._is_on_battery()
        return self._on_battery


def _waits_by_hand(connection: Connection) -> bool:
    lanes: tuple[Lane, ...] = get_args(Lane)
    return any(jobs.next_not_before(connection, lane, Priority.ADDED) is not None for lane in lanes)


def _moment(at: float, now: float) -> str:
    """Return a local time, with its date where it is not within a day, or could be the midnight of either."""
    local = time.localtime(at)
    is_near = abs(at - now) < 72_000.0 and (local.tm_hour, local.tm_min) != (0, 0)
    return time.strftime("%H:%M" if is_near else "%Y-%m-%d %H:%M", local)
