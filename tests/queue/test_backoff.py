"""A passing error is tried again ever later, and not for ever."""

from __future__ import annotations

import pytest

from kbsync.queue import backoff
from kbsync.reasons import Reason


@pytest.mark.parametrize(
    ("attempts", "expected"), [(1, 5.0), (2, 20.0), (3, 80.0), (4, 320.0), (5, 900.0), (6, None), (7, None)]
)
def test_the_wait_grows_to_its_limit_and_ends(attempts: int, expected: float | None) -> None:
    assert backoff.delay(attempts, Reason.IO) == expected


def test_all_attempts_together_take_about_twenty_minutes() -> None:
    waits = [backoff.delay(attempts, Reason.IO) for attempts in range(1, backoff.MAX_ATTEMPTS)]
    assert 1000 < sum(wait for wait in waits if wait is not None) < 1800


def test_a_third_death_over_a_file_is_the_last() -> None:
    assert [backoff.delay(attempts, Reason.CRASHED) for attempts in (1, 2, 3)] == [5.0, 20.0, None]
