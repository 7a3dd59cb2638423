"""When a slot ends a job that takes too long, decided without a child."""

from __future__ import annotations

import pytest

from kbsync.pipelines.isolated_slot import is_over


@pytest.mark.parametrize(
    ("late", "waited", "expected"),
    [
        (0.1, 0.0, True),
        (50.0, 60.0, False),
        (61.0, 60.0, True),
        (399.0, 9000.0, False),
        (401.0, 9000.0, True),
        (0.1, -5.0, True),  # the thread that had waited is gone
    ],
)
def test_what_a_child_waited_for_the_cpu_does_not_count_within_bounds(
    late: float, waited: float, expected: bool
) -> None:
    assert is_over(late, waited, time_limit_s=100.0) == expected
