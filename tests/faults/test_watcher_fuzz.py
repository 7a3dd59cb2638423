"""T7: random traces on a real disk under real watchers. Events are hints; after a rescan the index is what it must be.

Each run prints its seed, how many steps were played, and in how many files the events alone would have been wrong.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.watched_disk import WatchedDisk, clean_run
from tests.faults.disk_traces import OUTSIDE, ROOTS, play, trace

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these are inotify's events")

SEEDS = range(4)
STEPS = 150


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    ground = tmp_path.resolve() / "ground"
    for name in (*ROOTS, OUTSIDE):
        (ground / name).mkdir(parents=True)
    return ground


@pytest.fixture
def disk(home: Path, ground: Path) -> Iterator[WatchedDisk]:
    disk = WatchedDisk(home / "kept", [ground / name for name in ROOTS])
    disk.rescan()
    yield disk
    disk.close()


def on_disk(roots: list[Path]) -> dict[str, str]:
    """Return path -> hash of what lies in the sources: looked up in another way than kbsync does."""
    found = {}
    for root in roots:
        for folder, _, names in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                found[path] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return found


def in_index(disk: WatchedDisk) -> dict[str, str]:
    rows = disk.read("SELECT path, content_hash FROM files WHERE state = 'indexed'")
    return {os.fsdecode(path): content_hash for path, content_hash in rows}


def differing(disk: WatchedDisk, roots: list[Path]) -> int:
    there, known = on_disk(roots), in_index(disk)
    return sum(there.get(path) != known.get(path) for path in there.keys() | known.keys())


def test_the_same_seed_makes_the_same_trace() -> None:
    assert trace(1, 400) == trace(1, 400)
    assert trace(1, 400) != trace(2, 400)
    kinds = {step.what for seed in SEEDS for step in trace(seed, STEPS)}
    assert len(kinds) >= 15, "every kind of step is among the traces"


@pytest.mark.parametrize("seed", SEEDS)
def test_w08_to_w12_after_any_trace_and_a_rescan_the_index_is_that_of_a_clean_run(
    disk: WatchedDisk, ground: Path, home: Path, seed: int, told: Callable[[str], None]
) -> None:
    """W08 W09 W10 W11 W12: mixed at random. Without the rescan nothing is asserted: that is the events' quality."""
    roots = [ground / name for name in ROOTS]
    steps = trace(seed, STEPS)
    wrong = looks = 0
    for number, step in enumerate(steps, start=1):
        play(ground, step)
        if number % 50 == 0:
            disk.hear()
            disk.work_off()
            wrong, looks = wrong + differing(disk, roots), looks + 1
            disk.settle()
    disk.hear()
    disk.settle()
    by_marks = differing(disk, roots)
    disk.rescan()
    told(
        f"T7 seed {seed}: {len(steps)} steps, {len(on_disk(roots))} files at the end; events alone leave "
        f"{wrong / max(looks, 1):.1f} files to the rescan, walks that events asked for {by_marks}"
    )
    assert in_index(disk) == on_disk(roots)
    assert disk.index() == clean_run(home / "clean", roots)
