"""Looks at the database as a whole: the questions of the integrity check, its size, and pruning what has ended."""

from __future__ import annotations

import apsw

from kbsync.store import events, jobs, origins, reindexes, vectors
from kbsync.store.connection import whole


def corrupt_pages(connection: apsw.Connection) -> int:
    """Return how many complaints SQLite's own quick check has."""
    rows = [str(row[0]) for row in connection.execute("PRAGMA quick_check")]
    return 0 if rows == ["ok"] else len(rows)


def broken_references(connection: apsw.Connection) -> int:
    """Return how many rows break a foreign key."""
    return sum(1 for _ in connection.execute("PRAGMA foreign_key_check"))


def fts_agrees(connection: apsw.Connection) -> bool:
    """Compare the full-text index with the chunks' enriched text; only rank = 1 makes FTS5 look at the content."""
    try:
        connection.execute("INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('integrity-check', 1)")
    except apsw.CorruptError:
        return False
    return True


def chunks_without_fts(connection: apsw.Connection) -> int:
    """Return how many chunks have no row in the full-text index."""
    return _count(connection, "chunks WHERE id NOT IN (SELECT id FROM chunks_fts_docsize)")


def fts_without_chunks(connection: apsw.Connection) -> int:
    """Return how many full-text rows have no chunk."""
    return _count(connection, "chunks_fts_docsize WHERE id NOT IN (SELECT id FROM chunks)")


def chunks_without_vector(connection: apsw.Connection) -> int:
    """Return how many chunks have no vector: of the live embedder or, while a new table is made, in that one."""
    tables = [table for table in (reindexes.live(connection), reindexes.building(connection)) if table is not None]
    missing = " AND ".join(["TRUE", *(f"id NOT IN (SELECT chunk_id FROM vectors_{table.id})" for table in tables)])
    return _count(connection, f"chunks WHERE {missing}")


def vectors_without_chunk(connection: apsw.Connection) -> int:
    """Return how many vectors of the live embedder have no chunk."""
    live = vectors.live_embedder(connection)
    return 0 if live is None else _count(connection, f"vectors_{live} WHERE chunk_id NOT IN (SELECT id FROM chunks)")


def bad_vectors(connection: apsw.Connection) -> int:
    """Return how many vectors of the live embedder have a wrong length, are zero or not finite."""
    import numpy as np

    live = vectors.live_embedder(connection)
    if live is None:
        return 0
    dimension = connection.execute("SELECT dimension FROM embedders WHERE id = ?", (live,)).get
    bad = 0
    for (blob,) in connection.execute(f"SELECT embedding FROM vectors_{live}"):
        if len(blob) != 4 * dimension:
            bad += 1
            continue
        norm = float(np.linalg.norm(np.frombuffer(blob, dtype=np.float32)))
        bad += not (np.isfinite(norm) and norm > 0)
    return bad


def documents_without_origin(connection: apsw.Connection) -> int:
    """Return how many documents have never had an origin."""
    return _count(connection, "documents WHERE id NOT IN (SELECT document_id FROM origins)")


def names_out_of_step(connection: apsw.Connection) -> int:
    """Return how many live paths cannot be found by their name, or names that can have no live path."""
    live = "SELECT id FROM origins WHERE live = 1 AND path IS NOT NULL"
    missing = _count(connection, f"({live}) WHERE id NOT IN (SELECT id FROM names_fts_docsize)")
    return missing + _count(connection, f"names_fts_docsize WHERE id NOT IN ({live})")


def size_bytes(connection: apsw.Connection) -> int:
    """Return the size of the database in bytes, without its WAL."""
    return int(connection.pragma("page_count")) * int(connection.pragma("page_size"))


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
    with whole(connection):
        # Merged into one segment: words of deleted rows are carried along until then.
        connection.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('optimize')")
        # It keeps no text to delete by, only marks that a row is gone.
        connection.execute("INSERT INTO names_fts (names_fts) VALUES ('delete-all')")
        origins.index_names(connection)
    connection.execute("PRAGMA temp_store = FILE")  # the copy of a large database is no matter for memory
    try:
        connection.execute("VACUUM")
    finally:
        connection.execute("PRAGMA temp_store = MEMORY")
    busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").get
    return not (busy[0] if isinstance(busy, tuple) else busy)


def _count(connection: apsw.Connection, what: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {what}").get)
