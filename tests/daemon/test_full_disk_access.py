"""A folder that macOS keeps from the daemon is no empty folder: nothing of it goes, and everybody is told so."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from kbsync.filesystem import FileSystem
from kbsync.interfaces.operations import Operations
from kbsync.sources.full_disk_access import on_platform
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World
from tests.fakes.simulated_filesystem import SimulatedFileSystem

PYTHON = "/opt/homebrew/Cellar/python@3.12/3.12.4/Python.app/Contents/MacOS/Python"
NEEDED = f"macOS keeps it from kbsync until {PYTHON} has Full Disk Access"
REFUSED = PermissionError(errno.EPERM, "Operation not permitted")


class OnMac(SimulatedEngine):
    def seen(self, fs: SimulatedFileSystem) -> FileSystem:
        return on_platform(fs, "darwin", PYTHON)


@pytest.fixture
def mac(world: World) -> Iterator[OnMac]:
    world.configure(NOTES)
    engine = OnMac(world)
    engine.write(f"{NOTES}/a.md", "quince")
    engine.write(f"{NOTES}/letters/b.md", "medlar")
    engine.settle()
    engine.rescan()
    try:
        yield engine
    finally:
        engine.close()


def operations(engine: SimulatedEngine) -> Operations:
    return Operations(engine.engine, engine.daemon)


def test_a_source_that_is_withheld_is_paused_and_what_was_in_it_stays(mac: OnMac) -> None:
    """S05: not an empty folder, not transient, nothing deleted; the exact program in `status`, list and `why`."""
    mac.fs.fail(NOTES, REFUSED)
    for _ in range(4):
        mac.rescan()
        mac.clock.advance(86_400)
    assert mac.source_state() == ("paused", "unreadable")
    assert mac.found("quince") == [f"{NOTES}/a.md"]
    asked = operations(mac)
    (source,) = asked.sources()["sources"]
    assert NEEDED in source["detail"]
    assert any(NEEDED in notice for notice in asked.status()["notices"])
    assert NEEDED in asked.why(NOTES)["detail"]
    mac.fs.heal(NOTES)
    mac.rescan()
    assert mac.source_state() == ("watching", None)


def test_a_folder_inside_that_is_withheld_is_named_and_its_files_stay(mac: OnMac) -> None:
    """S05: your home as a source: the rest of it is followed, Documents waits for the permission."""
    mac.fs.fail(f"{NOTES}/letters", REFUSED)
    for _ in range(4):
        mac.rescan()
        mac.clock.advance(86_400)
    assert mac.source_state() == ("watching", "unreadable")
    assert mac.found("medlar") == [f"{NOTES}/letters/b.md"]
    asked = operations(mac)
    assert any(f"{NOTES}/letters cannot be read: {NEEDED}" in notice for notice in asked.status()["notices"])
    assert f"{NOTES}/letters: {NEEDED}" in asked.why(f"{NOTES}/letters")["detail"]


def test_why_of_a_file_that_was_never_seen_names_what_is_withheld(mac: OnMac) -> None:
    """S05: a file in a folder that was withheld from the beginning."""
    mac.fs.write(f"{NOTES}/desktop/new.md", b"damson")
    mac.fs.fail(f"{NOTES}/desktop", REFUSED)
    mac.rescan()
    assert f"{NOTES}/desktop: {NEEDED}" in operations(mac).why(f"{NOTES}/desktop/new.md")["detail"]
