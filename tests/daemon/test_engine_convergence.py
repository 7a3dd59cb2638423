"""With lost events and killed processes on the way, one walk later the index is what the disk says."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.hash_embedder import HashDevice
from tests.fakes.mortal import Fate, Killed, MortalClock, MortalFileSystem
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World
from tests.fakes.simulated_filesystem import SimulatedFileSystem

ARCHIVE = "/simulated/archive"
ROOTS = (NOTES, ARCHIVE)
FILES = [f"{root}/{name}" for root in ROOTS for name in ("a.md", "b.txt", "deep/c.md", "deep/d.log", "e.py")]
CONTENTS = [
    "quince",
    "# Trees\n\nmedlar",
    "# Trees\n\nmedlar\n\n## Shrubs\n\n" + "sloe " * 70,
    "def ripen():\n    return 'late'\n",
    "",
    "\x00\x01\x02\x03" * 300,
]
RULES = ["", "a.md\n", "deep/\n", "*.txt\n!b.txt\n"]

write = st.tuples(st.just("write"), st.sampled_from(FILES), st.sampled_from(CONTENTS))
remove = st.tuples(st.just("remove"), st.sampled_from(FILES), st.just(""))
rename = st.tuples(st.just("rename"), st.sampled_from(FILES), st.sampled_from(FILES))
rules = st.tuples(st.just("write"), st.sampled_from([f"{root}/.gitignore" for root in ROOTS]), st.sampled_from(RULES))
told = st.sampled_from(["told", "lost", "twice", "late"])
wait = st.sampled_from([0.0, 0.1, 0.5, 3.0, 400.0])
turns = st.integers(0, 3)
step = st.tuples(st.one_of(write, write, write, remove, rename, rules), told, wait, turns, st.booleans())


@contextmanager
def _life(world: World) -> Iterator[SimulatedEngine]:
    engine = SimulatedEngine(world)
    try:
        yield engine
    finally:
        engine.close()


def _new_world(home: Path) -> World:
    world = World.new(home)
    world.configure(*ROOTS)
    for root in ROOTS:
        world.fs.write(f"{root}/anchor.md", b"so that no folder is ever empty")
    return world


def _index_of_a_clean_run(world: World, home: Path) -> dict[str, list[tuple[object, ...]]]:
    clean = World(home, world.clock, world.fs, HashDevice())
    clean.configure(*ROOTS)
    with _life(clean) as engine:
        engine.settle()
        engine.rescan()
        return engine.index()


def _change(fs: SimulatedFileSystem, action: tuple[str, str, str]) -> list[tuple[str, bool]]:
    """Do it where it can be done and return what a watcher would tell: (path, gone)."""
    what, path, more = action
    if what == "write":
        fs.write(path, more.encode())
        return [(path, False)]
    try:
        fs.lstat(path)
    except OSError:
        return []
    if what == "remove":
        fs.remove(path)
        return [(path, True)]
    fs.rename(path, more)
    return [(path, True), (more, False)]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(step, max_size=14), order=st.randoms(use_true_random=False))
def test_lost_duplicated_and_shuffled_events_and_one_walk_reach_the_index_of_a_clean_run(
    steps: list[tuple[tuple[str, str, str], str, float, int, bool]], order: object
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = _new_world(Path(folder, "home"))
        with _life(world) as engine:
            late: list[tuple[str, bool]] = []
            for action, told, wait, turns, closed in steps:
                events = _change(world.fs, action)
                if told == "late":
                    late += events
                for path, gone in events * {"told": 1, "lost": 0, "twice": 2, "late": 0}[told]:
                    engine.report(path, closed=closed and not gone, gone=gone)
                world.clock.advance(wait)
                for _ in range(turns):
                    engine.turn()
            order.shuffle(late)  # type: ignore[attr-defined]  # hypothesis hands in a random.Random
            for path, gone in late:
                engine.report(path, gone=gone)
            engine.settle()
            engine.rescan()
            reached = engine.index()
        assert reached == _index_of_a_clean_run(world, Path(folder, "clean"))


# ---- killed between any two steps ----


A, B, C = f"{NOTES}/a.md", f"{NOTES}/b.md", f"{ARCHIVE}/c.md"
STORY: list[list[tuple[str, str, str]]] = [
    [("write", A, "# Trees\n\nquince"), ("write", B, "# Trees\n\nquince"), ("write", C, "sloe")],
    [("write", A, "medlar"), ("write", f"{NOTES}/noise.md", "\x00\x01\x02" * 500)],
    [("rename", B, f"{ARCHIVE}/moved.md"), ("remove", C, "")],
    [("write", f"{ARCHIVE}/.gitignore", "moved.md\n")],
    [("write", C, "sloe"), ("write", f"{ARCHIVE}/.gitignore", "")],
]


def _told(home: Path, kill_at: int | None) -> tuple[World, dict[str, list[tuple[object, ...]]], int]:
    """Tell the story, the engine killed once on the way and begun again; return (world, index, looks)."""
    clock = MortalClock(Fate(kill_at))
    world = World(home, clock, MortalFileSystem(clock), HashDevice())
    world.configure(*ROOTS)
    for root in ROOTS:
        world.fs.write(f"{root}/anchor.md", b"so that no folder is ever empty")
    engine: SimulatedEngine | None = None
    try:
        for chapter in STORY:
            events = [event for action in chapter for event in _change(world.fs, action)]
            while True:
                try:
                    engine = engine or SimulatedEngine(world)
                    for path, gone in events:
                        engine.report(path, gone=gone)
                    engine.settle()
                    engine.rescan()
                    break
                except Killed:
                    if engine is not None:
                        engine.close()
                    engine, events = None, []
        assert engine is not None
        looks = clock.fate.looks
        return world, engine.index(), looks
    finally:
        if engine is not None:
            engine.close()


@pytest.mark.parametrize("part", range(3))
def test_killed_anywhere_and_begun_again_it_reaches_the_index_of_a_clean_run(tmp_path: Path, part: int) -> None:
    world, untroubled, looks = _told(tmp_path / "untroubled", None)
    assert untroubled == _index_of_a_clean_run(world, tmp_path / "clean")
    moments = range(1 + part, looks, max(looks // 24, 1) * 3)
    assert len(moments) >= 6
    for moment in moments:
        world, reached, _ = _told(tmp_path / f"killed-{moment}", moment)
        assert world.clock.fate.looks > moment, "it was killed"  # type: ignore[attr-defined]  # a MortalClock
        assert reached == untroubled, f"killed at look {moment}"
