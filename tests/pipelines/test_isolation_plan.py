"""How many children run, with how many threads, and how long a document may take: decided without a child."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbsync.machine import Memory
from kbsync.pipelines.isolation_plan import PACKAGED_BYTES, budget, gpus_for, plan, present_gpus, time_limit_for

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
    slots = plan(workers, cores, gigabytes * GIGABYTE, PACKAGED_BYTES)
    assert (slots.count, slots.threads) == expected
    assert slots.gpus == ()


@pytest.mark.parametrize(
    ("total", "limit", "wanted_mb", "expected"),
    [
        (32, 32, None, 16),
        (6, 6, None, 4),  # half would be too little for anything
        (2, 2, None, 2),
        (64, 5, None, 5),  # a container's
        (64, 64, 8 << 10, 8),
        (64, 5, 8 << 10, 5),
    ],
)
def test_half_of_the_machine_is_planned_with_unless_something_else_is_said(
    total: int, limit: int, wanted_mb: int | None, expected: int
) -> None:
    memory = Memory(total * GIGABYTE, limit * GIGABYTE, 0)
    assert budget(memory, wanted_mb) == expected * GIGABYTE


def test_gpus_are_dealt_out_in_turn() -> None:
    assert plan(3, 8, 64 * GIGABYTE, 3 * GIGABYTE, ("0", "1")).gpus == ("0", "1", "0")
    assert plan(3, 8, 64 * GIGABYTE, 3 * GIGABYTE, ("1",)).gpus == ("1", "1", "1")


@pytest.mark.parametrize(
    ("device", "present", "expected"),
    [
        ("auto", (), ()),
        ("auto", ("0", "1"), ("0", "1")),
        ("cuda", ("0", "1"), ("0", "1")),
        ("cuda:1", ("0", "1"), ("1",)),
        (["cuda:1", "cuda:0"], ("4", "7"), ("7", "4")),
        ("cpu", ("0", "1"), ("",)),
        (["cuda:9"], ("0",), ("",)),
    ],
)
def test_children_see_the_gpus_that_the_setting_names(
    device: str | list[str], present: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert gpus_for(device, present) == expected


def test_gpus_are_those_of_the_driver_unless_the_environment_hides_some(tmp_path: Path) -> None:
    for address in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / address).mkdir()
    assert present_gpus({}, str(tmp_path)) == ("0", "1")
    assert present_gpus({"CUDA_VISIBLE_DEVICES": "1, GPU-8f"}, str(tmp_path)) == ("1", "GPU-8f")
    assert present_gpus({"CUDA_VISIBLE_DEVICES": ""}, str(tmp_path)) == ()
    assert present_gpus({}, str(tmp_path / "none")) == ()


@pytest.mark.parametrize(
    ("pages", "size", "expected"),
    [(0, 0, 120), (1, 10**9, 140), (10**6, 1, 3600), (None, 0, 120), (None, 500_000, 620)],
)
def test_the_time_limit_follows_the_pages(pages: int | None, size: int, expected: float) -> None:
    assert time_limit_for(pages, size) == expected
