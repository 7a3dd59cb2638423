"""Looks at the database as a whole: its pages, its size, pruning what has ended, writing it anew."""

from __future__ import annotations

from collections.abc import Mapping

import apsw

from kbsync.failpoints import failpoint
from kbsync.store import events, jobs, origins
from kbsync.store.connection import whole

# Pages of the full-text index that are merged in one transaction.
_MERGED_PAGES = 500


def corrupt_pages(connection: apsw.Connection) -> int:
    """Return how many complaints SQLite's own quick check has."""
    rows = [str(row[0]) for row in connection.execute("PRAGMA quick_check")]
    return 0 if rows == ["ok"] else len(rows)


def size_bytes(connection: apsw.Connection) -> int:
    """Return the size of the database in bytes, without its WAL."""
    return int(connection.pragma("page_count")) * int(connection.pragma("page_size"))


def free_bytes(connection: apsw.Connection) -> int:
    """Return how many bytes of the database's file hold nothing."""
    return int(connection.pragma("freelist_count")) * int(connection.pragma("page_size"))


def pieces(connection: apsw.Connection) -> int:
    """Return of how many pieces the full-text index is: every search looks into each of them."""
    return int(connection.execute("SELECT count(DISTINCT segid) FROM chunks_fts_idx").get)


def merge_words(connection: apsw.Connection, *, begin: bool) -> bool:
    """Merge a part of the full-text index, which carries words of deleted rows along until then; False: all is merged.

    `begin` says that a new merge of all of it is wanted. In a transaction; each part takes well under a second.
    """
    before = connection.total_changes()
    pages = -_MERGED_PAGES if begin else _MERGED_PAGES
    connection.execute("INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('merge', ?)", (pages,))
    return connection.total_changes() - before >= 2  # by FTS5's documentation: less is nothing


def number_after(connection: apsw.Connection, highest: Mapping[str, int]) -> None:
    """Have the row ids of tables that are still empty begin after these: one that was given once means nothing else."""
    for table, number in highest.items():
        connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
        connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, number))


def prune(connection: apsw.Connection, now: float) -> None:
    """Delete ended jobs and events that are old or too many, so that neither table grows for ever."""
    jobs.prune(connection, now)
    events.prune(connection)


def delete_for_good(connection: apsw.Connection) -> None:
    """Have what this connection deletes from now on be overwritten, in pages and in the full-text index."""
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('secure-delete', 1)")


def delete_as_before(connection: apsw.Connection) -> None:
    """Undo `delete_for_good`: overwriting makes every later deletion slower."""
    connection.execute("INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('secure-delete', 0)")
    connection.execute("PRAGMA secure_delete = OFF")


def rewrite(connection: apsw.Connection) -> bool:
    """Write the whole database anew, so that nothing of what was ever deleted is left in its files.

    Outside any transaction. Return False where a reader held on to the write-ahead log, which then stays until the
    next time. Needs as much room on the disk again.
    """
    failpoint("maintenance.rewriting")
    with whole(connection):
        # Merged into one segment: words of deleted rows are carried along until then.
        connection.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('optimize')")
        # It keeps no text to delete by, only marks that a row is gone.
        connection.execute("INSERT INTO names_fts (names_fts) VALUES ('delete-all')")
        origins.index_names(connection)
        failpoint("maintenance.optimized")
    return vacuum(connection)


def vacuum(connection: apsw.Connection) -> bool:
    """Write the whole database anew without its free pages, and give their room back. Outside any transaction.

    Return False where a reader held on to the write-ahead log: then the room comes back when it ends. Needs the room of
    what is left twice, once in the system's folder for temporary files. Whatever ends it changes nothing.
    """
    connection.execute("PRAGMA temp_store = FILE")  # the copy of a large database is no matter for memory
    try:
        connection.execute("VACUUM")
        failpoint("maintenance.vacuumed")
    finally:
        connection.execute("PRAGMA temp_store = MEMORY")
    busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").get
    failpoint("maintenance.truncated")
    return not (busy[0] if isinstance(busy, tuple) else busy)
