"""When a job is due: nights on which the clocks are changed, journeys, and clocks that are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from apscheduler.triggers.cron import CronTrigger

from kbsync.config.times import At, Every
from kbsync.daemon.due import Run, believed, first_after, latest_date, next_due, run_at, set_back
from tests.fakes.timetabled_machine import in_zone

DAY_S, YEAR_S = 86_400.0, 365 * 86_400.0
BERLIN = "Europe/Berlin"


@pytest.fixture(autouse=True)
def _berlin() -> Iterator[None]:
    with in_zone(BERLIN):
        yield


def moment(text: str, zone: str = BERLIN, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def local(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone(ZoneInfo(BERLIN)).strftime("%a %d %H:%M %Z")


def nights(when: At, begin: str, count: int) -> list[str]:
    """Return when it comes, asked anew right after each time that it came."""
    found, now = [], moment(begin)
    for _ in range(count):
        now = first_after(when, now)
        found.append(local(now))
    return found


def test_a_time_that_does_not_exist_comes_as_soon_as_there_is_a_time_again() -> None:
    assert nights(At(2, 30), "2025-03-29 12:00", 2) == ["Sun 30 03:30 CEST", "Mon 31 02:30 CEST"]


def test_a_time_that_comes_twice_counts_once() -> None:
    assert nights(At(2, 30), "2025-10-25 12:00", 2) == ["Sun 26 02:30 CEST", "Mon 27 02:30 CET"]


def test_between_the_two_the_second_one_is_not_due() -> None:
    between = moment("2025-10-26 02:45")
    assert local(first_after(At(2, 30), between)) == "Mon 27 02:30 CET"
    assert latest_date(At(2, 30), moment("2025-10-26 02:15", fold=1)) == date(2025, 10, 26)


def test_midnight_may_not_exist_either() -> None:
    with in_zone("America/Sao_Paulo"):
        now = first_after(At(0, 30), moment("2018-11-03 12:00", "America/Sao_Paulo"))
        assert now == moment("2018-11-04 01:30", "America/Sao_Paulo")
        assert first_after(At(0, 30), now) == moment("2018-11-05 00:30", "America/Sao_Paulo")


def test_apschedulers_own_trigger_is_no_help_there() -> None:
    """Why there is one of our own: it comes twice where an hour does, and not at all where midnight is missing."""
    trigger = CronTrigger(hour=2, minute=30, timezone=BERLIN)
    first = trigger.get_next_fire_time(None, datetime.fromtimestamp(moment("2025-10-25 12:00"), UTC))
    second = trigger.get_next_fire_time(first, first)
    assert second.timestamp() - first.timestamp() == 3600.0
    trigger = CronTrigger(hour=0, minute=30, timezone="America/Sao_Paulo")
    noon = datetime.fromtimestamp(moment("2018-11-03 12:00", "America/Sao_Paulo"), UTC)
    assert trigger.get_next_fire_time(None, noon).day == 5


def test_a_day_of_the_week_is_that_day_on_either_side_of_the_change() -> None:
    assert nights(At(4, 0, 6), "2025-03-23 12:00", 2) == ["Sun 30 04:00 CEST", "Sun 06 04:00 CEST"]
    assert nights(At(4, 0, 6), "2025-03-30 03:59", 1) == ["Sun 30 04:00 CEST"]


def test_what_was_missed_is_due_at_the_time_that_was_missed() -> None:
    last = run_at(At(3, 30), moment("2025-03-24 03:31"))
    assert local(next_due(At(3, 30), last, moment("2025-03-29 09:00"))) == "Tue 25 03:30 CET"


def test_what_was_made_up_for_late_comes_again_at_its_time() -> None:
    last = run_at(At(3, 30), moment("2025-03-24 23:50"))
    assert local(next_due(At(3, 30), last, moment("2025-03-25 00:00"))) == "Tue 25 03:30 CET"


def test_what_never_ran_is_due_now() -> None:
    assert next_due(Every(60), None, 5.0) == next_due(At(3, 30), None, 5.0) == 5.0


def test_an_hour_is_an_hour_whatever_the_clocks_do() -> None:
    begun = moment("2025-03-30 01:30")
    assert next_due(Every(3600), Run(begun), begun) == begun + 3600


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("America/New_York", "2025-03-26 03:30"),  # 03:30 of the 25th comes again there
        ("Asia/Tokyo", "2025-03-26 03:30"),
        ("Pacific/Kiritimati", "2025-03-26 03:30"),
    ],
)
def test_a_journey_brings_no_date_a_second_time(zone: str, expected: str) -> None:
    last = run_at(At(3, 30), moment("2025-03-25 03:30"))
    assert last.of == date(2025, 3, 25)
    with in_zone(zone):
        assert next_due(At(3, 30), last, last.at) == moment(expected, zone)


@pytest.mark.parametrize("when", [Every(DAY_S), At(3, 30), At(4, 0, 6)])
def test_what_a_clock_wrote_that_was_a_year_ahead_puts_nothing_off(when: Every | At) -> None:
    now = moment("2025-03-25 12:00")
    assert believed(when, run_at(when, now + YEAR_S), now) is None
    assert believed(when, run_at(when, now - YEAR_S), now) == run_at(when, now - YEAR_S)


@pytest.mark.parametrize("when", [Every(DAY_S), At(3, 30)])
def test_a_clock_that_was_some_hours_ahead_makes_nothing_run_twice(when: Every | At) -> None:
    now = moment("2025-03-25 12:00")
    last = believed(when, run_at(when, now + 3600.0), now)
    assert last is not None
    assert now < next_due(when, last, now) <= now + DAY_S


@pytest.mark.parametrize("when", [Every(DAY_S), At(3, 30), At(11, 0)])
def test_a_clock_that_is_set_back_a_year_puts_off_by_no_more_than_a_period(when: Every | At) -> None:
    now = moment("2025-03-25 12:00")
    last = set_back(when, run_at(when, now + YEAR_S), now, elapsed=600.0)
    assert now < next_due(when, last, now) <= now + DAY_S


def test_an_interval_counts_from_when_it_ran_by_the_clock_that_nobody_sets() -> None:
    assert set_back(Every(3600), Run(5_000.0), 1_000.0, elapsed=600.0) == Run(400.0)
    assert set_back(Every(3600), Run(100.0), 1_000.0, elapsed=600.0) == Run(100.0)


def test_a_clock_that_is_set_back_over_the_time_brings_that_date_no_second_time() -> None:
    at = moment("2025-03-25 03:31")
    last = set_back(At(3, 30), run_at(At(3, 30), at), at - 3600.0, elapsed=0.0)
    assert local(next_due(At(3, 30), last, at - 3600.0)) == "Wed 26 03:30 CET"
