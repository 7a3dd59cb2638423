"""The write-ahead log stays small, whoever reads for however long, and says who is in its way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from kbsync.errors import RetryLater
from kbsync.store import write_ahead_log
from kbsync.store.connection import WAL_LIMIT_BYTES
from kbsync.store.writer import Readers, Writer
from tests.fakes.eventually import eventually

ENDLESS = "WITH RECURSIVE counter (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counter) SELECT max(n) FROM counter"
LIMIT = 2 << 20


@pytest.fixture
def writer(database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Writer]:
    monkeypatch.setattr(write_ahead_log, "WAL_LIMIT_BYTES", LIMIT)
    monkeypatch.setattr("kbsync.store.writer.LOOK_S", 0.05)
    writer = Writer(database)
    writer.open()
    writer.run_alone(lambda connection: connection.pragma("journal_size_limit", LIMIT))
    writer.start()
    yield writer
    writer.close()


def wal_bytes(database: str) -> int:
    return os.stat(f"{database}-wal").st_size


def write(connection: apsw.Connection) -> None:
    connection.execute("INSERT INTO events (at, kind, detail) VALUES (1.0, 'x', ?)", ("y" * 3000,))


def grow_past_the_limit(writer: Writer) -> None:
    wal = writer.wal
    assert wal is not None

    def write_some(connection: apsw.Connection) -> None:
        for _ in range(20):
            write(connection)

    while not wal.held:
        writer.run(write_some)


def test_thousands_of_commits_keep_the_log_at_its_usual_length(writer: Writer, database: str) -> None:
    for _ in range(2000):
        writer.run(write)
    # SQLite's own length of a log, and what one commit adds to it.
    assert wal_bytes(database) < 5 << 20


def test_a_reader_that_holds_on_for_long_is_told_and_the_log_shrinks_when_it_ends_without_any_write(
    writer: Writer, database: str
) -> None:
    """D10: its limit is passed only while somebody reads what was true before."""
    reader = apsw.Connection(database, flags=apsw.SQLITE_OPEN_READONLY)
    reader.execute("BEGIN; SELECT count(*) FROM meta").fetchall()
    grow_past_the_limit(writer)
    assert wal_bytes(database) > LIMIT
    assert writer.wal is not None
    assert writer.wal.bytes > LIMIT
    before = reader.execute("SELECT count(*) FROM events").get
    writer.run(write)
    assert reader.execute("SELECT count(*) FROM events").get == before, "it still sees its moment"
    reader.execute("ROLLBACK")
    eventually(lambda: wal_bytes(database) == 0)
    assert not writer.wal.held
    assert writer.wal.bytes == 0
    reader.close()
    writer.run(write)


def test_a_reader_that_ends_while_others_write_leaves_a_log_within_its_limit(writer: Writer, database: str) -> None:
    """D10: the first commits after it bring the log back."""
    reader = apsw.Connection(database, flags=apsw.SQLITE_OPEN_READONLY)
    reader.execute("BEGIN; SELECT count(*) FROM meta").fetchall()
    grow_past_the_limit(writer)
    reader.close()
    for _ in range(3):
        writer.run(write)
    assert wal_bytes(database) <= LIMIT
    assert writer.wal is not None
    assert not writer.wal.held


def test_our_own_readers_are_ended_in_time(writer: Writer, database: str) -> None:
    """D10: a statement of ours that takes too long gives its moment up."""
    readers = Readers(database, 0.05)
    with pytest.raises(RetryLater, match="not answer within"):
        readers.read(lambda connection: connection.execute(ENDLESS).fetchall())
    for _ in range(1200):
        writer.run(write)
    assert writer.wal is not None
    assert not writer.wal.held
    readers.close()


def test_a_log_that_is_closed_last_leaves_no_file(database: str) -> None:
    writer, readers = Writer(database), Readers(database)
    writer.open()
    writer.run(write)
    readers.read(lambda connection: connection.execute("SELECT 1").get)
    readers.close()
    writer.close()
    assert sorted(os.listdir(Path(database).parent)) == ["kb.sqlite3"]


def test_the_limit_is_the_one_that_sqlite_cuts_the_log_back_to(database: str) -> None:
    writer = Writer(database)
    writer.open()
    assert writer.run(lambda connection: connection.pragma("journal_size_limit")) == WAL_LIMIT_BYTES
    writer.close()
