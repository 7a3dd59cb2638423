"""Why work rests and until when, decided without an engine: tables, days on which the clocks are set, wrong clocks."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from kbsync.config.quiet_hours import parse
from kbsync.daemon.rest import Cause, Manners, OnBattery, Pause, Resting, cause_of, quiet_until, resting_by_word, said

BERLIN = ZoneInfo("Europe/Berlin")
NOON = 12 * 60
DAY = 86_400.0


def minute_in(zone: ZoneInfo) -> Callable[[float], int]:
    def minute_of(at: float) -> int:
        local = datetime.fromtimestamp(at, zone)
        return local.hour * 60 + local.minute

    return minute_of


def at(written: str) -> float:
    """Return a moment that is written with its offset from UTC."""
    return datetime.fromisoformat(written).timestamp()


@pytest.mark.parametrize(
    ("is_paused", "quiet", "is_on_battery", "on_battery", "expected"),
    [
        (False, "22:00-06:00", False, "pause", None),
        (False, "11:00-13:00", False, "pause", "quiet_hours"),
        (False, "22:00-06:00", True, "pause", "battery"),
        (False, "22:00-06:00", True, "slow", None),
        (False, "22:00-06:00", True, "go", None),
        (False, "11:00-13:00", True, "pause", "quiet_hours"),
        (True, "22:00-06:00", False, "go", "paused"),
        (True, "11:00-13:00", True, "pause", "paused"),
    ],
)
def test_a_person_s_word_comes_first_then_quiet_hours_then_the_battery(
    is_paused: bool, quiet: str, is_on_battery: bool, on_battery: OnBattery, expected: Cause | None
) -> None:
    """S07: pausing on the battery is for those who want it."""
    manners = Manners((parse(quiet),), on_battery)
    assert cause_of(manners, is_paused=is_paused, minute=NOON, is_on_battery=is_on_battery) == expected


@pytest.mark.parametrize(
    ("written", "now", "until"),
    [
        (["09:00-18:00"], "2031-01-15T12:00:31+01:00", "2031-01-15T18:00+01:00"),
        (["09:00-12:00", "12:00-18:00"], "2031-01-15T09:00+01:00", "2031-01-15T18:00+01:00"),
        (["22:00-06:30"], "2031-01-15T23:00+01:00", "2031-01-16T06:30+01:00"),
        # The night in which clocks go from 02:00 to 03:00: no clock shows 02:30, so 03:00 is the first that is later.
        (["01:00-02:30"], "2031-03-30T01:30+01:00", "2031-03-30T03:00+02:00"),
        (["22:00-06:00"], "2031-03-29T22:00+01:00", "2031-03-30T06:00+02:00"),
        # The night in which they go from 03:00 back to 02:00: that hour is quiet twice, as the clock on the wall says.
        (["01:00-02:30"], "2031-10-26T01:30+02:00", "2031-10-26T02:30+02:00"),
        (["01:00-02:30"], "2031-10-26T02:10+01:00", "2031-10-26T02:30+01:00"),
        (["01:00-03:00"], "2031-10-26T01:00+02:00", "2031-10-26T03:00+01:00"),
        (["23:00-22:00"], "2031-10-25T23:00+02:00", "2031-10-26T22:00+01:00"),
    ],
)
def test_quiet_hours_end_when_the_clock_on_the_wall_says_so(written: list[str], now: str, until: str) -> None:
    hours = [parse(text) for text in written]
    minute_of = minute_in(BERLIN)
    assert any(one.cover(minute_of(at(now))) for one in hours)
    found = quiet_until(hours, at(now), minute_of)
    assert datetime.fromtimestamp(found, BERLIN) == datetime.fromtimestamp(at(until), BERLIN)


@pytest.mark.parametrize(
    ("pause", "now", "left"),
    [
        (Pause(1000.0, None), 5000.0, None),
        (Pause(1000.0, 4600.0), 1000.0, 3600.0),
        (Pause(1000.0, 4600.0), 4000.0, 600.0),
        (Pause(1000.0, 4600.0), 4600.0, 0.0),
        (Pause(1000.0, 4600.0), 9e9, 0.0),
        # The clock was set back by years since: no longer than it was meant for.
        (Pause(1e9, 1e9 + 3600.0), 1000.0, 3600.0),
    ],
)
def test_a_pause_holds_no_longer_than_it_was_meant_for(pause: Pause, now: float, left: float | None) -> None:
    assert pause.left(now) == left
    resting = resting_by_word(pause, now)
    assert (resting is None) == (left == 0.0)
    if resting is not None:
        assert resting.until == (None if left is None else now + left)


def test_what_is_said_names_the_reason_the_end_and_what_to_do() -> None:
    now = 1_900_000_000.0
    assert said(Resting("paused", now, None), now).endswith("; `kbsync resume` goes on.")
    assert " until " in said(Resting("paused", now, now + 60.0), now)
    assert " until " in said(Resting("quiet_hours", now, now + 60.0), now)
    assert "battery" in said(Resting("battery", now, None), now)


def test_an_end_at_midnight_has_its_date() -> None:
    now = time.mktime((2031, 4, 30, 15, 0, 0, 0, 0, -1))
    midnight = time.mktime((2031, 5, 1, 0, 0, 0, 0, 0, -1))
    assert " until 2031-05-01 00:00;" in said(Resting("paused", now, midnight), now)
    assert " until 23:59;" in said(Resting("paused", now, midnight - 60.0), now)


def test_a_pause_of_more_than_a_week_is_brought_to_mind() -> None:
    now = 1_900_000_000.0
    assert ", for 8 days;" in said(Resting("paused", now - 8.5 * DAY, None), now)
    assert "days" not in said(Resting("paused", now - 6.9 * DAY, None), now)
