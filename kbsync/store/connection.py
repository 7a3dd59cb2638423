"""Opens connections: every pragma and extension in one place, each value explained.

The database file and its -wal and -shm are never opened with plain file calls in a process that holds a connection:
closing such a descriptor drops SQLite's locks and can lose acknowledged commits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import apsw

from kbsync.errors import DatabaseDamaged, RetryLater, StopEngine
from kbsync.reasons import Reason
from kbsync.store import tokenizer

# What functions of other packages are handed; they need no SQL and no driver.
Connection = apsw.Connection

# Longer than any of our own transactions; a foreign program that holds the lock longer gives RetryLater.
BUSY_TIMEOUT_MS = 5000


def connect_writer(path: str, accept: Callable[[apsw.Connection], object]) -> apsw.Connection:
    """Open the one connection that writes, creating the file (0600) where there is none.

    `accept` looks at the database before anything of it is changed, and raises for one that must stay as it is.
    """
    before = os.umask(0o077)
    try:
        with translated(path):
            connection = apsw.Connection(path)
    finally:
        os.umask(before)
    try:
        with translated(path):
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            # Asked first: going over to WAL is written into the file.
            accept(connection)
            # Readers go on while the writer commits.
            connection.execute("PRAGMA journal_mode = WAL")
            # Every commit reaches the disk: NORMAL loses acknowledged commits at power loss.
            connection.execute("PRAGMA synchronous = FULL")
            # The WAL is brought back to this size after a checkpoint.
            connection.execute("PRAGMA journal_size_limit = 67108864")
            _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reader(path: str) -> apsw.Connection:
    """Open a connection that cannot write. The file must exist. Raises RetryLater where it cannot be opened now."""
    with translated(path):
        try:
            connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        except apsw.CantOpenError as error:
            if not os.path.exists(path):
                raise
            # It is there: this process has too many files open.
            raise RetryLater(Reason.IO, f"The database {path} cannot be opened now: {error}.") from error
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        _prepare(connection)
    return connection


def _prepare(connection: apsw.Connection) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    # Functions and virtual tables with side effects cannot hide in a schema that somebody else wrote.
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA mmap_size = 268435456")
    connection.execute("PRAGMA temp_store = MEMORY")
    _load_vector_functions(connection)
    tokenizer.register(connection)


def _load_vector_functions(connection: apsw.Connection) -> None:
    import sqlite_vec

    connection.enable_load_extension(True)
    try:
        connection.load_extension(sqlite_vec.loadable_path())
    except apsw.Error as error:
        raise StopEngine(
            f"The SQLite extension sqlite-vec cannot be loaded: {error}.", hint="Reinstall the package sqlite-vec."
        ) from error
    finally:
        connection.enable_load_extension(False)


@contextmanager
def whole(connection: apsw.Connection) -> Iterator[None]:
    """Make the block one transaction that writes.

    Not the driver's own `with connection`: where SQLite itself has rolled back already (a full disk), that raises
    about a missing savepoint and hides why.
    """
    yield from _bracketed(connection, "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK")


@contextmanager
def part(connection: apsw.Connection) -> Iterator[None]:
    """Make the block a part of a transaction that is kept or undone by itself."""
    yield from _bracketed(connection, "SAVEPOINT part", "RELEASE part", "ROLLBACK TO part; RELEASE part")


def _bracketed(connection: apsw.Connection, begin: str, keep: str, undo: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute(keep)
    except BaseException:
        if connection.in_transaction:
            connection.execute(undo)
        raise


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn the driver's errors into decisions: wait for space or a lock, stop for what waiting cannot mend."""
    try:
        yield
    except apsw.FullError as error:
        raise RetryLater(
            Reason.NO_SPACE, f"The disk that holds {path} is full.", hint="Free some space; work goes on by itself."
        ) from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise RetryLater(Reason.IO, f"Another program holds the database {path}.", hint="Close it.") from error
    except apsw.IOError as error:
        raise RetryLater(Reason.IO, f"Reading or writing the database {path} failed: {error}.") from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise DatabaseDamaged(
            f"The database {path} is damaged: {error}.",
            hint="Move it away and start again: the index is rebuilt from your folders.",
        ) from error
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError, apsw.AuthError) as error:
        raise StopEngine(
            f"The database {path} cannot be opened for writing: {error}.", hint="Check the folder's permissions."
        ) from error
