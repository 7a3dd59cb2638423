"""The single writer: what waits together is committed together, each work whole or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from kbsync.errors import RetryLater, StopEngine
from kbsync.model import IngestOptions, Priority
from kbsync.reasons import Reason
from kbsync.store import jobs, meta
from kbsync.store.connection import connect_reader
from kbsync.store.writer import GROUP_LIMIT, Readers, Writer
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
    with ThreadPoolExecutor(GROUP_LIMIT) as pool:
        yield pool


def put(key: str, value: str = "1") -> Callable[[apsw.Connection], str]:
    def work(connection: apsw.Connection) -> str:
        meta.put(connection, key, value)
        return key

    return work


def put_and_raise(key: str, error: BaseException) -> Callable[[apsw.Connection], str]:
    def work(connection: apsw.Connection) -> str:
        meta.put(connection, key, "1")
        raise error

    return work


def fill(connection: apsw.Connection) -> None:
    for _ in range(1000):
        connection.execute("INSERT INTO events (at, kind, detail) VALUES (1.0, 'x', ?)", ("y" * 5000,))


def kept(database: str) -> set[str]:
    """Return the keys that are really in the file, as another connection sees them."""
    reader = connect_reader(database)
    keys = {str(row[0]) for row in reader.execute("SELECT key FROM meta")}
    reader.close()
    return keys


class Held:
    """Holds a started writer in one work, so that what is asked meanwhile waits together."""

    def __init__(self, writer: Writer, callers: ThreadPoolExecutor) -> None:
        self._writer, self._callers = writer, callers
        self._go = threading.Event()
        begun = threading.Event()

        def hold(_connection: apsw.Connection) -> None:
            begun.set()
            assert self._go.wait(WAIT)

        self.first = callers.submit(writer.run, hold)
        assert begun.wait(WAIT)

    def ask(self, *works: Callable[[apsw.Connection], str]) -> list[Future[str]]:
        asked = []
        for work in works:
            asked.append(self._callers.submit(self._writer.run, work))
            eventually(lambda: self._writer._requests.qsize() == len(asked))
        return asked

    def release(self) -> None:
        self._go.set()


@pytest.mark.parametrize("threaded", [False, True])
def test_a_work_is_on_the_disk_when_run_returns(writer: Writer, database: str, threaded: bool) -> None:
    if threaded:
        writer.start()
    assert writer.run(put("a")) == "a"
    assert "a" in kept(database)
    assert writer.alive() is threaded


@pytest.mark.parametrize("threaded", [False, True])
def test_what_a_work_raises_reaches_its_caller_and_nothing_of_it_is_kept(
    writer: Writer, database: str, threaded: bool
) -> None:
    if threaded:
        writer.start()
    with pytest.raises(ValueError, match="mine"):
        writer.run(put_and_raise("a", ValueError("mine")))
    writer.run(put("b"))
    assert kept(database) & {"a", "b"} == {"b"}


def test_works_that_wait_together_are_one_commit_and_only_the_failing_one_is_undone(
    writer: Writer, database: str, callers: ThreadPoolExecutor
) -> None:
    writer.start()
    commits = 0

    def committed() -> bool:
        nonlocal commits
        commits += 1
        return False  # no objection

    writer.run(lambda connection: connection.set_commit_hook(committed))
    commits = 0
    held = Held(writer, callers)
    asked = held.ask(put("a"), put_and_raise("b", ValueError("mine")), put("c"))
    held.release()
    assert [asked[0].result(WAIT), asked[2].result(WAIT)] == ["a", "c"]
    with pytest.raises(ValueError, match="mine"):
        asked[1].result(WAIT)
    assert kept(database) & {"a", "b", "c"} == {"a", "c"}
    assert commits == 2  # the work that held, and the three together


def test_a_full_disk_is_told_as_such_and_passes(writer: Writer, database: str) -> None:
    writer.run(lambda connection: connection.pragma("max_page_count", connection.pragma("page_count") + 5))
    with pytest.raises(RetryLater) as caught:
        writer.run(fill)
    assert caught.value.reason is Reason.NO_SPACE
    writer.run(lambda connection: connection.pragma("max_page_count", 1_000_000))
    assert writer.run(lambda connection: connection.execute("SELECT count(*) FROM events").get) == 0
    writer.run(put("after"))
    assert "after" in kept(database)


def test_a_full_disk_tells_every_caller_of_the_group_and_keeps_nothing_by_halves(
    writer: Writer, database: str, callers: ThreadPoolExecutor
) -> None:
    writer.run(lambda connection: connection.pragma("max_page_count", connection.pragma("page_count") + 5))
    writer.start()
    held = Held(writer, callers)

    def fill_up(connection: apsw.Connection) -> str:
        fill(connection)
        return "filled"

    asked = held.ask(put("a"), fill_up, put("c"))
    held.release()
    outcomes = [future.exception(WAIT) for future in asked]
    done = {name for name, error in zip(("a", "filled", "c"), outcomes, strict=True) if error is None}
    assert isinstance(outcomes[1], RetryLater)
    assert outcomes[1].reason is Reason.NO_SPACE
    assert kept(database) & {"a", "c"} == done
    assert writer.alive()


def test_a_foreign_lock_is_waited_out_and_then_told(writer: Writer, database: str) -> None:
    writer.run(lambda connection: connection.set_busy_timeout(50))
    foreign = apsw.Connection(database)
    foreign.execute("BEGIN EXCLUSIVE")
    with pytest.raises(RetryLater) as caught:
        writer.run(put("a"))
    assert caught.value.reason is Reason.IO
    foreign.execute("ROLLBACK")
    foreign.close()
    writer.run(put("a"))
    assert "a" in kept(database)


def test_a_damaged_page_stops_the_engine(database: str) -> None:
    first = Writer(database)
    first.open()
    first.run(put("a"))
    first.close()
    raw = bytearray(Path(database).read_bytes())
    raw[4096:] = b"\xa5" * (len(raw) - 4096)
    Path(database).write_bytes(bytes(raw))
    with pytest.raises(StopEngine, match="damaged"):
        Writer(database).open()


def test_close_finishes_what_waits(writer: Writer, database: str, callers: ThreadPoolExecutor) -> None:
    writer.start()
    held = Held(writer, callers)
    asked = held.ask(*(put(f"waiting-{number}") for number in range(5)))
    closing = callers.submit(writer.close)
    held.release()
    closing.result(WAIT)
    assert {future.result(WAIT) for future in asked} <= kept(database)


def test_after_close_nobody_waits_for_ever(writer: Writer) -> None:
    writer.start()
    writer.close()
    writer.close()
    with pytest.raises(StopEngine):
        writer.run(put("late"))


def test_callers_that_race_with_close_all_get_an_answer(database: str, callers: ThreadPoolExecutor) -> None:
    for _ in range(20):
        writer = Writer(database)
        writer.open()
        writer.start()
        asked = [callers.submit(writer.run, put("racing")) for _ in range(8)]
        writer.close()
        for future in asked:
            assert isinstance(future.exception(WAIT), StopEngine | RetryLater | None)


def test_a_database_that_is_not_open_is_told(database: str) -> None:
    with pytest.raises(StopEngine, match="not open"):
        Writer(database).run(put("a"))


def test_a_read_sees_one_moment(writer: Writer, database: str) -> None:
    readers = Readers(database)

    def read(connection: apsw.Connection) -> tuple[str | None, str | None]:
        before = meta.get(connection, "a")
        writer.run(put("a", "new"))
        return before, meta.get(connection, "a")

    writer.run(put("a", "old"))
    assert readers.read(read) == ("old", "old")
    assert readers.read(lambda connection: meta.get(connection, "a")) == "new"
    readers.close()
    readers.close()


def test_a_read_that_raises_leaves_its_connection_usable(writer: Writer, database: str) -> None:
    readers = Readers(database)

    def broken(connection: apsw.Connection) -> None:
        meta.get(connection, "a")
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        readers.read(broken)
    writer.run(put("a", "new"))
    assert readers.read(lambda connection: meta.get(connection, "a")) == "new"
    readers.close()


ENDLESS = "WITH RECURSIVE counter (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counter) SELECT max(n) FROM counter"


def test_a_statement_that_takes_too_long_is_ended_and_the_connection_goes_on(writer: Writer, database: str) -> None:
    readers = Readers(database)
    limited = readers.within(0.05)
    with pytest.raises(RetryLater, match=r"not answer within 0\.05 seconds") as told:
        limited.read(lambda connection: connection.execute(ENDLESS).fetchall())
    assert told.value.reason is Reason.TIMEOUT
    # The same connection, without a limit now: far more steps than lie between two looks at the clock.
    counted = ENDLESS.replace("FROM counter)", "FROM counter WHERE n < 100000)")
    assert readers.read(lambda connection: connection.execute(counted).get) == 100_000
    readers.close()


def test_who_listens_hears_of_changed_jobs_after_the_commit_and_of_nothing_else(writer: Writer, database: str) -> None:
    heard: list[frozenset[int]] = []
    end = writer.listen(heard.append)

    def queued(connection: apsw.Connection) -> int:
        meta.put(connection, "other", "1")
        return jobs.insert(
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

    first = writer.run(queued)
    assert heard == [frozenset({first})]
    writer.run(put("nothing"))
    assert heard == [frozenset({first})]
    writer.run(lambda connection: jobs.end(connection, first, "done", 2.0))
    assert heard == [frozenset({first}), frozenset({first})]
    end()
    writer.run(queued)
    assert len(heard) == 2


@pytest.mark.parametrize("threaded", [False, True])
def test_work_that_wants_to_be_alone_runs_outside_any_transaction_among_others(tmp_path: Path, threaded: bool) -> None:
    writer = Writer(str(tmp_path / "kb.sqlite3"))
    writer.open()
    if threaded:
        writer.start()
    try:
        with ThreadPoolExecutor(8) as pool:
            others = [pool.submit(writer.run, lambda connection: connection.in_transaction) for _ in range(20)]
            alone = [pool.submit(writer.run_alone, lambda connection: connection.in_transaction) for _ in range(5)]
            assert all(other.result() for other in others)
            assert not any(one.result() for one in alone)
        with pytest.raises(ZeroDivisionError):
            writer.run_alone(lambda _connection: 1 // 0)
        assert writer.run(lambda connection: connection.execute("SELECT 1").get) == 1
    finally:
        writer.close()
    with pytest.raises(StopEngine):
        writer.run_alone(lambda _connection: None)
