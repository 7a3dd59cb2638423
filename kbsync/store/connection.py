"""Opens connections: every pragma and extension in one place, each value explained.

The database file and its -wal and -shm are never opened with plain file calls in a process that holds a connection:
closing such a descriptor drops SQLite's locks and can lose acknowledged commits.
"""

from __future__ import annotations

import os
import re
import stat
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import apsw

from kbsync.errors import DatabaseDamaged, IndexDamaged, RetryLater, StopEngine, StorageUnavailable, disk_full
from kbsync.reasons import Reason
from kbsync.store import damage, tokenizer, vector_functions

# What functions of other packages are handed; they need no SQL and no driver.
Connection = apsw.Connection

# Longer than any of our own transactions; a foreign program that holds the lock longer gives StorageUnavailable.
BUSY_TIMEOUT_MS = 5000
# The write-ahead log is brought back to this size after a checkpoint.
WAL_LIMIT_BYTES = 64 << 20
# What FTS5 says where parts of its tables are not there, or not what they were.
_OF_FULL_TEXT = re.compile(
    r"^constraint failed$|fts5|(no such table|vtable constructor failed): (main\.)?(chunks|names)_fts", re.IGNORECASE
)
# Older ones lose or corrupt what is written while another connection resets the write-ahead log.
OLDEST_SQLITE = (3, 51, 3)


def connect_writer(path: str, accept: Callable[[apsw.Connection], object]) -> apsw.Connection:
    """Open the one connection that writes, creating the file (0600) where there is none.

    `accept` looks at the database before anything of it is changed, and raises for one that must stay as it is.
    Raises StorageUnavailable for a full disk or a foreign lock, StopEngine for what waiting cannot mend.
    """
    require_sqlite(apsw.sqlite_lib_version())
    require_file(path)
    before = os.umask(0o077)
    try:
        with translated(path, opening=True):
            connection = apsw.Connection(path)
    finally:
        os.umask(before)
    try:
        with translated(path, opening=True):
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            # One that is refused stays as it is, with what lies in its write-ahead log.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            # Asked first: going over to WAL is written into the file.
            accept(connection)
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
            # Readers go on while the writer commits.
            connection.execute("PRAGMA journal_mode = WAL")
            # Every commit reaches the disk: NORMAL loses acknowledged commits at power loss.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
            _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reader(path: str) -> apsw.Connection:
    """Open a connection that cannot write. The file must exist. Raises StorageUnavailable where that fails for now."""
    require_file(path)
    with translated(path, opening=not os.path.exists(path)):
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        _prepare(connection)
    return connection


def connect_without_log(path: str) -> apsw.Connection:
    """Open a connection that reads the file alone, as if nothing lay in its write-ahead log. Nothing is locked."""
    require_file(path)
    uri = "file:" + urllib.parse.quote(os.fsencode(os.path.abspath(path))) + "?immutable=1"
    with translated(path, opening=True):
        connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        _prepare(connection)
    return connection


def roll_back(path: str) -> None:
    """Have SQLite undo what was broken off while a database went over to its write-ahead log: no reader can do that."""
    with translated(path, opening=True):
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.execute("SELECT count(*) FROM sqlite_schema").get  # noqa: B018 (reading it is what counts)
        finally:
            connection.close()


def require_file(path: str) -> None:
    """Raise StopEngine for a named pipe or a device in place of a database: opening it would wait, or act."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return  # told by whoever opens it
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise StopEngine(f"The database {path} is no file.", hint="Move it away; `kbsync run` makes it anew.")


def require_sqlite(version: str) -> None:
    """Raise StopEngine for an SQLite that is too old to write with."""
    if tuple(int(part) for part in version.split(".")[:3]) < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        raise StopEngine(
            f"SQLite {version} is too old: before {wanted} it can corrupt a database that is read while it is written.",
            hint="Install the package apsw of PyPI again; it brings its own SQLite.",
        )


def _prepare(connection: apsw.Connection) -> None:
    # Of a file that is no database, or a damaged one, everything else would say something misleading.
    connection.execute("SELECT count(*) FROM sqlite_schema").get  # noqa: B018 (reading it is what counts)
    connection.execute("PRAGMA foreign_keys = ON")
    # Functions and virtual tables with side effects cannot hide in a schema that somebody else wrote.
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA mmap_size = 268435456")
    connection.execute("PRAGMA temp_store = MEMORY")
    vector_functions.prepare(connection)
    tokenizer.register(connection)


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
def translated(path: str, *, opening: bool = False) -> Iterator[None]:
    """Turn the driver's errors into decisions: wait for space, a lock or a disk, stop for what waiting cannot mend.

    `opening`: nothing was ever read or written yet. What is forbidden then is forbidden for good; later it is a disk
    that the system made read-only after an error, or a process with too many open files.
    """
    try:
        yield
    except (apsw.CorruptError, apsw.SQLError, apsw.ConstraintError) as error:
        if is_of_full_text(error):
            raise IndexDamaged(
                Reason.IO,
                f"The full-text index is damaged: {error}.",
                hint="It is made anew from the text by itself; until then search looks by meaning only.",
            ) from error
        if not isinstance(error, apsw.CorruptError):
            raise
        raise _damaged(path, error) from error
    except apsw.InterruptError as error:
        raise RetryLater(Reason.RETRY, "kbsync is stopping.", hint="Ask again when it is back.") from error
    except apsw.FullError as error:
        raise disk_full(path) from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StorageUnavailable(Reason.IO, f"Another program holds the database {path}.", hint="Close it.") from error
    except apsw.IOError as error:
        if is_full(os.path.dirname(path)):
            raise disk_full(path) from error  # its -shm could not grow
        raise StorageUnavailable(
            Reason.IO,
            f"Reading or writing the database {path} failed: {error}.",
            hint="Look whether its disk is whole, and has room.",
        ) from error
    except apsw.NotADBError as error:
        raise _damaged(path, error) from error
    except UnicodeDecodeError as error:  # every text in it was written as UTF-8
        raise _damaged(path, error) from error
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError, apsw.AuthError) as error:
        if opening and is_full(os.path.dirname(path)):
            raise disk_full(path) from error  # no room for its -wal or -shm
        if opening or getattr(error, "extendedresult", 0) == apsw.SQLITE_READONLY_DBMOVED:
            raise StopEngine(
                f"The database {path} cannot be opened for writing: {error}.", hint="Check the folder's permissions."
            ) from error
        raise StorageUnavailable(
            Reason.IO,
            f"The database {path} cannot be written now: {error}.",
            hint="Its disk may have become read-only: have it checked and mounted again.",
        ) from error


def _damaged(path: str, error: Exception) -> DatabaseDamaged:
    damage.suspect(path, str(error))  # whatever becomes of this process: the next start looks at every page
    return DatabaseDamaged(
        f"The database {path} is damaged: {error}.",
        hint="`kbsync run` and `kbsync check --repair` look at it, set it aside and build the index anew.",
    )


def is_of_full_text(error: apsw.Error) -> bool:
    """Return whether a full-text index is damaged, not the database file: FTS5 makes it anew from the text."""
    if isinstance(error, apsw.CorruptError):
        return getattr(error, "extendedresult", 0) == apsw.SQLITE_CORRUPT_VTAB
    # Its own tables are written without a word which of them it is.
    return bool(_OF_FULL_TEXT.search(str(error)))


def is_full(folder: str) -> bool:
    """Return whether a disk has no room at all for a user's files."""
    try:
        return os.statvfs(folder).f_bavail == 0
    except OSError:
        return False
