"""Compares a full-text index with the text it is made of, on a private copy: nobody who writes waits meanwhile.

FTS5 looks at the content only where it may write, and takes as long as indexing everything anew. So text and index are
copied in one short read transaction into a temporary database, which only this connection knows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import apsw

from kbsync.store import origins, tokenizer
from kbsync.store.connection import is_of_full_text, translated

# Gets the seconds that a piece of work took, and may rest for as long as it likes, or raise to end it all.
Pace = Callable[[float], object]

_PARTS = ("data", "idx", "docsize", "config")


def unpaced(_seconds: float) -> None:
    """Go on at once."""


def disagreements(path: str, pace: Pace = unpaced) -> tuple[bool, int]:
    """Return (whether the chunks' index disagrees with their text, how many entries of the names' index are wrong).

    Raises RetryLater where the temporary folder is full, and what `pace` raises; it is called for every chunk.
    """
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection("", flags=flags)
    try:
        with translated(path):
            # It is thrown away: nothing of it need survive anything.
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("PRAGMA synchronous = OFF")
            ended = _register(connection, pace)
            connection.execute("ATTACH ? AS kb", (f"file:{quote(path)}?mode=ro",))
            connection.set_busy_timeout(5000)
            connection.execute("BEGIN")
            try:
                chunks_copied = _copied(
                    connection, "chunks_fts", "enriched_text", ", content = 'chunks', content_rowid = 'id'"
                )
                names_copied = _copied(connection, "names_fts", "name", ", content = '', contentless_delete = 1")
                if chunks_copied:
                    connection.execute("CREATE TABLE chunks (id INTEGER PRIMARY KEY, enriched_text TEXT)")
                    connection.execute("INSERT INTO chunks SELECT id, enriched_text FROM kb.chunks")
                connection.execute("CREATE TABLE paths (id INTEGER PRIMARY KEY, path BLOB)")
                connection.execute(
                    "INSERT INTO paths SELECT id, path FROM kb.origins WHERE live = 1 AND path IS NOT NULL"
                )
            finally:
                connection.execute("COMMIT")
            connection.execute("DETACH kb")
            try:
                wrong = not chunks_copied or _chunks_disagree(connection)
                return wrong, _wrong_names(connection) if names_copied else 1
            except apsw.Error:
                if ended:
                    raise ended[0] from None
                raise
    finally:
        connection.close()


def _register(connection: apsw.Connection, pace: Pace) -> list[BaseException]:
    """Have the tokenizer say how long each text took; return where the exception stands that ended the work."""
    ended: list[BaseException] = []

    def paced(utf8: bytes, flags: int, locale: str | None) -> object:
        begun = time.perf_counter()
        positions = tokenizer.tokenize(utf8, flags, locale)
        try:
            pace(time.perf_counter() - begun)
        except BaseException as error:
            ended.append(error)
            raise
        return positions

    connection.register_fts5_tokenizer("kbsync", lambda _connection, _arguments: paced)  # type: ignore[arg-type, return-value]
    return ended


def _copied(connection: apsw.Connection, name: str, column: str, options: str) -> bool:
    """Copy an index as it lies; False where it is so damaged that this is not possible."""
    connection.execute(f"CREATE VIRTUAL TABLE {name} USING fts5 ({column}{options}, tokenize = '{tokenizer.TOKENIZE}')")
    try:
        for part in _PARTS:
            connection.execute(f"DELETE FROM main.{name}_{part}")
            connection.execute(f"INSERT INTO main.{name}_{part} SELECT * FROM kb.{name}_{part}")
    except apsw.SQLError:  # a part of it is not there
        return False
    return True


def _chunks_disagree(connection: apsw.Connection) -> bool:
    try:
        connection.execute("INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('integrity-check', 1)")
    except apsw.Error as error:
        if not is_of_full_text(error):
            raise
        return True
    return False


def _wrong_names(connection: apsw.Connection) -> int:
    """Count the words of names that are in one of the index and the paths, and not in the other."""
    connection.execute(
        "CREATE VIRTUAL TABLE right_fts USING fts5 (name, content = '', contentless_delete = 1, "
        f"tokenize = '{tokenizer.TOKENIZE}')"
    )
    rows: list[Any] = connection.execute("SELECT id, path FROM paths").fetchall()
    for origin_id, path in rows:
        connection.execute(
            "INSERT INTO right_fts (rowid, name) VALUES (?, ?)", (origin_id, origins.searchable_name(os.fsdecode(path)))
        )
    connection.execute("CREATE VIRTUAL TABLE is_there USING fts5vocab (names_fts, instance)")
    connection.execute("CREATE VIRTUAL TABLE should_be USING fts5vocab (right_fts, instance)")
    both = ("is_there", "should_be"), ("should_be", "is_there")
    try:
        return sum(
            int(connection.execute(f"SELECT count(*) FROM (SELECT * FROM {one} EXCEPT SELECT * FROM {other})").get)
            for one, other in both
        )
    except (apsw.SQLError, apsw.CorruptError, apsw.ConstraintError):
        return 1  # the statements are right, and only the copy is read: FTS5 can make nothing of it, and says not why
