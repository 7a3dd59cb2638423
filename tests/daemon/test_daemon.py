"""The supervisor: never half alive, follows the configuration, keeps the old one where the new one is wrong."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from apscheduler.schedulers.base import BaseScheduler

from kbsync.config.settings import Settings
from kbsync.errors import RetryLater, StopEngine, StorageUnavailable
from kbsync.filesystem import Entry
from kbsync.model import Conversion, ConversionRequest
from kbsync.reasons import FileState, Reason
from tests.fakes.eventually import eventually
from tests.fakes.hash_embedder import HashDevice
from tests.fakes.manual_clock import ManualClock
from tests.fakes.reading_cage import ReadingCage
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World
from tests.fakes.simulated_filesystem import SimulatedFileSystem

ARCHIVE = "/simulated/archive"


class BrokenFileSystem(SimulatedFileSystem):
    """Raises what nobody expects of a disk."""

    broken = False

    def list_directory(self, path: str) -> list[Entry]:
        if self.broken:
            raise RuntimeError("a mistake in the program")
        return super().list_directory(path)


def test_started_it_finds_a_file_and_stopped_no_thread_is_left(engine: SimulatedEngine) -> None:
    before = set(threading.enumerate())
    engine.fs.write(f"{NOTES}/quince.md", b"ripens late")
    engine.clock.advance(10)
    engine.daemon.start()
    try:
        ticket = engine.daemon.rescan()
        eventually(lambda: engine.daemon.settled(ticket))
        engine.daemon.tick()
        assert engine.found("ripens") == [f"{NOTES}/quince.md"]
    finally:
        engine.daemon.stop()
        engine.daemon.stop()
    engine.close()
    assert set(threading.enumerate()) <= before


def test_a_loop_that_dies_ends_the_daemon_with_what_killed_it(tmp_path: Path) -> None:
    """P16: never half alive."""
    clock = ManualClock()
    fs = BrokenFileSystem(clock)
    world = World(tmp_path / "home", clock, fs, HashDevice())
    world.configure(NOTES)
    fs.make_directory(NOTES)
    engine = SimulatedEngine(world)
    fs.broken = True
    engine.daemon.start()
    try:
        eventually(lambda: _raises(engine.daemon.tick, RuntimeError))
    finally:
        engine.daemon.stop()
        engine.close()


@pytest.mark.parametrize("loop", ["producer", "rescans", "reindexer", "scrub", "upkeep", "worker-0"])
def test_whichever_loop_ends_ends_the_daemon(
    engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch, loop: str
) -> None:
    """P16: by a mistake, or without a word."""
    loops = engine.loops
    parts = {
        "producer": loops.producer,
        "rescans": loops.rescans,
        "reindexer": loops.reindexer,
        "scrub": loops.scrub,
        "upkeep": engine.daemon.upkeep,
        "worker-0": loops.workers[0],
    }
    monkeypatch.setattr(parts[loop], "run", lambda *_: None)
    engine.daemon.start()
    try:
        eventually(lambda: _raises(engine.daemon.tick, StopEngine))
        with pytest.raises(StopEngine, match=loop):
            engine.daemon.tick()
    finally:
        engine.daemon.stop()


def test_a_timetable_that_fails_ends_the_daemon(engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """P16: it has no thread that could end without a word; it fails where everything is looked after."""

    def fail(_scheduler: object) -> None:
        raise RuntimeError("a mistake in the program")

    engine.daemon.start()
    try:
        engine.daemon.tick()
        monkeypatch.setattr(BaseScheduler, "_process_jobs", fail)
        with pytest.raises(RuntimeError, match="mistake"):
            engine.daemon.tick()
    finally:
        engine.daemon.stop()


def test_an_embedder_that_died_ends_the_daemon(engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """P16: what is to be indexed would wait for ever."""
    engine.daemon.start()
    try:
        engine.daemon.tick()
        monkeypatch.setattr(engine.engine.batcher, "_died", RuntimeError("a mistake in the program"))
        with pytest.raises(StopEngine, match="embedder"):
            engine.daemon.tick()
    finally:
        engine.daemon.stop()


def test_it_ends_also_where_its_disk_takes_nothing_any_more(
    engine: SimulatedEngine, started: Callable[[], SimulatedEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P04 and F29: what could not be put back the next start puts back."""
    engine.daemon.start()

    def full(_work: object) -> None:
        raise StorageUnavailable(Reason.NO_SPACE, "The disk is full.")

    monkeypatch.setattr(engine.engine.writer, "run", full)
    engine.daemon.stop()
    monkeypatch.undo()
    assert started().kb.check() == []


def test_a_job_that_is_in_a_child_is_back_in_the_queue_when_it_has_stopped(world: World) -> None:
    """P04: the children end first, so that nobody waits for what they read."""
    cage = _WaitingCage()
    engine = SimulatedEngine(world, cage)
    engine.fs.write(f"{NOTES}/paper.pdf", b"ripens late")
    engine.clock.advance(10)
    engine.daemon.start()
    try:
        engine.daemon.rescan()
        assert cage.begun.wait(20)
        began = time.monotonic()
    finally:
        engine.daemon.stop()
    assert time.monotonic() - began < 3.0, "nothing was waited for in vain"
    assert engine.read("SELECT state, attempts FROM jobs") == [("queued", 0)]
    engine.close()


class _WaitingCage(ReadingCage):
    """Its child reads for ever, until it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self._over = threading.Event(), threading.Event()

    def run(self, request: ConversionRequest, time_limit_s: float) -> Conversion:
        self.begun.set()
        assert self._over.wait(30)
        raise RetryLater(Reason.RETRY, "kbsync is stopping.")

    def close(self) -> None:
        self._over.set()


def test_a_writer_that_ended_ends_the_daemon(engine: SimulatedEngine) -> None:
    """P16: nothing would be kept any more."""
    engine.daemon.start()
    engine.daemon.tick()
    engine.engine.writer.close()
    try:
        eventually(lambda: _raises(engine.daemon.tick, StopEngine))
    finally:
        engine.daemon.stop()


def _raises(call: Callable[[], None], expected: type[BaseException]) -> bool:
    try:
        call()
    except expected:
        return True
    return False


@pytest.fixture
def alive(engine: SimulatedEngine) -> SimulatedEngine:
    """A daemon whose writer runs in its thread, as `tick` wants it; its loops are turned by hand."""
    engine.engine.writer.start()
    return engine


def test_a_changed_configuration_is_followed_at_the_next_tick(alive: SimulatedEngine) -> None:
    alive.fs.write(f"{ARCHIVE}/quince.md", b"ripens late")
    alive.world.configure(NOTES, ARCHIVE)
    assert [watcher.source.path for watcher in alive.watchers if watcher.running] == [NOTES]
    alive.daemon.tick()
    alive.settle()
    assert [watcher.source.path for watcher in alive.watchers if watcher.running] == [NOTES, ARCHIVE]
    assert alive.found("ripens") == [f"{ARCHIVE}/quince.md"]


def test_an_unchanged_configuration_is_left_alone_until_it_is_asked_for(
    alive: SimulatedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    load = alive.daemon._load_settings

    def counted() -> Settings:
        read.append(1)
        return load()

    monkeypatch.setattr(alive.daemon, "_load_settings", counted)
    alive.daemon.tick()
    assert read == []
    alive.daemon.ask_reload()
    for _ in range(2):
        alive.daemon.tick()
        assert read == [1]
    assert len(alive.watchers) == 1


@pytest.mark.parametrize(
    "text",
    [
        "workers = 0",
        "[[sources",
        "unknown = 1",
        '[[sources]]\npath = "relative"',
        "[[sources]]\nmode = 'elsewhere'\npath='/x'",
    ],
)
def test_a_configuration_with_a_mistake_is_told_and_the_old_one_kept(alive: SimulatedEngine, text: str) -> None:
    alive.fs.write(f"{NOTES}/quince.md", b"ripens late")
    alive.rescan()
    config = Path(alive.world.locations.config_file)
    config.write_text(text, encoding="utf-8")
    alive.daemon.tick()
    assert re.search(r"\bline [12]\b", alive.daemon.config_error or "")
    assert [watcher.source.path for watcher in alive.watchers if watcher.running] == [NOTES]
    alive.rescan()
    assert alive.found("ripens") == [f"{NOTES}/quince.md"]
    alive.world.configure(NOTES, ARCHIVE)
    alive.daemon.tick()
    assert alive.daemon.status()["config_error"] is None
    assert len(alive.watchers) == 2


def test_what_holds_from_the_next_start_on_is_named_until_it_is_as_it_was(alive: SimulatedEngine) -> None:
    changed = 'workers = 3\nrescan_s = 77\n[models]\nidle_s = "never"\n[resources]\nnice = 12\nthreads = 1\n'
    alive.configure(NOTES, text=changed)
    assert alive.daemon.status()["restart_for"] == ["workers", "models.idle_s", "resources.threads"]
    alive.configure(NOTES)
    assert alive.daemon.status()["restart_for"] == []


def test_a_pattern_that_cannot_be_used_is_told_and_the_old_configuration_kept(alive: SimulatedEngine) -> None:
    alive.world.configure(NOTES, ARCHIVE, ignore=["!"])
    alive.daemon.tick()
    assert alive.daemon.config_error is not None
    assert [watcher.source.path for watcher in alive.watchers if watcher.running] == [NOTES]


@pytest.mark.parametrize("lose", [os.unlink, lambda path: open(path, "w").close()], ids=["gone", "empty"])
def test_a_configuration_that_is_gone_or_empty_for_a_while_changes_nothing(
    alive: SimulatedEngine, lose: Callable[[str], None]
) -> None:
    for name in ("quince", "medlar"):
        alive.fs.write(f"{NOTES}/{name}.md", f"{name} ripens late".encode())
    alive.rescan()
    alive.kb.remove_document(alive.kb.search("medlar", "lexical").hits[0].document_id)
    written = Path(alive.world.locations.config_file).read_text()
    lose(alive.world.locations.config_file)
    alive.daemon.tick()
    alive.settle()
    assert alive.found("ripens") == [f"{NOTES}/quince.md"]
    assert "gone or empty" in (alive.daemon.config_error or "")
    Path(alive.world.locations.config_file).write_text(written)
    alive.daemon.tick()
    alive.rescan()
    assert alive.daemon.config_error is None
    assert alive.found("ripens") == [f"{NOTES}/quince.md"]
    assert alive.state(f"{NOTES}/medlar.md") == (FileState.SKIPPED, Reason.REMOVED_BY_YOU)


def test_what_was_removed_by_hand_stays_removed_when_its_source_comes_back(alive: SimulatedEngine) -> None:
    alive.fs.write(f"{NOTES}/medlar.md", b"ripens late")
    alive.rescan()
    alive.kb.remove_document(1)
    alive.configure("/simulated/other")
    assert [row.path for row in alive.kb.sources()[0]] == ["/simulated/other"]
    alive.configure(NOTES)
    alive.rescan()
    assert alive.found("ripens") == []
    assert alive.state(f"{NOTES}/medlar.md") == (FileState.SKIPPED, Reason.REMOVED_BY_YOU)


def test_a_changed_ignore_list_is_followed_without_an_event(alive: SimulatedEngine) -> None:
    alive.fs.write(f"{NOTES}/quince.md", b"ripens late")
    alive.rescan()
    alive.world.configure(NOTES, ignore=["quince.*"])
    alive.daemon.tick()
    alive.settle()
    assert alive.state(f"{NOTES}/quince.md") == (FileState.SKIPPED, Reason.IGNORED)
    assert alive.found("ripens") == []


def test_a_watcher_that_died_is_begun_again_by_a_tick(alive: SimulatedEngine) -> None:
    """P16: this one is no reason to end."""
    alive.watchers[0].alive = False
    alive.clock.advance(2.5)
    alive.daemon.tick()
    assert len(alive.watchers) == 2
    assert alive.watchers[1].running


def test_status_tells_what_only_a_running_daemon_knows(alive: SimulatedEngine) -> None:
    status = alive.daemon.status()
    (watcher,) = alive.loops.watchers.status()
    assert status["watchers"] == [watcher]
    assert (watcher["path"], watcher["watching"], watcher["mode"]) == (NOTES, True, "native")
    assert set(status["scheduler"]) == {"rescan", "upkeep"}  # type: ignore[call-overload]  # a dict
    names = [job["name"] for job in status["schedule"]]  # type: ignore[attr-defined]  # a list
    assert names == ["rescan", "logs", "retry", "reindex", "retention", "compact", "check"]
    assert (status["model_ready"], status["model_error"], status["config_error"]) == (False, None, None)
