"""Data of earlier versions, made by their own code, go on under today's: migrated, searched, nothing done again."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import zipfile
from pathlib import Path

import pytest

from kbsync.knowledge_base import manifest
from kbsync.knowledge_base.manifest import Manifest
from kbsync.store import migrations
from tests.fakes.backed_up import restored, tree
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World
from tests.meta.checkout import ROOT
from tests.samples.earlier_versions.make_data import FILES

SAMPLES = ROOT / "tests" / "samples" / "earlier_versions"
# The last version of each schema that had users: 2 read text only, 5 is the one before today's.
SCHEMAS = (2, 4, 5)
# Words, and the path of what they stand in; what was added by hand and the note have their own.
FOUND = {
    "cancelled trip": f"{NOTES}/travel.md",
    "密码锁": f"{NOTES}/行李/锁.md",
    "restart beacon": f"{NOTES}/deploy.sh",
    "Loire": f"{NOTES}/rivers.csv",
    "copper": f"{NOTES}/changed.md",
    "quince": "/simulated/desk/brought.md",
}


def files_world(home: Path) -> World:
    """Return a world a day after the samples were made, with the files that were there then."""
    clock = ManualClock(ManualClock().now() + 86_400.0)
    world = World.new(home)
    world = World(home, clock, world.fs, world.device)
    world.configure(NOTES)
    for name, text in FILES.items():
        world.fs.write(f"{NOTES}/{name}", text.encode())
    return world


@pytest.fixture(params=SCHEMAS, ids=lambda schema: f"schema {schema}")
def schema(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def world(tmp_path: Path, schema: int) -> World:
    """Return a world whose data folder an earlier version wrote."""
    world = files_world(tmp_path / "home")
    data = Path(world.locations.data_dir)
    with zipfile.ZipFile(SAMPLES / f"schema_{schema}.zip") as archive:
        archive.extractall(data)
    connection = sqlite3.connect(f"file:{data / 'kb.sqlite3'}?mode=ro", uri=True)
    assert connection.execute("PRAGMA user_version").fetchone() == (schema,)
    connection.close()
    return world


def test_data_of_an_earlier_version_are_searched_at_once_and_nothing_is_done_again(world: World, schema: int) -> None:
    engine = SimulatedEngine(world)
    assert engine.read("PRAGMA user_version") == [(migrations.migrations()[-1][0],)]
    for words, path in FOUND.items():
        assert engine.found(words)[:1] == [path], words
    assert engine.found("medlars") == [None]
    before = engine.documents("current")
    engine.rescan()
    engine.rescan()
    assert engine.kb.check() == []
    # A version that could not read documents yet left them as unsupported: they are what is new.
    assert [text for text in engine.embedded() if schema != 2 or "reeds" not in text.casefold()] == []
    assert len(engine.cage.requests) == (1 if schema == 2 else 0)
    assert engine.found("heron stands") == [f"{NOTES}/reeds.pdf"]
    assert [row for row in engine.documents("current") if row in before] == before
    assert not engine.found("walrus"), "what is gone is hidden"
    assert not engine.found("tin"), "an older version is hidden"
    assert len(engine.documents()) == len(engine.documents("current")) + 2
    engine.close()


def test_after_the_reindex_of_what_is_stale_they_say_what_a_clean_run_says(world: World, tmp_path: Path) -> None:
    fresh = SimulatedEngine(files_world(tmp_path / "fresh"))
    fresh.rescan()
    engine = SimulatedEngine(world)
    engine.rescan()
    engine.engine.reindexing.begin("stale")
    engine.settle()
    assert engine.engine.reindexing.status().stale_left == 0
    clean, kept = fresh.index(), engine.index()
    for table in ("documents", "chunks", "files"):
        assert [row for row in clean[table] if row not in kept[table]] == [], table
    engine.close()
    fresh.close()


def test_a_backup_of_an_earlier_version_is_restored(world: World, tmp_path: Path, schema: int) -> None:
    backup = tmp_path / "backup"
    shutil.move(world.locations.data_dir, backup)
    hashes = {name: (hashlib.sha256(content).hexdigest(), len(content)) for name, content in tree(backup).items()}
    told = Manifest("0.1.0", schema, world.clock.now(), "/simulated", {NOTES: NOTES}, 9, 9, 1, hashes)
    (backup / manifest.MANIFEST).write_bytes(manifest.written(told))
    restored(world, backup)
    engine = SimulatedEngine(world)
    assert engine.kb.check() == []
    for words, path in FOUND.items():
        assert engine.found(words)[:1] == [path], words
    engine.rescan()
    assert [text for text in engine.embedded() if schema != 2 or "reeds" not in text.casefold()] == []
    engine.close()
