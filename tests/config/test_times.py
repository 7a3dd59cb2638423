"""What a setting may say of when something is done; and what it may not, in words for people."""

from __future__ import annotations

from datetime import time

import pytest

from kbsync.config.times import At, Every, When, parse, written


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", Every(90)),
        ("90s", Every(90)),
        ("6h", Every(21_600)),
        ("1.5 hours", Every(5_400)),
        ("1 minute", Every(60)),
        ("30 min", Every(1_800)),
        ("7d", Every(604_800)),
        ("2 Weeks", Every(1_209_600)),
        ("03:30", At(3, 30)),
        (" 3:30 ", At(3, 30)),
        ("sun 04:00", At(4, 0, 6)),
        ("Monday 23:59", At(23, 59, 0)),
        ("off", None),
    ],
)
def test_what_may_be_written(text: str, expected: When | None) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a time such as"),
        ("soon", "a time such as"),
        ("-6h", "a time such as"),
        ("6 h 30 m", "a time such as"),
        ("1e9", "a time such as"),
        ("10s", "from a minute to 30 days"),
        ("31d", "from a minute to 30 days"),
        ("9" * 400, "from a minute to 30 days"),
        ("24:00", "from 00:00 to 23:59"),
        ("12:60", "from 00:00 to 23:59"),
        ("day 12:00", "day is no day of the week: one of mon, tue"),
    ],
)
def test_what_may_not(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(3600, "3600s"), (90.5, "90.5s"), ("Sun  04:00", "sun 04:00"), (time(3, 30), "03:30"), ("OFF", "off")],
)
def test_toml_has_numbers_and_times_of_its_own(value: object, expected: str) -> None:
    assert written(value) == expected


@pytest.mark.parametrize("value", [True, None, ["6h"], time(3, 30, 15), float("inf"), float("nan"), 0])
def test_anything_else_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        written(value)
