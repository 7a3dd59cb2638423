"""What the timetable has done: nothing twice in vain, nothing in the way of another, and it is remembered."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kbsync.errors import RetryLater
from kbsync.interfaces.service.launchd import agent_log
from kbsync.interfaces.service.service import Program
from kbsync.model import Priority
from kbsync.reasons import FileState, Reason
from kbsync.store.connection import Connection
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

EIO = OSError(errno.EIO, "Input/output error")


def do(engine: SimulatedEngine, *names: str) -> None:
    """Have duties be done and everything that they asked for."""
    engine.daemon.upkeep.ask(*names)
    assert engine.daemon.upkeep.step()
    engine.settle()


def failed_reading(engine: SimulatedEngine, name: str) -> str:
    """Return a file that could not be read whenever it was tried."""
    path = f"{NOTES}/{name}"
    engine.write(path, "# Quince\n\nIt ripens late.")
    engine.fs.break_at(path, 3)
    engine.settle()
    assert engine.state(path) == (FileState.FAILED, Reason.IO)
    return path


# ---- retry ----


def test_what_failed_for_a_reason_that_is_over_is_read_again(engine: SimulatedEngine) -> None:
    path = failed_reading(engine, "quince.md")
    engine.rescan()
    assert engine.state(path) == (FileState.FAILED, Reason.IO), "no stat tells that the disk is well again"
    engine.fs.break_at(path, None)
    engine.daemon.upkeep.ask("retry")
    engine.daemon.upkeep.step()
    assert engine.read("SELECT priority FROM jobs WHERE state = 'queued'") == [(Priority.LOW,)]
    engine.settle()
    assert engine.found("ripens") == [path]


def test_what_its_content_is_to_blame_for_is_left_alone(engine: SimulatedEngine) -> None:
    engine.write(f"{NOTES}/broken.pdf", "corrupt")
    engine.write(f"{NOTES}/guarded.pdf", "password 1234\nmedlar")
    engine.settle()
    jobs = engine.kb.jobs()[1]
    do(engine, "retry")
    assert engine.kb.jobs()[1] == jobs


def test_a_right_that_was_given_is_used_and_one_that_was_not_makes_no_job(engine: SimulatedEngine) -> None:
    path = f"{NOTES}/secret.md"
    engine.fs.write(path, b"# Medlar\n\nIt is bletted.")
    engine.clock.advance(10.0)
    opened = engine.fs.open_file

    def denied(wanted: str) -> object:
        if wanted == path:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(wanted)

    engine.fs.open_file = denied  # type: ignore[method-assign,assignment]  # a file that may be looked at only
    engine.rescan()
    assert engine.state(path) == (FileState.FAILED, Reason.PERMISSION)
    jobs = engine.kb.jobs()[1]
    do(engine, "retry")
    assert engine.kb.jobs()[1] == jobs
    engine.fs.open_file = opened  # type: ignore[method-assign]
    do(engine, "retry")
    assert engine.found("bletted") == [path]


def test_what_lies_in_a_paused_folder_waits_for_it(engine: SimulatedEngine) -> None:
    path = failed_reading(engine, "quince.md")
    engine.fs.break_at(path, None)
    engine.engine.source_control.pause(NOTES)
    jobs = engine.kb.jobs()[1]
    engine.daemon.upkeep.ask("retry")
    engine.daemon.upkeep.step()
    assert engine.kb.jobs()[1] == jobs


def test_where_nothing_failed_nothing_is_written_but_that_it_ran(engine: SimulatedEngine) -> None:
    do(engine, "retry")

    def changes(connection: Connection) -> int:
        return connection.total_changes()

    before = engine.engine.writer.run_alone(changes)
    do(engine, "retry", "reindex", "logs")
    assert engine.engine.writer.run_alone(changes) - before == 3, "a row each"


# ---- reindex ----


def stale(world: World) -> SimulatedEngine:
    """Return a life under other rules than those that made its two documents."""
    first = SimulatedEngine(world)
    for fruit in ("quince", "medlar"):
        first.fs.write(f"{NOTES}/{fruit}.md", f"# {fruit.title()}\n\nIt ripens late.".encode())
    first.rescan()
    first.close()
    world.configure(NOTES, text="[chunks]\nmin_tokens = 3\n")
    engine = SimulatedEngine(world)
    engine.settle()
    return engine


def test_what_older_settings_made_is_made_anew(world: World) -> None:
    engine = stale(world)
    old = engine.read("SELECT DISTINCT chunker_fingerprint FROM documents")
    do(engine, "reindex")
    new = engine.read("SELECT DISTINCT chunker_fingerprint FROM documents")
    assert len(old) == len(new) == 1
    assert old != new
    assert engine.engine.reindexing.begin_where_stale() is False
    engine.close()


def test_what_was_tried_in_vain_is_not_tried_again_until_something_is_another(world: World) -> None:
    engine = stale(world)
    for fruit in ("quince", "medlar"):
        engine.fs.break_at(f"{NOTES}/{fruit}.md", 3)
    assert engine.engine.reindexing.begin_where_stale()
    engine.settle()
    assert engine.engine.reindexing.begin_where_stale() is False, "the same two, by the same rules"
    engine.fs.break_at(f"{NOTES}/quince.md", None)
    engine.engine.reindexing.begin("stale")  # by hand it is tried whenever it is asked for
    engine.settle()
    do(engine, "retry")
    engine.close()
    world.configure(NOTES, text="[chunks]\nmin_tokens = 4\n")
    again = SimulatedEngine(world)
    again.settle()
    assert again.engine.reindexing.begin_where_stale(), "other rules may do better"
    again.close()


# ---- one beside the other ----


def test_a_duty_that_cannot_be_done_holds_up_no_other_and_is_done_later(
    engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(_keep_days: object) -> int:
        raise RetryLater(Reason.RETRY, "The database is busy.")

    upkeep = engine.daemon.upkeep
    with monkeypatch.context() as patched:
        patched.setattr(engine.kb.retention, "expire", busy)
        upkeep.ask("retention", "check")
        with pytest.raises(RetryLater):
            upkeep.step()
    assert upkeep.failed() == {"retention": "The database is busy."}
    assert upkeep.is_free(), "others may be asked for meanwhile"
    assert engine.kb.statistics()["last_check"] is not None
    entries = {entry.name: entry for entry in engine.daemon.scheduler.entries()}
    assert (entries["retention"].state, entries["retention"].detail) == ("failed", "The database is busy.")
    assert (entries["retention"].last, entries["check"].last) == (None, engine.clock.now())
    assert upkeep.step()
    assert upkeep.failed() == {}
    assert not upkeep.step()


def test_the_last_runs_outlive_the_process(started: Callable[[], SimulatedEngine]) -> None:
    engine = started()
    do(engine, "check", "retention")
    ran = engine.clock.now()
    engine.clock.advance(3600.0)
    again = started()
    again.daemon.start()
    try:
        last = {entry.name: entry.last for entry in again.daemon.scheduler.entries()}
    finally:
        again.daemon.stop()
    assert ran - 10 < (last["check"] or 0.0) <= ran
    assert last["compact"] is None


def test_what_never_ran_counts_from_when_a_daemon_saw_the_database_first(
    started: Callable[[], SimulatedEngine],
) -> None:
    from kbsync.daemon import last_runs
    from kbsync.store import meta

    engine = started()

    def since(now: float) -> float:
        return engine.engine.writer.run(lambda connection: last_runs.since(connection, now))

    def noted() -> str | None:
        return engine.engine.readers.read(lambda connection: meta.get(connection, meta.TIMETABLE_SINCE))

    began = since(1e9)
    assert began == since(began + 5e6)
    assert since(began - 100) == began - 100, "that one was written by a wrong clock"
    for odd in ("x", "NaN", ""):
        engine.engine.writer.run(lambda connection, odd=odd: meta.put(connection, meta.TIMETABLE_SINCE, odd))  # type: ignore[misc]
        assert (since(2e9), noted()) == (2e9, "2000000000.0")


def test_last_runs_that_cannot_be_read_never_were(started: Callable[[], SimulatedEngine]) -> None:
    from kbsync.daemon import last_runs
    from kbsync.store import meta

    engine = started()
    no_moments = [f'{{"check": [{odd}, null]}}' for odd in ('"x"', "NaN", "1e999", "-1e18", "1e18")]
    for odd in ("{", "[1]", '{"check": 5}', '{"check": [1, "yesterday"]}', *no_moments):
        engine.engine.writer.run(lambda connection, odd=odd: meta.put(connection, meta.LAST_RUNS, odd))  # type: ignore[misc]
        assert engine.engine.readers.read(last_runs.read) == {}


def test_a_changed_configuration_changes_the_timetable_and_what_is_kept(engine: SimulatedEngine) -> None:
    engine.configure(NOTES, text='rescan_s = 60\nkeep_versions_days = 3\n[schedule]\ncheck = "sun 04:00"\n')
    every = {entry.name: entry.every for entry in engine.daemon.scheduler.entries()}
    assert (every["rescan"], every["check"], every["retry"]) == ("60s", "sun 04:00", "6h")
    assert engine.loops.duties.keep_days == 3


# ---- logs ----


def test_logs_that_are_long_go_on_anew_and_short_ones_stay_together(engine: SimulatedEngine) -> None:
    places = engine.world.locations
    engine.engine.error_log.record("/a", "short", 0.0)
    do(engine, "logs")
    assert not os.path.exists(f"{places.error_log}.1")
    for _ in range(12):
        engine.engine.error_log.record("/a", "x" * 100_000, 0.0)
    do(engine, "logs")
    assert os.path.getsize(f"{places.error_log}.1") > 1_000_000
    engine.engine.error_log.record("/a", "after", 0.0)
    (line,) = Path(places.error_log).read_text().splitlines()
    assert json.loads(line)["error"] == "after"


def test_the_file_that_launchd_writes_keeps_its_last_lines_and_is_written_on(engine: SimulatedEngine) -> None:
    places = engine.world.locations
    path = Path(places.service_log)
    assert str(path) == agent_log(Program(("kbsync", "run"), {}, places.log_file))
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab", buffering=0) as held:  # as launchd holds it
        for number in range(30_000):
            held.write(f"line {number} of what was said\n".encode().ljust(50, b".") + b"\n")
        do(engine, "logs")
        held.write(b"the last one\n")
    lines = path.read_text().splitlines()
    assert path.stat().st_size < 300_000
    assert lines[-2].startswith("line 29999") or lines[-3].startswith("line 29999")
    assert lines[-1] == "the last one"
    assert "\0" not in path.read_text()
