"""What a document is called follows its first path, also where the disk of that path is away when it is to follow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

DISK = "/simulated/disk"
TEXT = "quince and medlar"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[SimulatedEngine]:
    """Yield an engine that knows one content at two paths, one of them on a disk that can be taken away."""
    world = World.new(tmp_path / "home")
    world.fs.attach_disk(DISK)
    for path in (f"{NOTES}/anchor.md", f"{DISK}/anchor.md"):
        world.fs.write(path, path.encode())
    world.configure(DISK, NOTES)
    engine = SimulatedEngine(world)
    engine.settle()
    engine.write(f"{NOTES}/z.md", TEXT)
    engine.write(f"{DISK}/second.log", TEXT)
    engine.settle()
    yield engine
    engine.close()


def called(engine: SimulatedEngine) -> list[tuple[str, str]]:
    rows = engine.read("SELECT title, type FROM documents WHERE state = 'current' AND title NOT LIKE 'anchor'")
    return [(title, kind) for title, kind in rows]


def test_a_title_follows_when_the_disk_of_the_path_that_gives_it_is_back(engine: SimulatedEngine) -> None:
    assert called(engine) == [("second", "text")], "the disk's path is the first one"
    engine.rename(f"{DISK}/second.log", f"{DISK}/zweite.log")
    engine.settle()
    assert called(engine) == [("zweite", "text")]
    engine.write(f"{DISK}/a.md", TEXT)
    engine.settle()
    assert called(engine) == [("a", "markdown")]
    engine.rescan()  # nothing is to be read again for its age
    # Its path goes, and before anything can follow the disk is away: `zweite.log` cannot be read now.
    engine.remove(f"{DISK}/a.md")
    while engine.state(f"{DISK}/a.md")[0] != "gone":
        engine.loops.producer.step()
        engine.loops.rescans.step()
        engine.clock.advance(0.5)
    engine.fs.unmount(DISK)
    for worker in engine.loops.workers:
        worker.step()  # before any walk notices that the disk is away
    engine.settle()
    assert engine.source_state(DISK)[0] == "paused"
    engine.fs.mount(DISK)
    engine.rescan()
    assert called(engine) == [("zweite", "text")]


def test_text_that_gets_the_name_of_a_document_is_none(engine: SimulatedEngine) -> None:
    """As for a file that was never known by another name: its bytes are no PDF."""
    engine.cage.refused.add("z.pdf")
    engine.rename(f"{NOTES}/z.md", f"{NOTES}/z.pdf")
    engine.rescan()
    assert engine.state(f"{NOTES}/z.pdf") == ("failed", "corrupt")
    assert engine.state(f"{DISK}/second.log")[0] == "indexed"
