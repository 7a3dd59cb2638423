"""Every connection has the pragmas that durability and safety need, and no more power than it should."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import apsw
import pytest
import sqlite_vec

from kbsync.errors import StopEngine, StorageUnavailable
from kbsync.reasons import Reason
from kbsync.store import migrations
from kbsync.store.connection import connect_reader, connect_writer, part, require_sqlite, translated, whole
from kbsync.store.writer import Writer


def test_the_writer_is_durable_and_trusts_no_schema(connection: apsw.Connection) -> None:
    pragmas = ("journal_mode", "synchronous", "trusted_schema", "foreign_keys", "cell_size_check")
    assert [connection.pragma(name) for name in pragmas] == ["wal", 2, 0, 1, 1]


@pytest.mark.parametrize("connect", [lambda path: connect_writer(path, migrations.accept), connect_reader])
def test_no_extension_can_be_loaded_after_opening(database: str, connection: apsw.Connection, connect: object) -> None:
    assert callable(connect)
    opened: apsw.Connection = connect(database)
    assert opened.execute("SELECT vec_version()").get
    with pytest.raises(apsw.ExtensionLoadingError, match="not authorized"):
        opened.load_extension(sqlite_vec.loadable_path())
    with pytest.raises(apsw.SQLError, match="not authorized"):
        opened.execute("SELECT load_extension(?)", (sqlite_vec.loadable_path(),))
    opened.close()


@pytest.mark.usefixtures("connection")
def test_a_reader_cannot_write(database: str) -> None:
    reader = connect_reader(database)
    assert reader.pragma("foreign_keys") == 1
    with pytest.raises(apsw.ReadOnlyError):
        reader.execute("INSERT INTO meta (key, value) VALUES ('a', 'b')")
    reader.close()


def test_a_reader_makes_no_database(database: str) -> None:
    with pytest.raises(StopEngine):
        connect_reader(database)
    assert not os.path.exists(database)


def test_the_database_and_its_companions_are_private_whatever_the_umask(database: str) -> None:
    before = os.umask(0)
    try:
        writer = Writer(database)
        writer.open()
        assert os.umask(0) == 0
    finally:
        os.umask(before)
    modes = {
        name: stat.S_IMODE(os.stat(os.path.join(os.path.dirname(database), name)).st_mode)
        for name in os.listdir(os.path.dirname(database))
    }
    writer.close()
    assert modes == {"kb.sqlite3": 0o600, "kb.sqlite3-wal": 0o600, "kb.sqlite3-shm": 0o600}


@pytest.mark.parametrize("content", [b"no database at all, but text " * 40, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_damaged_file_stops_the_engine_and_stays(database: str, content: bytes) -> None:
    Path(database).write_bytes(content)
    with pytest.raises(StopEngine, match="damaged"):
        Writer(database).open()
    assert Path(database).read_bytes() == content


def test_a_folder_that_is_not_there_stops_the_engine(tmp_path: Path) -> None:
    with pytest.raises(StopEngine, match="cannot be opened"):
        Writer(str(tmp_path / "absent" / "kb.sqlite3")).open()


@pytest.mark.parametrize(
    ("error", "expected", "reason"),
    [
        (apsw.FullError, StorageUnavailable, Reason.NO_SPACE),
        (apsw.BusyError, StorageUnavailable, Reason.IO),
        (apsw.LockedError, StorageUnavailable, Reason.IO),
        (apsw.IOError, StorageUnavailable, Reason.IO),
        (apsw.CorruptError, StopEngine, None),
        (apsw.NotADBError, StopEngine, None),
        (apsw.ReadOnlyError, StorageUnavailable, Reason.IO),
        (apsw.CantOpenError, StorageUnavailable, Reason.IO),
    ],
)
def test_an_error_of_the_driver_becomes_a_decision(
    error: type[Exception], expected: type[Exception], reason: Reason | None
) -> None:
    with pytest.raises(expected) as caught, translated("/data/kb.sqlite3"):
        raise error("for a test")
    assert "/data/kb.sqlite3" in str(caught.value)
    assert getattr(caught.value, "reason", None) is reason


@pytest.mark.parametrize("error", [apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError])
def test_what_is_forbidden_from_the_beginning_stops_the_engine(error: type[Exception]) -> None:
    """F30: later it is a disk that became read-only, and is waited for."""
    with pytest.raises(StopEngine, match="permissions"), translated("/data/kb.sqlite3", opening=True):
        raise error("for a test")


def test_a_database_that_was_moved_away_while_it_was_open_stops_the_engine() -> None:
    error = apsw.ReadOnlyError("for a test")
    setattr(error, "extendedresult", apsw.SQLITE_READONLY_DBMOVED)  # noqa: B010 (the driver sets it on its own errors)
    with pytest.raises(StopEngine), translated("/data/kb.sqlite3"):
        raise error


@pytest.mark.parametrize("version", ["3.51.2", "3.40.1", "3.7.0"])
def test_an_sqlite_that_can_corrupt_what_it_writes_is_refused(
    version: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D19: before 3.51.3 a reset of the write-ahead log can lose what another connection writes."""
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)
    with pytest.raises(StopEngine, match=rf"SQLite {version} is too old.*3\.51\.3"):
        Writer(database).open()
    assert not os.path.exists(database)


@pytest.mark.parametrize("version", ["3.51.3", "3.51.10", "3.54.1", "4.0.0"])
def test_an_sqlite_without_that_mistake_is_taken(version: str) -> None:
    """D19: from the version on that mends it."""
    require_sqlite(version)


def put_and_raise(connection: apsw.Connection, key: str, error: BaseException) -> None:
    connection.execute("INSERT INTO meta VALUES (?, '1')", (key,))
    raise error


def test_a_part_that_fails_is_undone_by_itself(connection: apsw.Connection) -> None:
    with whole(connection):
        connection.execute("INSERT INTO meta VALUES ('first', '1')")
        with pytest.raises(ValueError, match="second"), part(connection):
            put_and_raise(connection, "second", ValueError("second"))
        with part(connection):
            connection.execute("INSERT INTO meta VALUES ('third', '3')")
    keys = {row[0] for row in connection.execute("SELECT key FROM meta")}
    assert {"first", "third"} <= keys
    assert "second" not in keys
    assert not connection.in_transaction


def test_a_transaction_that_fails_leaves_nothing(connection: apsw.Connection) -> None:
    with pytest.raises(KeyboardInterrupt), whole(connection):
        put_and_raise(connection, "first", KeyboardInterrupt())
    assert not connection.in_transaction
    assert not connection.execute("SELECT 1 FROM meta WHERE key = 'first'").get
