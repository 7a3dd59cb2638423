"""How long `kbsync pause` is to last, as people say it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kbsync.errors import UsageError
from kbsync.interfaces.cli.pause import seconds_of

HOUR = 3600.0


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def local(*moment: int) -> float:
    """Return a local time (year, month, day, hour, minute)."""
    return time.mktime((*moment, 0, 0, 0, -1))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("", None),
        ("1h", HOUR),
        ("30m", 1800.0),
        ("90s", 90.0),
        ("2h30m", 2.5 * HOUR),
        ("2h 30m", 2.5 * HOUR),
        ("1.5h", 1.5 * HOUR),
        ("2d", 48 * HOUR),
        ("45 minutes", 2700.0),
        ("1 Hour", HOUR),
        ("10min", 600.0),
        ("1d", 24 * HOUR),
        ("1w", 168 * HOUR),
        ("2 weeks", 336 * HOUR),
        ("for 1h", HOUR),
        ("For 2h 30m", 2.5 * HOUR),
    ],
)
def test_a_duration_is_understood_as_people_write_it(said: str, seconds: float | None) -> None:
    assert seconds_of(said, 1e9) == seconds


@pytest.mark.parametrize(
    ("said", "now", "until"),
    [
        ("until 18:00", (2031, 1, 15, 12, 0), (2031, 1, 15, 18, 0)),
        ("until 7:30", (2031, 1, 15, 12, 0), (2031, 1, 16, 7, 30)),
        ("until 12:00", (2031, 1, 15, 12, 0), (2031, 1, 16, 12, 0)),
        ("until 18:00", (2031, 1, 31, 20, 0), (2031, 2, 1, 18, 0)),
        # Over the night in which the clocks are set.
        ("until 08:00", (2031, 3, 29, 22, 0), (2031, 3, 30, 8, 0)),
        ("until 08:00", (2031, 10, 25, 22, 0), (2031, 10, 26, 8, 0)),
        ("until 2031-05-01", (2031, 1, 15, 12, 0), (2031, 5, 1, 0, 0)),
        ("until 2031-01-16 09:15", (2031, 1, 15, 12, 0), (2031, 1, 16, 9, 15)),
    ],
)
@pytest.mark.usefixtures("berlin")
def test_until_is_the_next_time_that_the_clock_shows_it(
    said: str, now: tuple[int, ...], until: tuple[int, ...]
) -> None:
    assert seconds_of(said, local(*now)) == local(*until) - local(*now)


@pytest.mark.parametrize(
    "said",
    [
        "soon",
        "1",
        "1h later",
        "-1h",
        "0m",
        "until",
        "until noon",
        "until 25:00",
        "until 2001-01-01",
        "h",
        "1hh",
        "for",
        "for ever",
    ],
)
def test_what_is_no_time_to_come_is_refused_with_examples(said: str) -> None:
    with pytest.raises(UsageError) as raised:
        seconds_of(said, 1.9e9)
    assert "2h30m" in raised.value.hint
