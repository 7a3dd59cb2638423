"""An engine over folders on the real disk, with a told clock, that is backed up and restored in this process."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from kbsync.filesystem import RealFileSystem
from kbsync.interfaces.operations import Operations
from kbsync.knowledge_base import restore
from kbsync.knowledge_base.restore import Restored
from tests.fakes.hash_embedder import HashDevice
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_engine import SimulatedEngine, World
from tests.fakes.simulated_filesystem import SimulatedFileSystem


def disk_world(home: Path, *folders: Path, device: HashDevice | None = None, text: str = "") -> World:
    """Return a world on the real disk whose configuration names these folders; none is written without any."""
    # Ahead of the disk's own time, so that no file looks as if it were just being written.
    clock = ManualClock(time.time() + 10.0)
    world = World(home, clock, cast(SimulatedFileSystem, RealFileSystem()), device or HashDevice())
    if folders:
        world.configure(*map(str, folders), text=text)
    else:
        home.mkdir(parents=True, exist_ok=True)
    return world


def backed_up(engine: SimulatedEngine, folder: Path) -> dict[str, object]:
    """Write a backup as the daemon's route does, and return what it says."""
    return Operations(engine.engine, engine.daemon).backup(str(folder))


def restored(world: World, folder: Path, maps: Sequence[str] = ()) -> Restored:
    """Restore a backup as the command does once it has the lock."""
    backup = restore.look(world.locations, str(folder), maps, RealFileSystem())
    world.locations.make_folders()
    restore.carry_through(world.locations)
    return restore.restore(world.locations, backup, world.clock)


def write_notes(folder: Path, count: int, *, first: int = 0) -> None:
    """Write notes of a few words each, some in a folder of its own."""
    for number in range(first, first + count):
        path = folder / ("deep" if number % 3 else "") / f"note-{number:04}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Note {number}\n\nThe plum numbered {number} ripens.\n", encoding="utf-8")


def tree(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder with its bytes."""
    return {
        os.path.relpath(os.path.join(path, name), folder): Path(path, name).read_bytes()
        for path, _, names in os.walk(folder)
        for name in names
    }


Dump = dict[str, list[tuple[object, ...]]]


def index_of(world: World) -> Dump:
    """Return what an engine over a world's data says, before any walk."""
    engine = SimulatedEngine(world)
    try:
        return {table: sorted(rows, key=repr) for table, rows in engine.index().items()}
    finally:
        engine.close()


# Fixtures; the conftest that wants them imports them.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    write_notes(folder, 8)
    (folder / "tree.pdf").write_bytes(b"%PDF-1.7 rowan\fhawthorn")
    return folder


@pytest.fixture
def disk(tmp_path: Path, folder: Path) -> World:
    return disk_world(tmp_path / "home", folder)


@pytest.fixture
def backup(tmp_path: Path, disk: World) -> Path:
    """Return a backup of the folder's notes, one file that was added by hand and a note."""
    engine = SimulatedEngine(disk)
    engine.rescan()
    (tmp_path / "brought.md").write_text("# Brought\n\nA quince by hand.\n")
    engine.add(str(tmp_path / "brought.md"))
    engine.note("A note on medlars.", "Medlars")
    backed_up(engine, tmp_path / "backup")
    engine.close()
    disk.device.batches.clear()
    return tmp_path / "backup"
