"""`status` names what stands in the way of kbsync's own storage, with the remedy."""

from __future__ import annotations

import dataclasses

from kbsync.interfaces.operations import Operations
from kbsync.sources.mounts import Mount
from kbsync.store.connection import WAL_LIMIT_BYTES
from tests.fakes.lives import engine, started, world
from tests.fakes.simulated_engine import SimulatedEngine

__all__ = ["engine", "started", "world"]


def test_a_log_that_another_program_holds_is_named_with_its_size(engine: SimulatedEngine) -> None:
    """D10: a checkpoint that does not get through is no secret."""
    operations = Operations(engine.engine, engine.daemon)
    wal = engine.engine.writer.wal
    assert wal is not None
    assert operations.status()["notices"] == []
    wal.held, wal._pages = True, WAL_LIMIT_BYTES // 2048
    [notice] = operations.status()["notices"]
    assert f"{engine.engine.locations.database}-wal has grown to 128 MB" in notice
    assert "Close programs that have it open" in notice
    assert operations.search("quince", "lexical")["notices"] == [notice]


def test_a_database_on_a_network_disk_is_named_with_the_remedy(engine: SimulatedEngine) -> None:
    """D17: the reason, and where it should lie."""
    seams = dataclasses.replace(engine.engine.seams, mounts=lambda: [Mount("/", "nfs4")])
    there = dataclasses.replace(engine.engine, seams=seams)
    [notice] = Operations(there, engine.daemon).status()["notices"]
    assert "on a network disk (nfs4)" in notice
    assert "Set KBSYNC_HOME" in notice
