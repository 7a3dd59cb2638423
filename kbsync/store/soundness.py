"""Looks at a database file before it is worked with: is it one, is it ours, is it whole. It stays as it is.

Only what a broken-off transaction left is undone. Every page is read where something speaks against the file; the daily
check reads the others in their turn.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass

import apsw

from kbsync.errors import DatabaseDamaged, IndexDamaged, StopEngine
from kbsync.reasons import Reason
from kbsync.store import damage, integrity, migrations, schema_objects
from kbsync.store.connection import Connection, connect_reader, connect_without_log, roll_back, translated

# Of SQLite's virtual machine: well under a millisecond.
_STEPS_BETWEEN_LOOKS = 10_000
_REASONS = frozenset(reason.value for reason in Reason)
# The header of every database that kbsync makes: offset, bytes, what may stand there. Write and read version (rollback
# journal or WAL), reserved bytes, the payload fractions, schema format, auto-vacuum, text encoding (UTF-8); the last
# ones are 0 in a database whose first table is in the write-ahead log yet. Some other value is another database, or one
# that SQLite calls unreadable or read-only.
_HEADER = (
    (18, 1, (1, 2)),
    (19, 1, (1, 2)),
    (20, 1, (0,)),
    (21, 1, (64,)),
    (22, 1, (32,)),
    (23, 1, (32,)),
    (44, 4, (0, 4)),
    (52, 4, (0,)),
    (56, 4, (0, 1)),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`damaged`: why the database must be set aside, in a few words. `foreign_log`: only what lies in its write-ahead
    log does not belong to it. `cleared`: what was noted of it is not so.
    """

    damaged: str | None = None
    foreign_log: bool = False
    cleared: str | None = None


def look(database: str, now: float, ends: Callable[[], bool] = lambda: False) -> Verdict:
    """Look at a database before it is opened, by all that was written down of it.

    Raises StopEngine for another program's, for a newer one and for what is no file, StorageUnavailable, and RetryLater
    where `ends` says meanwhile that the process is to end: reading every page may take minutes.
    """
    _require_files(database)
    _undo_what_was_broken_off(database)
    try:
        there = os.stat(database)
    except FileNotFoundError:
        # To begin again a person removes it. What a log without a database holds belongs to none.
        return Verdict(foreign_log=bool(damage.size_of(database + "-wal")))
    for path in (database, database + "-wal", database + "-shm"):
        if _is_forbidden(path):  # opening it would leave a log with the same permissions
            raise StopEngine(
                f"{path} may not be read and written by this user.", hint="Check its permissions, and whose it is."
            )
    mark, is_left = damage.mark_of(database), bool(damage.size_of(database + "-wal"))
    if there.st_size == 0:
        return Verdict("it is empty" if mark is not None or is_left else None)
    noted = damage.noted(database)
    is_odd = is_left and mark is not None and (mark.closed_ns is not None or mark.inode != there.st_ino)
    # Where nobody has written to the file since it was closed without a log, this one was put there. Copies keep times.
    is_put_there = is_left and mark is not None and mark.closed_ns == there.st_mtime_ns
    if is_put_there and _complaint(database, ends, thorough=True, with_log=False) is None:
        return Verdict(foreign_log=True)
    found = _complaint(database, ends, thorough=is_odd or noted is not None, with_log=True)
    if found is None and damage.is_worn_out(database, now):
        return Verdict(f"it was called damaged again and again: {noted}")
    if found is None:
        return Verdict(cleared=noted)
    if is_left and _complaint(database, ends, thorough=True, with_log=False) is None:
        return Verdict(foreign_log=True)
    return Verdict(found)


def _require_files(database: str) -> None:
    """Raise StopEngine where something lies in the place of a database's file that is none: waiting mends nothing."""
    for path in (database + ending for ending in damage.COMPANIONS):
        try:
            kind = os.stat(path).st_mode
        except OSError as error:
            if os.path.islink(path):
                raise StopEngine(
                    f"{path} is a link to {os.readlink(path)}, which cannot be reached: {error.strerror}.",
                    hint="Bring that back (mount its disk), or move the link away; nothing was changed.",
                ) from error
            if isinstance(error, FileNotFoundError):
                continue
            raise
        if not stat.S_ISREG(kind):
            what = "a folder" if stat.S_ISDIR(kind) else "no file"
            raise StopEngine(f"{path} is {what}.", hint="Move it away; nothing was changed.")


def _is_forbidden(path: str) -> bool:
    """Return whether a file that is there may not be read or written; a disk that is read-only may be mended."""
    if not os.path.exists(path) or os.access(path, os.R_OK | os.W_OK):
        return False
    return not (os.access(path, os.R_OK) and os.statvfs(path).f_flag & os.ST_RDONLY)


def _undo_what_was_broken_off(database: str) -> None:
    if not os.path.isfile(database) or not damage.size_of(database + "-journal"):
        return
    try:
        roll_back(database)
    except (DatabaseDamaged, apsw.SQLError):
        pass  # told by whoever looks closer


def _complaint(database: str, ends: Callable[[], bool], *, thorough: bool, with_log: bool) -> str | None:
    """Return what is wrong with a database, its write-ahead log left out or not; None where nothing is found."""
    try:
        connection = connect_reader(database) if with_log else connect_without_log(database)
        try:
            connection.set_progress_handler(ends, _STEPS_BETWEEN_LOOKS)
            with translated(database):
                return _found(connection, database, thorough=thorough, with_log=with_log)
        finally:
            connection.close()
    except DatabaseDamaged as error:
        return str(error.__cause__ or error)
    except IndexDamaged:
        return None  # it is made anew from the text, by whoever opens the database
    except apsw.SQLError as error:
        # The statements are right: it is the schema, or the header, of which SQLite can make nothing.
        return str(error)


def _found(connection: Connection, database: str, *, thorough: bool, with_log: bool) -> str | None:
    _there, header = connection.read("main", 0, 0, 100)
    for offset, length, allowed in _HEADER:
        if (value := int.from_bytes(header[offset : offset + length], "big")) not in allowed:
            return f"byte {offset} of its header says {value}"
    migrations.accept(connection)
    is_left = with_log and bool(damage.size_of(database + "-wal"))
    if not is_left and os.stat(database).st_size % int(connection.pragma("page_size")):
        return "its last page is cut off"
    if altered := migrations.altered_tables(connection):
        return f"its table {altered[0]} is not the one that was made"
    return _found_by_reading(connection) if thorough else None


def _found_by_reading(connection: Connection) -> str | None:
    """Read every page, index and row; return what is wrong first. A full-text index is made anew, and not looked at."""
    pages, indexes, _full_text = integrity.complaints(connection)
    if (complaint := pages or indexes) is not None:
        return complaint.first
    if migrations.is_current(connection):
        for difference in schema_objects.differences(connection):
            if difference.object.kind == "table" and "_fts" not in difference.object.name:
                return f"its table {difference.object.name} is not as it was made"
    for table, columns in migrations.columns_made().items():
        names = [str(name) for name, *_ in columns]
        there = {str(row[0]) for row in connection.execute("SELECT name FROM pragma_table_xinfo(?)", (table,))}
        wanted = [name for name in names if name in there]  # an older schema has fewer
        if wanted:
            for row in connection.execute(f"SELECT {', '.join(wanted)} FROM {table}"):
                for name, value in zip(wanted, row, strict=True):
                    if not _is_sense(table, name, value):
                        return f"in {table}, {name} says {str(value)[:40]!r}"
    return None


def _is_sense(table: str, column: str, value: object) -> bool:
    """Return whether a value can be what was written: a reason is one of the list, JSON is JSON."""
    if value is None:
        return True
    if column == "reason" and table in ("documents", "files"):
        return value in _REASONS
    if column in ("metadata", "options", "identity", "held"):
        try:
            return isinstance(json.loads(str(value)), dict)
        except ValueError:
            return False
    return True
