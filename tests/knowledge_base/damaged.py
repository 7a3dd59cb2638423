"""A knowledge base whose database is damaged, and what comes of it."""

from __future__ import annotations

from pathlib import Path

from kbsync.knowledge_base import rebuilt
from kbsync.knowledge_base.rebuilt import Rebuilt
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

PAPER = "/simulated/papers/paper.md"
SCAN = f"{NOTES}/scan.pdf"


def filled(world: World) -> SimulatedEngine:
    """Return an engine that has indexed two notes and a scan; a paper lies elsewhere."""
    world.configure(NOTES)
    engine = SimulatedEngine(world)
    engine.write(f"{NOTES}/locks.md", "# Locks\n\nsteve 363")
    engine.write(f"{NOTES}/left.md", "# Left out\n\nnobody wants it")
    engine.write(SCAN, b"%PDF-1.7\nfirst page\fsecond page")
    world.fs.write(PAPER, b"# Paper\n\nof great weight")
    engine.clock.advance(10)
    engine.settle()
    return engine


def spoil(world: World) -> bytes:
    """Damage the database's header; return the file as it is then."""
    path = Path(world.locations.database)
    content = path.read_bytes()
    path.write_bytes(b"\0" * 100 + content[100:])
    return path.read_bytes()


def came_of_it(engine: SimulatedEngine) -> Rebuilt:
    found = engine.engine.readers.read(rebuilt.read)
    assert found is not None
    return found


def anew(world: World, engine: SimulatedEngine) -> SimulatedEngine:
    """End the engine, damage its database, and live on."""
    engine.close()
    spoil(world)
    engine = SimulatedEngine(world)
    engine.settle(engine.daemon.rescan())
    return engine
