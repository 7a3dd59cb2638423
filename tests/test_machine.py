"""What there is of the machine for us, read from folders as Linux makes them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from kbsync.machine import cores, memory, on_battery, waited_for_cpu

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="cgroups and power supplies are Linux's")

MEGABYTE = 1 << 20
GIGABYTE = 1 << 30


class Battery(NamedTuple):
    """As psutil tells it."""

    percent: float
    secsleft: int
    power_plugged: bool | None


def lay_out(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")


def group(root: Path, membership: str, files: dict[str, str]) -> tuple[str, str]:
    """Return what is to be asked, where a process is in a group and its folders hold these files."""
    lay_out(root / "cgroup", files)
    (root / "membership").write_text(membership + "\n")
    return str(root / "cgroup"), str(root / "membership")


@pytest.mark.parametrize(
    ("membership", "files", "expected"),
    [
        ("0::/", {}, 8),
        ("0::/", {"cpu.max": "max 100000"}, 8),
        ("0::/", {"cpu.max": "250000 100000"}, 2),
        ("0::/", {"cpu.max": "50000 100000"}, 1),
        ("0::/user.slice/kbsync.service", {"user.slice/cpu.max": "300000 100000"}, 3),
        (
            "0::/user.slice/kbsync.service",
            {"user.slice/cpu.max": "300000 100000", "user.slice/kbsync.service/cpu.max": "200000 100000"},
            2,
        ),
        # As a container sees its own group from outside: only the outermost folder is there.
        ("0::/../../docker/12ab", {"cpu.max": "400000 100000"}, 4),
        ("3:cpu,cpuacct:/docker/12ab", {"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, 4),
        ("3:cpu,cpuacct:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ("0::/", {"cpu.max": "nonsense"}, 8),
    ],
)
def test_a_container_s_share_of_the_cores_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, membership: str, files: dict[str, str], expected: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)))
    assert cores(*group(tmp_path, membership, files)) == expected


@pytest.mark.parametrize(
    ("membership", "files", "limit", "free"),
    [
        ("0::/", {}, 16, 9),
        ("0::/", {"memory.max": "max"}, 16, 9),
        ("0::/", {"memory.max": str(4 * GIGABYTE), "memory.current": str(1 * GIGABYTE)}, 4, 3),
        # The cache of files is given back at need.
        (
            "0::/",
            {
                "memory.max": str(4 * GIGABYTE),
                "memory.current": str(3 * GIGABYTE),
                "memory.stat": f"anon {GIGABYTE}\ninactive_file {2 * GIGABYTE}",
            },
            4,
            3,
        ),
        # A unit's MemoryHigh slows down what goes over it.
        ("0::/a/b", {"a/b/memory.high": str(2 * GIGABYTE), "a/memory.max": str(4 * GIGABYTE)}, 2, 2),
        ("4:memory:/x", {"memory/memory.limit_in_bytes": str((1 << 63) - 4096)}, 16, 9),
        (
            "4:memory:/x",
            {
                "memory/x/memory.limit_in_bytes": str(3 * GIGABYTE),
                "memory/x/memory.usage_in_bytes": str(3 * GIGABYTE),
                "memory/x/memory.stat": f"cache 1\ntotal_inactive_file {GIGABYTE}",
            },
            3,
            1,
        ),
        ("0::/", {"memory.max": str(4 * GIGABYTE), "memory.current": str(5 * GIGABYTE)}, 4, 0),
    ],
)
def test_a_container_s_or_a_unit_s_memory_counts_and_what_is_free_of_it_now(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    membership: str,
    files: dict[str, str],
    limit: int,
    free: int,
) -> None:
    class Virtual(NamedTuple):
        total: int = 16 * GIGABYTE
        available: int = 9 * GIGABYTE

    monkeypatch.setattr(psutil, "virtual_memory", Virtual)
    found = memory(*group(tmp_path, membership, files))
    assert (found.total, found.limit, found.free) == (16 * GIGABYTE, limit * GIGABYTE, free * GIGABYTE)


def test_of_this_machine_something_is_there() -> None:
    found = memory()
    assert cores() >= 1
    assert 0 < found.limit <= found.total
    assert 0 < found.free <= found.limit


@pytest.mark.parametrize(
    ("supplies", "told", "expected"),
    [
        ({}, None, False),
        ({"AC": {"type": "Mains"}}, None, False),
        ({"BAT0": {"type": "Battery"}}, Battery(80, 3600, False), True),
        ({"BAT0": {"type": "Battery", "scope": "System"}}, Battery(80, 3600, False), True),
        ({"BAT0": {"type": "Battery"}}, Battery(80, 3600, True), False),
        ({"BAT0": {"type": "Battery"}}, Battery(80, 3600, None), False),
        # A mouse's battery runs down, and the machine is plugged in.
        ({"hidpp_battery_0": {"type": "Battery", "scope": "Device"}}, Battery(80, 3600, False), False),
    ],
)
def test_only_a_machine_that_runs_on_its_own_battery_does_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    supplies: dict[str, dict[str, str]],
    told: Battery | None,
    expected: bool,
) -> None:
    """S07: no battery is none that runs down."""
    lay_out(tmp_path, {f"{name}/{key}": text for name, supply in supplies.items() for key, text in supply.items()})
    monkeypatch.setattr(psutil, "sensors_battery", lambda: told)
    assert on_battery(str(tmp_path)) is expected


def test_a_battery_that_cannot_be_read_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S07: what a driver writes is not always a number."""

    def fail() -> None:
        raise ValueError("invalid literal for int()")

    lay_out(tmp_path, {"BAT0/type": "Battery"})
    monkeypatch.setattr(psutil, "sensors_battery", fail)
    assert on_battery(str(tmp_path)) is False
    assert on_battery(str(tmp_path / "none")) is False


def test_of_a_process_the_thread_counts_that_waited_longest(tmp_path: Path) -> None:
    lay_out(
        tmp_path,
        {
            "7/task/7/schedstat": "9000000000 1500000000 30",
            "7/task/8/schedstat": "1000000000 4250000000 30",
            "7/task/9/schedstat": "nonsense",
        },
    )
    assert waited_for_cpu(7, str(tmp_path)) == 4.25
    assert waited_for_cpu(8, str(tmp_path)) == 0.0
