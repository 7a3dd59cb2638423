"""A passing error is tried again ever later, and not for ever."""

from __future__ import annotations

import pytest

from kbsync.queue import backoff


@pytest.mark.parametrize(
    ("attempts", "expected"), [(1, 5.0), (2, 20.0), (3, 80.0), (4, 320.0), (5, 900.0), (6, None), (7, None)]
)
def test_the_wait_grows_to_its_limit_and_ends(attempts: int, expected: float | None) -> None:
    assert backoff.delay(attempts) == expected


def test_all_attempts_together_take_about_twenty_minutes() -> None:
    waits = [backoff.delay(attempts) for attempts in range(1, backoff.MAX_ATTEMPTS)]
    assert 1000 < sum(wait for wait in waits if wait is not None) < 1800
