"""While our own disk or database cannot be used everything waits, is told once, and goes on by itself."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest
from structlog.testing import capture_logs

from kbsync.daemon.outage import TOLD_EVERY_S, Outage
from kbsync.errors import RetryLater, StorageUnavailable, disk_full
from kbsync.interfaces.operations import Operations
from kbsync.model import IngestOptions
from kbsync.reasons import FileState, Reason
from tests.fakes.eventually import eventually
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_engine import NOTES, SimulatedEngine

PATH = f"{NOTES}/quince.md"
FULL = disk_full("/data")
LOCKED = StorageUnavailable(Reason.IO, "Another program holds the database.")


class Room:
    """The free bytes of a disk."""

    def __init__(self) -> None:
        self.bytes: int | None = 0

    def __call__(self) -> int | None:
        return self.bytes


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def room() -> Room:
    return Room()


@pytest.fixture
def outage(clock: ManualClock, room: Room) -> Outage:
    return Outage(clock, room)


# ---- what is decided ----


def test_what_lasts_is_said_once_then_every_ten_minutes_however_many_loops_meet_it(
    outage: Outage, clock: ManualClock
) -> None:
    """D15: the log of a full disk does not fill it."""
    with capture_logs() as lines:
        for _ in range(1000):
            for loop in ("worker", "worker", "producer", "rescans"):
                outage.met(loop, FULL)
            clock.advance(2.5 * TOLD_EVERY_S / 1000)
    assert [line["event"] for line in lines] == ["storage_unavailable"] * 3
    with capture_logs() as lines:
        outage.over()
        outage.over()
    assert [line["event"] for line in lines] == ["storage_back"]


def test_loops_wait_longer_the_longer_it_lasts_and_never_more_than_ten_seconds(
    outage: Outage, clock: ManualClock
) -> None:
    pauses = []
    for _ in range(60):
        pauses.append(outage.met("worker", LOCKED))
        clock.advance(pauses[-1])
    assert pauses[0] == 1.0
    assert pauses == sorted(pauses)
    assert pauses[-1] == 10.0


def test_it_is_tried_again_after_a_pause_and_at_once_where_there_is_more_room(
    outage: Outage, clock: ManualClock, room: Room
) -> None:
    assert not outage.may_be_over(), "nothing lasts"
    outage.met("worker", FULL)
    assert not outage.may_be_over()
    room.bytes = 2 << 20
    assert outage.may_be_over()
    assert outage.has_more_room()
    room.bytes = 0
    clock.advance(1.0)
    assert outage.may_be_over()
    assert not outage.has_more_room()
    room.bytes = None
    outage.met("worker", FULL)
    assert not outage.may_be_over()


def test_the_notice_says_what_since_when_and_what_to_do(outage: Outage) -> None:
    assert outage.notice() is None
    outage.met("worker", FULL)
    notice = outage.notice()
    assert notice is not None
    assert "The disk that holds /data is full." in notice
    assert "Free some space" in notice
    assert "since 20" in notice
    outage.over()
    assert outage.notice() is None


def test_what_is_no_fault_of_our_disk_is_only_told(outage: Outage) -> None:
    with capture_logs() as lines:
        for _ in range(10):
            assert outage.met("reindexer", RetryLater(Reason.MODEL, "The device is out of memory.")) == 1.0
    assert [line["event"] for line in lines] == ["loop_waits"]
    assert not outage.lasts


# ---- the whole engine ----


@contextmanager
def full_database(engine: SimulatedEngine) -> Iterator[None]:
    engine.engine.writer.run(lambda connection: connection.pragma("max_page_count", 1))  # no page more than now
    yield
    engine.engine.writer.run(lambda connection: connection.pragma("max_page_count", 1 << 30))


@contextmanager
def read_only_database(engine: SimulatedEngine) -> Iterator[None]:
    """As on a disk that the system made read-only after an error: SQLite refuses whatever writes."""
    engine.engine.writer.run_alone(lambda connection: connection.pragma("query_only", 1))
    yield
    engine.engine.writer.run_alone(lambda connection: connection.pragma("query_only", 0))


@contextmanager
def foreign_lock(engine: SimulatedEngine) -> Iterator[None]:
    """As a tool that began a transaction and was left open for longer than anybody waits."""
    engine.engine.writer.run_alone(lambda connection: connection.set_busy_timeout(20))
    foreign = apsw.Connection(engine.engine.locations.database)
    foreign.execute("BEGIN EXCLUSIVE")
    yield
    foreign.execute("ROLLBACK")
    foreign.close()


TROUBLES = {"full": full_database, "read-only": read_only_database, "locked": foreign_lock}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_running_engine_waits_says_so_searches_and_goes_on_by_itself(engine: SimulatedEngine, trouble: str) -> None:
    """D11, D15, F29 and F30: nothing is lost, no attempt is counted, no file fails."""
    engine.fs.write(PATH, b"the quince ripens late")
    engine.clock.advance(10)
    engine.daemon.start()
    operations = Operations(engine.engine, engine.daemon)
    try:
        ticket = engine.daemon.rescan()
        eventually(lambda: _ticked(engine, lambda: engine.daemon.settled(ticket)))
        with capture_logs() as lines:
            with TROUBLES[trouble](engine):
                large = b"\n\n".join(b"the medlar %d " % number * 40 for number in range(60))
                engine.fs.write(f"{NOTES}/medlar.md", large)
                engine.fs.write(f"{NOTES}/sloe.pdf", large.replace(b"medlar", b"sloe"))
                engine.clock.advance(10)
                engine.daemon.rescan()
                eventually(lambda: _ticked(engine, lambda: engine.engine.outage.lasts))
                for _ in range(30):
                    engine.clock.advance(5.0)
                    engine.daemon.tick()
                assert engine.found("ripens") == [PATH], "search goes on"
                # A proof that needs no more room than is left lets it end for a moment.
                eventually(lambda: _ticked(engine, lambda: engine.engine.outage.lasts))
                [notice] = [one for one in operations.status()["notices"] if "Nothing is indexed since" in one]
                assert operations.search("ripens", "lexical")["notices"] == [notice]
            eventually(lambda: _ticked(engine, lambda: not engine.engine.outage.lasts, 1.0))
            ticket = engine.daemon.rescan()
            eventually(lambda: _ticked(engine, lambda: engine.daemon.settled(ticket), 1.0))
        assert engine.found("medlar") == [f"{NOTES}/medlar.md"]
        assert engine.found("sloe") == [f"{NOTES}/sloe.pdf"]
        assert engine.read("SELECT max(attempts) FROM jobs") == [(1,)]
        assert engine.read("SELECT count(*) FROM jobs WHERE state = 'failed'") == [(0,)]
        assert operations.status()["notices"] == []
        told = [line["event"] for line in lines if line["log_level"] == "warning"]
        assert told.count("storage_unavailable") <= 2
        assert set(told) <= {"storage_unavailable", "storage_back"}
    finally:
        engine.daemon.stop()
        engine.close()


def _ticked(engine: SimulatedEngine, look: Callable[[], bool], seconds: float = 0.0) -> bool:
    engine.clock.advance(seconds)
    engine.daemon.tick()
    return look()


@pytest.mark.parametrize(("number", "reason"), [(errno.ENOSPC, "no_space"), (errno.EROFS, "io"), (errno.EIO, "io")])
def test_a_copy_that_cannot_be_written_costs_its_file_no_attempt(
    engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch, number: int, reason: str
) -> None:
    """F29: the database has room, the folder of copies has none."""
    engine.write(f"{NOTES}/medlar.md", "a text needs no copy")
    engine.write(f"{NOTES}/sloe.pdf", "the sloe is bitter")

    def refuse(_descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", refuse)
        refused = []
        for _ in range(200):
            try:
                engine.turn()
            except StorageUnavailable as error:
                refused.append(error.reason)
            engine.clock.advance(2.0)
        assert len(refused) > 6
        assert set(refused) == {reason}
        assert engine.found("needs") == [f"{NOTES}/medlar.md"], "what needs none goes on"
        assert engine.state(f"{NOTES}/sloe.pdf") == (FileState.WAITING, Reason.RETRY)
        assert engine.kb.waiting_for_room() == 1
        with pytest.raises(StorageUnavailable):
            engine.kb.adding.add_note("for later", None)
    engine.settle()
    assert engine.found("sloe") == [f"{NOTES}/sloe.pdf"]
    assert engine.read("SELECT max(attempts) FROM jobs") == [(1,)]
    assert engine.kb.waiting_for_room() == 0


def test_files_that_wait_for_room_are_told_when_the_rest_goes_on(
    engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engine.write(f"{NOTES}/sloe.pdf", "the sloe is bitter")

    def refuse(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    operations = Operations(engine.engine, engine.daemon)
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", refuse)
        for _ in range(10):
            try:
                engine.turn()
            except StorageUnavailable:
                break
            engine.clock.advance(1.0)
    [notice] = operations.status()["notices"]
    assert notice.startswith(f"1 file waits for room on the disk that holds {engine.engine.locations.data_dir}")
    engine.daemon.kb.prove_storage(has_more_room=False)
    assert engine.kb.waiting_for_room() == 1
    engine.daemon.kb.prove_storage(has_more_room=True)
    assert operations.status()["notices"] == [], "from then on it only waits for its turn"
    assert operations.why(f"{NOTES}/sloe.pdf")["reason"] == "queued"
    engine.settle()
    assert operations.status()["notices"] == []


def test_a_file_whose_wait_for_room_is_over_is_not_told(
    engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.write(f"{NOTES}/sloe.pdf", "the sloe is bitter")

    def refuse(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", refuse)
        for _ in range(10):
            try:
                engine.turn()
            except StorageUnavailable:
                break
            engine.clock.advance(1.0)
    assert engine.kb.waiting_for_room() == 1
    engine.clock.advance(3600.0)
    assert engine.kb.waiting_for_room() == 0


def test_a_command_that_adds_ends_with_the_reason_where_the_disk_is_full(engine: SimulatedEngine) -> None:
    """D15: nobody waits in front of a command for somebody to free some space; the job is there for later."""
    from kbsync.interfaces.cli.local_work import LocalWorkers

    text = "\n\n".join("the medlar " * 200 + str(number) for number in range(40))
    engine.fs.write("/elsewhere/medlar.md", text.encode())
    job_id = engine.kb.adding.add_file("/elsewhere/medlar.md", IngestOptions())
    before = set(threading.enumerate())
    workers = LocalWorkers(engine.engine)
    with full_database(engine):
        workers.start()

        def failed() -> bool:
            try:
                workers.check()
            except StorageUnavailable as error:
                return "is full" in str(error)
            return False

        eventually(failed)
        workers.stop()
    assert set(threading.enumerate()) <= before
    assert engine.job(job_id).state == "queued"
    assert engine.job(job_id).attempts == 0
