"""The end of the single writer: told to end, it takes no time; where its thread dies, nobody waits for it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import apsw
import pytest

from kbsync.errors import DatabaseDamaged, RetryLater, StopEngine
from kbsync.model import IngestOptions, Priority
from kbsync.store import jobs, maintenance, meta, migrations, soundness
from kbsync.store.connection import connect_reader
from kbsync.store.writer import Readers, Writer
from tests.fakes.eventually import eventually

WAIT = 20.0


@pytest.fixture
def writer(database: str) -> Iterator[Writer]:
    writer = Writer(database)
    writer.open()
    yield writer
    writer.close()


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def put(key: str) -> Callable[[apsw.Connection], str]:
    def work(connection: apsw.Connection) -> str:
        meta.put(connection, key, "1")
        return key

    return work


def kept(database: str) -> set[str]:
    """Return the keys that are really in the file, as another connection sees them."""
    reader = connect_reader(database)
    keys = {str(row[0]) for row in reader.execute("SELECT key FROM meta")}
    reader.close()
    return keys


ENDLESS = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "


def count_for_ever(connection: apsw.Connection) -> object:
    return connection.execute(f"{ENDLESS}SELECT count(*) FROM n").get


def write_for_ever(connection: apsw.Connection) -> object:
    return connection.execute(f"{ENDLESS}INSERT INTO meta (key, value) SELECT 'x' || x, '1' FROM n").get


@pytest.mark.parametrize("work", [count_for_ever, write_for_ever])
@pytest.mark.parametrize("alone", [False, True])
def test_what_takes_for_ever_is_ended_and_nothing_of_it_is_kept(
    writer: Writer, database: str, callers: ThreadPoolExecutor, work: Callable[[apsw.Connection], object], alone: bool
) -> None:
    """P04: a process that is told to end does not wait for a check or a compaction."""
    writer.start()
    begun = threading.Event()

    def begin(connection: apsw.Connection) -> object:
        begun.set()
        return work(connection)

    asked = callers.submit(writer.run_alone if alone else writer.run, begin)
    assert begun.wait(WAIT)
    writer.end_long_work()
    with pytest.raises(RetryLater, match="stopping"):
        asked.result(WAIT)
    assert writer.run(put("a")) == "a", "what is short is still done"
    assert not {key for key in kept(database) if key.startswith("x")}


def test_a_migration_that_takes_for_ever_is_ended_and_undone(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """P04 and D04: also in the thread in which the signals arrive."""
    known = migrations.migrations()
    sql = f"CREATE TABLE extra (x); {ENDLESS}INSERT INTO extra SELECT x FROM n"
    monkeypatch.setattr(migrations, "migrations", lambda: [*known, (999, "0999_endless", sql)])
    looks: list[int] = []

    def ends() -> bool:
        looks.append(1)
        return len(looks) > 50

    with pytest.raises(RetryLater):
        Writer(database, ends).open()
    monkeypatch.undo()
    writer = Writer(database)
    assert writer.open() == []
    assert (
        writer.run(lambda connection: connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'extra'").get)
        == 0
    )
    writer.close()


def test_a_writer_whose_thread_died_leaves_nobody_waiting(writer: Writer, callers: ThreadPoolExecutor) -> None:
    """P16: neither whose work it had, nor who waited behind, nor who comes after; then the process ends."""

    def listener(_jobs: frozenset[int]) -> None:
        raise RuntimeError("a mistake in the program")

    def add_job(connection: apsw.Connection) -> str:
        job_id = jobs.insert(
            connection,
            "note",
            "",
            source_id=None,
            lane="text",
            priority=Priority.ADDED,
            sequence=0.0,
            staged_path=None,
            options=IngestOptions(),
            now=1.0,
        )
        return str(job_id)

    writer.start()
    go = threading.Event()
    held = callers.submit(writer.run, lambda _connection: go.wait(WAIT))
    eventually(lambda: writer._requests.qsize() == 0)
    asked = [callers.submit(writer.run, work) for work in (add_job, put("a"))]
    eventually(lambda: writer._requests.qsize() == len(asked))
    writer.listen(listener)
    go.set()
    assert held.result(WAIT)
    for future in asked:
        with pytest.raises(StopEngine):
            future.result(WAIT)
    eventually(lambda: not writer.alive())
    with pytest.raises(StopEngine):
        writer.run(put("b"))


def test_a_compaction_that_is_ended_leaves_all_as_it_was(writer: Writer, database: str) -> None:
    """P04 and D13: the file is written anew whole, or not at all."""

    def fill(connection: apsw.Connection) -> None:
        connection.executemany(
            "INSERT INTO events (at, kind, detail) VALUES (?, 'x', 'quince')",
            ((float(number),) for number in range(20_000)),
        )

    def told(connection: apsw.Connection) -> list[tuple[object, ...]]:
        return [
            *connection.execute("PRAGMA quick_check").fetchall(),
            *connection.execute("SELECT count(*), sum(at) FROM events").fetchall(),
        ]

    writer.run(fill)
    before = writer.run(told)
    writer.end_long_work()
    with pytest.raises(RetryLater, match="stopping"):
        writer.run_alone(maintenance.rewrite)
    writer.close()
    again = Writer(database)
    again.open()
    assert again.run(told) == before
    assert again.run_alone(maintenance.rewrite), "and the next one does it"
    assert again.run(told) == before
    again.close()


def test_a_log_that_was_overwritten_is_not_copied_over_the_database(database: str) -> None:
    first = Writer(database)
    first.open()
    first.run(put("kept"))
    first.close()
    writer = Writer(database)
    writer.open()
    writer.run(
        lambda connection: connection.execute("CREATE TABLE more AS SELECT randomblob(3000) FROM chunks_fts_data")
    )
    writer.run(put("in the log"))
    with open(f"{database}-wal", "r+b") as log:
        log.seek(32)
        log.write(b"\xa5" * (os.path.getsize(f"{database}-wal") - 32))
    reader = Readers(database)
    with pytest.raises(DatabaseDamaged):
        reader.read(lambda connection: connection.execute("SELECT * FROM sqlite_schema, meta").fetchall())
    reader.close()
    writer.close()
    assert soundness.look(database, 0.0).damaged is None
    assert "kept" in kept(database)
