"""Quiet hours as they are written, and which minutes of a day lie in them."""

from __future__ import annotations

import pytest

from kbsync.config.quiet_hours import leave_no_time, parse


def minute(clock: str) -> int:
    hours, minutes = clock.split(":")
    return int(hours) * 60 + int(minutes)


@pytest.mark.parametrize(
    ("written", "inside", "outside"),
    [
        ("09:00-18:00", ["09:00", "12:30", "17:59"], ["08:59", "18:00", "00:00", "23:59"]),
        ("22:00-06:30", ["22:00", "23:59", "00:00", "06:29"], ["06:30", "12:00", "21:59"]),
        ("18:00-24:00", ["18:00", "23:59"], ["00:00", "17:59"]),
        ("18:00-00:00", ["18:00", "23:59"], ["00:00", "17:59"]),
        ("0:00-7:05", ["00:00", "07:04"], ["07:05", "23:59"]),
        (" 9:00 – 10:00 ", ["09:30"], ["10:00"]),
    ],
)
def test_hours_cover_from_their_first_minute_to_before_their_last(
    written: str, inside: list[str], outside: list[str]
) -> None:
    hours = parse(written)
    assert [hours.cover(minute(clock)) for clock in inside] == [True] * len(inside)
    assert [hours.cover(minute(clock)) for clock in outside] == [False] * len(outside)
    assert parse(str(hours)) == hours


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("9-18", "not written like"),
        ("09:00", "not written like"),
        ("", "not written like"),
        ("09:00-18:00 and more", "not written like"),
        ("24:30-09:00", "no clock shows"),
        ("09:60-18:00", "no clock shows"),
        ("09:00-09:00", "always"),
        ("00:00-24:00", "always"),
    ],
)
def test_what_is_no_time_is_refused_by_name(written: str, told: str) -> None:
    with pytest.raises(ValueError, match=told) as raised:
        parse(written)
    assert repr(written) in str(raised.value)


def test_hours_that_fill_the_day_together_leave_no_time_to_work() -> None:
    day = [parse("06:00-12:00"), parse("11:00-22:00"), parse("22:00-06:00")]
    assert leave_no_time(day)
    assert not leave_no_time(day[:2])
    assert not leave_no_time([])
