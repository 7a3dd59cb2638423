"""A damaged database is set aside whole, whenever the process ends; without leave, or room, nothing is touched."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbsync import failpoints
from kbsync.compose import open_engine
from kbsync.config.settings import load_settings
from kbsync.errors import DatabaseDamaged, StopEngine, StorageUnavailable
from kbsync.knowledge_base import rebuilt
from kbsync.model import IngestOptions
from kbsync.reasons import Reason
from kbsync.store import damage, jobs
from tests.fakes.simulated_engine import SimulatedEngine, World
from tests.knowledge_base.damaged import PAPER, came_of_it, filled, spoil


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World.new(tmp_path / "home")


@pytest.fixture
def engine(world: World) -> Iterator[SimulatedEngine]:
    engine = filled(world)
    yield engine
    engine.close()


class Crash(BaseException):
    """The process ends here."""


def test_wherever_it_ends_the_next_start_goes_on_and_nothing_is_lost(world: World, engine: SimulatedEngine) -> None:
    """D20: a rebuild that is killed at any place, once or at each later one, ends as one that was not."""
    engine.note("Where the key is", "Key")
    engine.add(PAPER, IngestOptions(title="Mine"))
    engine.kb.adding.add_note("a thought that waits", "Thought")
    engine.close()
    damaged = spoil(world)
    ended_at: list[str] = []

    def end(name: str) -> None:
        if name.startswith("rebuild.") and name not in ended_at:
            ended_at.append(name)
            raise Crash(name)

    failpoints.listen(end)
    try:
        for _ in range(40):
            try:
                engine = SimulatedEngine(world)
                break
            except Crash:
                continue
    finally:
        failpoints.listen(None)
    assert len(ended_at) >= 8
    engine.settle(engine.daemon.rescan())
    found = came_of_it(engine)
    assert Path(world.locations.data_dir, found.aside).read_bytes() == damaged
    titles = [title for _, title, _ in engine.documents("current")]
    assert sorted(titles) == ["Key", "Left out", "Locks", "Mine", "Thought", "scan"]
    assert engine.kb.check() == []
    assert os.listdir(world.locations.staging_dir) == []
    left = [name for name in os.listdir(world.locations.data_dir) if "rebuilding" in name or ".new" in name]
    assert left == []
    engine.close()


def test_without_leave_nothing_is_touched_and_the_way_is_told(world: World, engine: SimulatedEngine) -> None:
    engine.close()
    before = spoil(world)
    with pytest.raises(DatabaseDamaged, match="kbsync check --repair"):
        open_engine(world.locations, load_settings(world.locations.config_file), engine.engine.seams)
    assert Path(world.locations.database).read_bytes() == before
    assert not [name for name in os.listdir(world.locations.data_dir) if "damaged" in name]


def test_a_rebuild_under_way_is_not_gone_on_with_without_leave(world: World, engine: SimulatedEngine) -> None:
    engine.close()
    spoil(world)

    def end(name: str) -> None:
        if name == "rebuild.built":
            raise Crash

    failpoints.listen(end)
    try:
        with pytest.raises(Crash):
            SimulatedEngine(world)
    finally:
        failpoints.listen(None)
    with pytest.raises(DatabaseDamaged, match="built anew"):
        open_engine(world.locations, load_settings(world.locations.config_file), engine.engine.seams)
    assert not os.path.exists(world.locations.database)


def test_without_room_for_a_second_database_nothing_is_touched(
    world: World, engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.close()
    before = spoil(world)
    files = sorted(os.listdir(world.locations.data_dir))
    real = os.statvfs(world.locations.data_dir)
    full = os.statvfs_result((*real[:3], 5, 5, *real[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _path: full)
    with pytest.raises(StorageUnavailable, match="no room for another one") as caught:
        SimulatedEngine(world)
    assert caught.value.reason is Reason.NO_SPACE
    assert Path(world.locations.database).read_bytes() == before
    assert sorted(name for name in os.listdir(world.locations.data_dir) if name != "kb.suspect") == files


def test_a_disk_that_fills_up_meanwhile_is_waited_for_and_then_gone_on(world: World, engine: SimulatedEngine) -> None:
    engine.note("Where the key is", "Key")
    engine.close()
    spoil(world)

    def full(name: str) -> None:
        if name == "rebuild.read":
            raise StorageUnavailable(Reason.NO_SPACE, "full")

    failpoints.listen(full)
    try:
        with pytest.raises(StorageUnavailable):
            SimulatedEngine(world)
    finally:
        failpoints.listen(None)
    assert not os.path.exists(world.locations.database + ".new")
    engine = SimulatedEngine(world)
    engine.settle(engine.daemon.rescan())
    assert "Key" in [title for _, title, _ in engine.documents("current")]
    engine.close()


def test_a_note_of_damage_that_is_not_so_is_cleared_and_said(world: World, engine: SimulatedEngine) -> None:
    before = engine.index()
    engine.close()
    damage.suspect(world.locations.database, "malformed")
    engine = SimulatedEngine(world)
    assert engine.index() == before
    assert engine.engine.readers.read(rebuilt.read) is None
    assert not damage.is_noted(world.locations.database)
    engine.close()


def test_a_daemon_that_hears_of_damage_ends_at_once(world: World, engine: SimulatedEngine) -> None:
    engine.daemon.loops.writer.start()
    damage.suspect(world.locations.database, "malformed")
    with pytest.raises(StopEngine, match="malformed"):
        engine.daemon.tick()


def test_a_second_rebuild_keeps_what_the_first_one_kept(world: World, engine: SimulatedEngine) -> None:
    engine.note("Where the key is", "Key")
    engine.close()
    spoil(world)
    engine = SimulatedEngine(world)  # its jobs wait yet, its vectors are those that were salvaged
    embedded = len(engine.embedded())
    engine.close()
    spoil(world)
    engine = SimulatedEngine(world)
    engine.settle(engine.daemon.rescan())
    assert "Key" in [title for _, title, _ in engine.documents("current")]
    assert len(engine.embedded()) == embedded
    kept_aside = [name for name in os.listdir(world.locations.data_dir) if "damaged" in name and name[-4] != "-"]
    assert len(kept_aside) == 2
    assert not engine.engine.readers.read(jobs.any_live)
    assert json.loads(engine.read("SELECT value FROM meta WHERE key = 'rebuilt'")[0][0])["notes"] == 0
    engine.close()


def test_what_is_kept_of_the_damaged_database_is_named_and_no_more_than_can_be_read(
    world: World, engine: SimulatedEngine
) -> None:
    """D02: the files of the one that was set aside are all named; its -shm says nothing that its log does not."""
    engine.close()
    spoil(world)
    database = world.locations.database
    Path(database + "-shm").write_bytes(b"an index of the log")
    engine = SimulatedEngine(world)
    try:
        aside = os.path.join(world.locations.data_dir, came_of_it(engine).aside)
        assert os.path.exists(aside)
        assert not os.path.lexists(aside + "-shm")
        told = engine.kb.set_aside(world.locations.data_dir)
        assert told is not None
        assert told.endswith(f"The damaged one is {aside}; delete it when you miss nothing.")
        Path(aside + "-wal").write_bytes(b"a log")
        told = engine.kb.set_aside(world.locations.data_dir)
        assert told is not None
        assert told.endswith(f"{aside}, and what begins with the same name; delete them when you miss nothing.")
    finally:
        engine.close()
