"""Between the loops: a verdict that overtakes a job, a slow walk that is marked, a data folder that moved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kbsync.model import Priority
from kbsync.reasons import FileState
from tests.fakes.acting_device import ActingDevice
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World


def test_a_path_that_becomes_ignored_while_its_job_runs_is_not_indexed(tmp_path: Path) -> None:
    device = ActingDevice()
    world = World.new(tmp_path / "home", device)
    world.configure(NOTES)
    world.fs.make_directory(NOTES)
    life = SimulatedEngine(world)
    life.settle()

    def ignore(_texts: Sequence[str]) -> None:
        device.before = lambda texts: None
        life.configure(NOTES, ignore=["secret*"])
        world.clock.advance(10)
        life.daemon.rescan()
        assert life.loops.rescans.step()

    device.before = ignore
    life.write(f"{NOTES}/secret-plan.md", "# Plan\n\nrhubarb")
    life.settle()
    assert life.found("rhubarb") == []
    assert life.state(f"{NOTES}/secret-plan.md") == (FileState.SKIPPED, "ignored")
    life.close()


def test_a_mark_during_a_slow_walk_waits_for_its_share_of_the_time(
    engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    rescans, source, listed = engine.loops.rescans, engine.watchers[-1].source, engine.fs.list_directory

    def slow_listing(path: str) -> object:
        engine.clock.advance(20.0)
        rescans.mark(source.id, "told")
        return listed(path)

    monkeypatch.setattr(engine.fs, "list_directory", slow_listing)
    engine.clock.advance(100)
    rescans.mark(source.id, "told")
    assert rescans.step()
    engine.clock.advance(79)
    assert not rescans.step(), "a walk of 20 seconds is followed by 80 seconds of rest"
    engine.clock.advance(2)
    assert rescans.step()


def test_a_note_that_waits_survives_the_move_of_the_data_folder(world: World, tmp_path: Path) -> None:
    life = SimulatedEngine(world)
    life.settle()
    life.write(f"{NOTES}/a.md", "# A\n\nkept copy")
    life.add(f"{NOTES}/a.md")
    job_id = life.kb.adding.add_note("the medlar tree bears late", "orchard")
    life.close()
    (tmp_path / "home").rename(tmp_path / "moved")
    moved = SimulatedEngine(World(tmp_path / "moved", world.clock, world.fs, world.device))
    moved.settle()
    assert moved.job(job_id).state == "done"
    assert moved.found("medlar") == [None]
    stored = [path for (path,) in moved.read("SELECT stored_path FROM documents WHERE stored_path IS NOT NULL")]
    assert stored
    assert all(Path(path).read_bytes() for path in stored)
    moved.close()


def test_the_worker_kept_free_takes_no_job_of_a_scan(engine: SimulatedEngine) -> None:
    engine.fs.write(f"{NOTES}/old.md", b"# Old\n\nfound by the walk")
    engine.clock.advance(10)
    engine.daemon.rescan()
    assert engine.loops.rescans.step()
    free = engine.engine.worker(lambda _source_id: None, "text", Priority.EVENT)
    assert not free.step()
    assert engine.loops.workers[0].step()
