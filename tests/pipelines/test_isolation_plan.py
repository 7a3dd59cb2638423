"""How many children run, with how many threads, and how long a document may take: decided without a child."""

from __future__ import annotations

import pytest

from kbsync.pipelines.isolation import Cage, plan, time_limit_for

GIGABYTE = 1 << 30


@pytest.mark.parametrize(
    ("workers", "cores", "gigabytes", "expected"),
    [
        (4, 2, 24, (2, 1)),
        (4, 16, 64, (4, 4)),
        (4, 16, 8, (3, 5)),
        (1, 2, 24, (1, 2)),
        (4, 1, 1, (1, 1)),
        (64, 6, 1000, (6, 1)),
    ],
)
def test_as_many_run_as_cores_and_memory_bear(
    workers: int, cores: int, gigabytes: int, expected: tuple[int, int]
) -> None:
    slots = plan(workers, cores, gigabytes * GIGABYTE)
    assert (slots.count, slots.threads) == expected
    assert slots.gpus == ()


def test_several_gpus_are_dealt_out_and_one_needs_no_dealing() -> None:
    assert Cage.plan(3, 8, 64 * GIGABYTE, ("0", "1")).gpus == ("0", "1", "0")
    assert Cage.plan(3, 8, 64 * GIGABYTE, ("0",)).gpus == ()


@pytest.mark.parametrize(
    ("pages", "size", "expected"),
    [(0, 0, 120), (1, 10**9, 140), (10**6, 1, 3600), (None, 0, 120), (None, 500_000, 620)],
)
def test_the_time_limit_follows_the_pages(pages: int | None, size: int, expected: float) -> None:
    assert time_limit_for(pages, size) == expected
