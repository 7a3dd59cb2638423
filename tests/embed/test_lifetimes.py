"""When a model goes that nobody needs, and when one is tried again that died: tables."""

from __future__ import annotations

import pytest

from kbsync.embed.lifetimes import Deaths, Idleness

HOUR = 3600.0


@pytest.mark.parametrize(
    ("idle_s", "since_work", "since_search", "is_over"),
    [
        (300.0, 299.0, None, False),
        (300.0, 300.0, None, True),
        (300.0, 301.0, 301.0, False),
        (300.0, HOUR, HOUR - 1, False),
        (300.0, HOUR, HOUR, True),
        (300.0, 10.0, HOUR, False),
        (0.0, 0.0, None, True),
        (0.0, 0.0, 0.0, True),
        (None, 1e9, None, False),
    ],
)
def test_a_model_goes_when_nobody_needed_it_for_long_and_later_where_somebody_searched(
    idle_s: float | None, since_work: float, since_search: float | None, is_over: bool
) -> None:
    now = 1e6
    asked_at = None if since_search is None else now - since_search
    assert Idleness(idle_s).is_over(now, now - since_work, asked_at) is is_over


def test_what_dies_again_and_again_is_left_alone_for_ever_longer() -> None:
    deaths = Deaths()
    pauses = []
    for _ in range(9):
        pauses.append(deaths.pause_s)
        deaths.died()
    assert pauses[:3] == [0, 0, 0]
    assert pauses[3:] == [60, 240, 960, 3600, 3600, 3600]
    deaths.lived()
    assert deaths.pause_s == 0
