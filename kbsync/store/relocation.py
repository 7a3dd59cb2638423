"""Writes every path in the database anew, for folders that lie elsewhere now: on another machine, under another name.

A path is written aside first (NUL before it, which no path has): folders may change places with each other.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import apsw

from kbsync.errors import UsageError
from kbsync.store import origins

# Returns the new path of raw bytes, None where it stays as it is.
Moved = Callable[[bytes], bytes | None]

# The tables whose column `path` holds places of files. Names of what was sent are no paths: no map speaks of them.
_TABLES = ("sources", "files", "origins", "jobs", "events")
# Events that tell another path in words.
_TELLING = "'moved', 'arrived'"


def known_paths(connection: apsw.Connection) -> set[bytes]:
    """Return every path that the database knows of."""
    query = " UNION ".join(f"SELECT path FROM {table} WHERE path IS NOT NULL" for table in _TABLES)
    return {bytes(path) for (path,) in connection.execute(query)}


def relocate(connection: apsw.Connection, moved: Moved) -> int:
    """Have every path be where `moved` says, inside a transaction; return how many files of sources that are.

    Which folder a moved source was, and which inode a moved file, is forgotten: the next walk compares what they hold.
    Raises UsageError where two would come to the same place.
    """
    found = cache(moved)
    functions: dict[str, Callable[[Any], Any]] = {
        "kbsync_aside": lambda path: None if path is None or (new := found(path)) is None else b"\0" + new,
        "kbsync_nfc": lambda path: _nfc(found(path)),
        "kbsync_told": lambda text: _moved_text(found, text),
        "kbsync_options": lambda text: _moved_options(found, text),
    }
    for name, function in functions.items():
        connection.create_scalar_function(name, partial(_of_one, function), 1)
    try:
        connection.execute(
            "UPDATE sources SET identity = NULL WHERE kbsync_aside(path) IS NOT NULL OR id IN "
            "(SELECT source_id FROM files WHERE kbsync_aside(path) IS NOT NULL)"
        )
        connection.execute(
            "UPDATE files SET path_nfc = kbsync_nfc(path), inode = NULL, device = NULL, ctime_ns = NULL "
            "WHERE kbsync_aside(path) IS NOT NULL"
        )
        count = connection.changes()
        connection.execute("UPDATE jobs SET options = kbsync_options(options) WHERE options LIKE '%password_file%'")
        connection.execute(
            f"UPDATE events SET detail = kbsync_told(detail) WHERE kind IN ({_TELLING}) AND detail IS NOT NULL"
        )
        for table in _TABLES:
            connection.execute(f"UPDATE {table} SET path = kbsync_aside(path) WHERE kbsync_aside(path) IS NOT NULL")
        for table in _TABLES:
            connection.execute(f"UPDATE {table} SET path = substr(path, 2) WHERE substr(path, 1, 1) = X'00'")
    except apsw.ConstraintError as error:
        raise UsageError(
            "Two folders or files of the backup would lie at the same place.", hint="Map each to a place of its own."
        ) from error
    finally:
        for name in functions:
            connection.create_scalar_function(name, None, 1)
    connection.execute("INSERT INTO names_fts (names_fts) VALUES ('delete-all')")
    origins.index_names(connection)
    return count


def place_copies(connection: apsw.Connection, documents_dir: str, staging_dir: str) -> None:
    """Write that stored and staged copies lie in these folders, under the names they have."""
    for column, table, folder in (("stored_path", "documents", documents_dir), ("staged_path", "jobs", staging_dir)):
        connection.executemany(
            f"UPDATE {table} SET {column} = ? WHERE id = ?",
            [
                (os.path.join(folder, os.path.basename(str(path))), row)
                for row, path in connection.execute(f"SELECT id, {column} FROM {table} WHERE {column} IS NOT NULL")
            ],
        )


def _of_one(function: Callable[[Any], Any], *values: Any) -> Any:
    return function(values[0])


def _nfc(path: bytes | None) -> str:
    return unicodedata.normalize("NFC", (path or b"").decode("utf-8", "replace"))


def _moved_text(moved: Moved, text: str) -> str:
    new = moved(os.fsencode(text))
    return text if new is None else new.decode("utf-8", "backslashreplace")


def _moved_options(moved: Moved, text: str) -> str:
    options = json.loads(text)
    new = moved(os.fsencode(options.get("password_file") or ""))
    return text if new is None else json.dumps({**options, "password_file": os.fsdecode(new)})
