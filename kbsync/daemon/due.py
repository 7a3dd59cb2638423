"""When a job is due. Pure: what ran last and what time it is decide.

A time of the day comes once on each date, whatever the clock does on that night: where it does not exist it comes as
soon after as there is a time again, where it comes twice the first one counts. Which date was answered is remembered:
so a journey into another zone brings none of them a second time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from kbsync.config.times import At, Every, When

# A clock that was right, and is, may differ by so much; what was written later than that was written by a wrong one.
_WRONG_CLOCK_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Run:
    """When a job began, in seconds since 1970, and the local date whose turn that was: None where it has no dates."""

    at: float
    of: date | None = None


def run_at(when: When | None, now: float) -> Run:
    """Return what is to be remembered of a job that begins now."""
    return Run(now, latest_date(when, now) if isinstance(when, At) else None)


def next_due(when: When, last: Run | None, now: float) -> float:
    """Return when the job is due, in seconds since 1970; what never ran, or was missed, is due by now."""
    if last is None:
        return now
    if isinstance(when, Every):
        return last.at + when.seconds
    return moment(when, _following(when, last.of or latest_date(when, last.at)))


def first_after(when: When, now: float) -> float:
    """Return the first time after `now`, whatever was missed before."""
    return next_due(when, run_at(when, now), now)


def believed(when: When | None, last: Run | None, now: float) -> Run | None:
    """Return what is true of a last run that an earlier process wrote, perhaps by a clock that was wrong."""
    if last is None or last.at > now + _WRONG_CLOCK_S:
        return None
    return set_back(when, last, now, 0.0)


def set_back(when: When | None, last: Run, now: float, elapsed: float) -> Run:
    """Return a last run as the clock shows it that was set back to `now`: it was at least `elapsed` seconds ago.

    Nothing waits for a date that lies ahead for years; what did run does not run twice for that.
    """
    of = last.of
    if isinstance(when, At) and of is not None and of > _date_of(now):
        of = latest_date(when, now)
    return Run(min(last.at, now - elapsed), of)


def latest_date(when: At, now: float) -> date:
    """Return the local date on which the time came last."""
    day = _date_of(now)
    if when.weekday is not None:
        day -= timedelta((day.weekday() - when.weekday) % 7)
    return day if moment(when, day) <= now else day - timedelta(_days(when))


def moment(when: At, day: date) -> float:
    """Return when the time comes on a date, in seconds since 1970, by the system's zone."""
    # Without a zone it is local time; of one that comes twice the first, of one that does not come what it would be.
    return datetime.combine(day, time(when.hour, when.minute)).timestamp()


def _following(when: At, day: date) -> date:
    """Return the first date after `day` on which the time comes."""
    if when.weekday is None:
        return day + timedelta(1)
    return day + timedelta((when.weekday - day.weekday() - 1) % 7 + 1)


def _days(when: At) -> int:
    return 1 if when.weekday is None else 7


def _date_of(now: float) -> date:
    return datetime.fromtimestamp(now, UTC).astimezone().date()
