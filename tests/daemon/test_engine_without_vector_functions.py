"""An engine without sqlite-vec: all goes on, told with the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kbsync.interfaces.operations import Operations
from kbsync.store import vector_functions
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

REMEDY = "sqlite-vec cannot be used: install it again."


def worked(home: Path, world: World) -> tuple[dict[str, list[tuple[Any, ...]]], list[list[str]], list[str]]:
    """Index the world's notes and search; return what was written, the titles found in each mode, and the notices."""
    own = World(home, world.clock, world.fs, world.device)
    own.configure(NOTES)
    engine = SimulatedEngine(own)
    engine.rescan()
    found = [
        [hit.title for hit in engine.kb.search(query, mode).hits]
        for query in ("medlar", "quince medlar", "sloe type:markdown", "medlar -quince")
        for mode in ("lexical", "vector", "hybrid", "vector")  # the first vectors in SQL, later ones in memory
    ]
    index, notices = engine.index(), Operations(engine.engine, engine.daemon).status()["notices"]
    engine.close()
    return index, found, notices


def test_an_engine_without_it_writes_and_finds_the_same_and_says_so(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D05: nothing that is written differs, nothing that is found."""
    for number, fruit in enumerate(("medlar", "quince", "sloe", "damson", "medlar and quince")):
        world.fs.write(f"{NOTES}/{number}.md", f"# Note {number}\n\nThe {fruit} ripens.".encode())
    good = worked(tmp_path / "with", world)
    monkeypatch.setattr(vector_functions, "missing", lambda: REMEDY)
    monkeypatch.setattr(vector_functions, "_load", lambda _connection: pytest.fail("it is not there"))
    without = worked(tmp_path / "without", world)
    assert without[:2] == good[:2]
    assert (good[2], without[2]) == ([], [REMEDY])
