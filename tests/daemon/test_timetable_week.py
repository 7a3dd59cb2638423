"""Weeks of a machine that sleeps, is carried about and whose clock is set: each job when it is due, none twice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbsync.config.times import At, Every
from kbsync.daemon.due import latest_date
from tests.fakes.timetabled_machine import DUTY_S, WALK_S, Machine, in_zone, travel_to
from tests.fakes.travelling_clock import travelling

HOUR_S, DAY_S, YEAR_S = 3600.0, 86_400.0, 365 * 86_400.0
BERLIN = ZoneInfo("Europe/Berlin")
# `check` at a time that one of the nights has not, or has twice.
SCHEDULE = {
    "logs": "12:00",
    "retry": "6h",
    "reindex": "sun 04:00",
    "retention": "24h",
    "compact": "03:30",
    "check": "02:30",
}
DUTIES = tuple(SCHEDULE)
STEP_S = 20.0
# What is due is done within: a walk after waking, every other duty before it, a tick each.
SOON_S = WALK_S + len(DUTIES) * (DUTY_S + 2 * STEP_S)
WEEKS = {"an hour is missing": "2025-03-24", "an hour comes twice": "2025-10-20"}


def at(day: date, clock: str) -> float:
    return datetime.combine(day, time.fromisoformat(clock), BERLIN).timestamp()


@pytest.mark.parametrize("monday", WEEKS.values(), ids=WEEKS)
def test_a_week_with_nights_asleep_a_night_awake_and_a_clock_that_leaps(
    monday: str, told: Callable[[str], None]
) -> None:
    """S07: the folders are looked through at every waking, and what was missed is made up for, once."""
    first = date.fromisoformat(monday)
    begin = at(first, "08:00")
    with in_zone("Europe/Berlin"), travelling(begin) as clock:
        machine = Machine(clock, SCHEDULE)
        machine.awake(SOON_S + 300, STEP_S)  # what never ran is done right after the first start
        begun = len(machine.done)
        sleeps = []
        for number in range(7):
            day = first + timedelta(number)
            if number == 2:  # a clock that is a year ahead for ten minutes
                machine.awake(at(day, "15:00") - machine.true, STEP_S)
                machine.set_clock(YEAR_S)
                machine.awake(SOON_S, STEP_S)
                machine.set_clock(-YEAR_S)
            machine.awake(at(day, "23:30") - machine.true, STEP_S)
            morning = at(day + timedelta(1), "07:00")
            if number == 5:  # awake through the night in which the clocks are changed
                machine.awake(morning - machine.true, STEP_S)
            else:
                sleeps.append((machine.true, morning))
                machine.sleep(morning - machine.true)
                machine.awake(HOUR_S, STEP_S)
        end = machine.true
        leapt = at(first + timedelta(2), "15:00")
        week = machine.done[begun:]

        for asleep, morning in sleeps:
            walks = [done.true for done in week if done.name == "rescan" and asleep < done.true < morning + 60]
            assert len(walks) == 1, "one look at the folders after each night, at once"
        for name in DUTIES:
            ran = [done.true for done in week if done.name == name]
            dues = _dues(name, first, ran, leapt, machine.runs(name)[0].true)
            told(f"timetable {monday} {name:<9} {SCHEDULE[name]:<9} {_shown(dues, ran)}")
            for due in dues:
                answered = next((morning for asleep, morning in sleeps if asleep <= due < morning), due)
                if answered > end - SOON_S:
                    continue
                assert sum(answered <= run <= answered + SOON_S for run in ran) == 1, (name, _local(due))
            assert len(ran) == len({due for due in dues if due <= ran[-1]}), f"{name}: none twice, none for nothing"


def _dues(name: str, first: date, ran: list[float], leapt: float, before: float) -> list[float]:
    """Return when a job was due in the week, as a calendar tells it; the leap makes everything due that comes daily."""
    written = SCHEDULE[name]
    if written.endswith("h"):
        every = float(written[:-1]) * HOUR_S
        previous = [before, *ran]
        return [leapt if run - last < every - STEP_S else last + every for last, run in pairwise(previous)]
    day, _, clock = written.rpartition(" ")
    dates = [first + timedelta(number) for number in range(1, 8)]
    dues = [at(one, clock) for one in dates if not day or one.strftime("%a").lower() == day]
    if clock == "12:00":
        dues.insert(0, at(first, clock))
    return sorted([*(due for due in dues if due < at(first + timedelta(7), "08:00")), leapt])


def _shown(dues: list[float], ran: list[float]) -> str:
    """Say how often it was due and done; of a time of the day after how many minutes on which day."""
    answers = [(due, next(run for run in ran if run >= due)) for due in dues if due <= ran[-1]]
    late = max(run - due for due, run in answers) / 60
    said = f"due {len(answers)}, done {len(ran)}, at most {late:.0f} min late"
    if len(answers) > 10:
        return said
    return f"{said}: " + ", ".join(f"{_local(due)} +{(run - due) / 60:.0f}" for due, run in answers)


def _local(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone(BERLIN).strftime("%a %H:%M")


ZONES = ("Europe/Berlin", "America/New_York", "Asia/Tokyo", "Australia/Lord_Howe", "America/Sao_Paulo")
EVENTS = st.one_of(
    st.tuples(st.just("awake"), st.floats(60, 30 * HOUR_S)),
    st.tuples(st.just("sleep"), st.floats(1, 100 * HOUR_S)),
    st.tuples(st.just("off"), st.floats(1, 100 * HOUR_S)),
    st.tuples(st.just("clock"), st.sampled_from([YEAR_S, -YEAR_S, DAY_S, -DAY_S, HOUR_S, -HOUR_S, 30.0, -30.0, -0.5])),
    st.tuples(st.just("zone"), st.sampled_from(ZONES)),
    st.tuples(st.just("spared"), st.booleans()),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(EVENTS, max_size=14), st.integers(0, 365 * 24))
def test_whatever_happens_each_job_comes_and_none_comes_twice(events: list[tuple[str, object]], hours: int) -> None:
    with in_zone("Europe/Berlin"), travelling(1_735_689_600.0 + hours * HOUR_S) as clock:
        machine = Machine(clock, SCHEDULE, rescan_s=1800.0)
        times = machine.settings.timetable()
        # Which dates were answered since the clock was set last; and the last run by the clock that is never wrong.
        dates: dict[str, list[date]] = {name: [] for name in DUTIES}
        seen, last = 0, dict[str, float]()
        for kind, value in [*events, ("spared", False), ("awake", 26 * HOUR_S)]:
            if kind == "clock":
                machine.set_clock(float(str(value)))
                dates, last = {name: [] for name in DUTIES}, {}
            elif kind == "zone":
                travel_to(str(value))
            elif kind == "spared":
                machine.holds = "on battery" if value else None
            elif kind == "awake":
                machine.awake(float(str(value)), 60.0)
            elif kind == "sleep":
                machine.sleep(float(str(value)))
            else:
                machine.off(float(str(value)))
                dates, last = {name: [] for name in DUTIES}, {}  # what was broken off is done again
            for done in machine.done[seen:]:
                when = times[done.name][1]
                if isinstance(when, At):
                    dates[done.name].append(latest_date(when, done.at))
                elif isinstance(when, Every) and done.name in last:
                    assert done.true - last[done.name] >= when.seconds - 60.0, done.name
                last[done.name] = done.true
            seen = len(machine.done)
            for name, answered in dates.items():
                assert answered == sorted(set(answered)), name
        awake_since = machine.true - 26 * HOUR_S
        for name in set(DUTIES) - {"reindex"}:
            lately = [done for done in machine.runs(name) if done.true >= awake_since]
            assert 1 <= len(lately) <= (6 if name == "retry" else 3), name
        assert len([done for done in machine.runs("rescan") if done.true >= awake_since]) >= 50
