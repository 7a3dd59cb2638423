"""What the repair writes into tables, each piece whole in the transaction of whoever calls it.

Only what follows from other rows is made anew here, and only what belongs to nothing is deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from kbsync.store import integrity, meta, origins, schema_objects, tokenizer, vector_integrity, vectors


def drop_twice(connection: apsw.Connection, now: float) -> list[tuple[int | None, bytes]]:
    """Leave one job in the queue for each path, and one document at each; return (source, path) of the latter.

    Of two documents the one that came later stays: the path is to be read again, and its file decides.
    """
    connection.execute(
        "DELETE FROM jobs WHERE kind = 'path' AND state IN ('queued', 'processing') AND id NOT IN ("
        "SELECT coalesce(max(CASE state WHEN 'processing' THEN id END), max(id)) FROM jobs "
        "WHERE kind = 'path' AND state IN ('queued', 'processing') GROUP BY source_id, path)"
    )
    rows: list[Any] = connection.execute(
        "SELECT id, source_id, path FROM (SELECT id, source_id, path, row_number() OVER "
        "(PARTITION BY path ORDER BY since DESC, id DESC) AS place FROM origins WHERE kind = 'path' AND live = 1) "
        "WHERE place > 1"
    ).fetchall()
    origins.end(connection, [row[0] for row in rows], "superseded", now)
    return sorted({(row[1], row[2]) for row in rows}, key=str)


def rebuild_full_text(connection: apsw.Connection) -> None:
    """Make the full-text index of the chunks anew from their text."""
    schema_objects.make_fts(connection, "chunks_fts")
    connection.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('rebuild')")
    if meta.get(connection, meta.TOKENIZER) != tokenizer.VERSION:
        rebuild_names(connection)
        meta.put(connection, meta.TOKENIZER, tokenizer.VERSION)


def unreadable_full_text(connection: apsw.Connection) -> list[str]:
    """Return the full-text tables of which FTS5 can make nothing: whatever writes to one would fail."""
    found = []
    for name in ("chunks_fts", "names_fts"):
        try:
            connection.execute(f"SELECT 1 FROM {name} WHERE {name} MATCH '\"kbsync\"' LIMIT 1").fetchall()
        except (apsw.SQLError, apsw.CorruptError, apsw.ConstraintError):
            found.append(name)
    return found


def rebuild_names(connection: apsw.Connection) -> None:
    """Make the index of names anew from the live origins."""
    schema_objects.make_fts(connection, "names_fts")
    origins.index_names(connection)


def reindex(connection: apsw.Connection) -> bool:
    """Make every index anew from its table; False, with nothing done, where rows break a rule of theirs."""
    try:
        connection.execute("REINDEX")
    except apsw.ConstraintError:
        return False
    return True


def count_on(connection: apsw.Connection) -> None:
    """Have every table number its next row above all that ever were."""
    for table, given, used in integrity.numbering(connection):
        if given < used:
            connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", (used, table))
            if not connection.changes():
                connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, used))


def drop_orphans(connection: apsw.Connection, left: Sequence[int] = ()) -> list[tuple[int, bytes]]:
    """Delete what hangs on a row that is not there, and forget such rows where they are named.

    What hangs on the documents `left` stays, and the vectors of texts that are perhaps met again are kept. Return
    (source, path) of the files whose document that was: they are to be read again.
    """
    kept = "".join(f" UNION ALL SELECT {int(number)}" for number in left)
    gone = f"NOT IN (SELECT id FROM documents{kept})"
    known = set(_numbers(connection, "SELECT id FROM embedders"))
    for number in schema_objects.vector_tables(connection):
        if number in known:
            vectors.keep_orphaned(connection, number)
        connection.execute(
            f"DELETE FROM vectors_{number} WHERE chunk_id NOT IN (SELECT id FROM chunks WHERE NOT document_id {gone})"
        )
    held: list[Any] = connection.execute(
        f"SELECT source_id, path FROM origins WHERE kind = 'path' AND live = 1 AND document_id {gone} "
        "AND source_id IN (SELECT id FROM sources)"
    ).fetchall()
    connection.execute(f"DELETE FROM chunks WHERE document_id {gone}")
    connection.execute(f"DELETE FROM names_fts WHERE rowid IN (SELECT id FROM origins WHERE document_id {gone})")
    connection.execute(f"DELETE FROM origins WHERE document_id {gone}")
    connection.execute("UPDATE origins SET source_id = NULL WHERE source_id NOT IN (SELECT id FROM sources)")
    _take_home(connection)
    connection.execute("DELETE FROM files WHERE source_id NOT IN (SELECT id FROM sources)")
    connection.execute("DELETE FROM jobs WHERE source_id NOT IN (SELECT id FROM sources)")
    connection.execute(f"UPDATE jobs SET document_id = NULL WHERE document_id {gone}")
    read_again: list[Any] = (
        held
        + connection.execute(
            f"SELECT source_id, path FROM files WHERE document_id {gone} AND state = 'indexed'"
        ).fetchall()
    )
    connection.execute(f"UPDATE files SET document_id = NULL WHERE document_id {gone}")
    meta.raise_vector_losses(connection)
    return [(int(source_id), path) for source_id, path in read_again]


def _take_home(connection: apsw.Connection) -> None:
    """Have files of a source that is not there belong to the one that they lie in, where nothing is known of them."""
    roots = {bytes(path): int(number) for number, path in connection.execute("SELECT id, path FROM sources")}
    rows: list[Any] = connection.execute(
        "SELECT id, path FROM files WHERE source_id NOT IN (SELECT id FROM sources)"
    ).fetchall()
    for number, path in rows:
        root = max((root for root in roots if path.startswith(root.rstrip(b"/") + b"/")), key=len, default=None)
        if root is not None:
            connection.execute("UPDATE OR IGNORE files SET source_id = ? WHERE id = ?", (roots[root], number))


# ---- vectors ----


def make_vector_tables(connection: apsw.Connection, dimensions: dict[str, int], now: float) -> None:
    """Make the tables of vectors those that `embedders` names, with a live one among them.

    `dimensions`: fingerprint -> dimension of the models at hand. What is missing in a new table is found missing.
    """
    known = dict(connection.execute("SELECT id, fingerprint FROM embedders"))
    for number in schema_objects.vector_tables(connection) - known.keys():
        connection.execute(f"DROP TABLE vectors_{number}")
    for number, fingerprint in known.items():
        vectors.create(connection, number)
        length = vector_integrity.common_length(connection, number)
        dimension = dimensions.get(fingerprint) or (length and length // 4)
        if dimension:
            connection.execute("UPDATE embedders SET dimension = ? WHERE id = ?", (dimension, number))
    for key in (meta.LIVE_EMBEDDER, meta.BUILDING_EMBEDDER):
        value = meta.get(connection, key)
        if value is not None and not (value.isdigit() and int(value) in known):
            meta.remove(connection, key)
    building = meta.get(connection, meta.BUILDING_EMBEDDER)
    if meta.get(connection, meta.LIVE_EMBEDDER) is None and known:
        counts = {n: int(connection.execute(f"SELECT count(*) FROM vectors_{n}").get) for n in known}
        best = max(known, key=lambda number: (str(number) != building, counts[number], number))
        vectors.make_live(connection, best, now)
        if str(best) == building:
            meta.remove(connection, meta.BUILDING_EMBEDDER)
    meta.raise_vector_losses(connection)


def delete_wrong_vectors(connection: apsw.Connection) -> list[int]:
    """Delete the vectors that have no chunk, are no vectors, or were made of another text; return the latter's chunks.

    They are missing from then on.
    """
    stale: set[int] = set()
    for number in _numbers(connection, "SELECT id FROM embedders"):
        other = vector_integrity.stale_vectors(connection, number)
        connection.executemany(
            f"DELETE FROM vectors_{number} WHERE chunk_id = ?",
            ((chunk,) for chunk in {*other, *vector_integrity.bad_vectors(connection, number)}),
        )
        vectors.keep_orphaned(connection, number)
        connection.execute(f"DELETE FROM vectors_{number} WHERE chunk_id NOT IN (SELECT id FROM chunks)")
        stale.update(other)
    meta.raise_vector_losses(connection)
    return sorted(stale)


# ---- documents ----


def documents_without_origin(connection: apsw.Connection) -> list[int]:
    """Return the documents that never had an origin."""
    return _numbers(connection, "SELECT id FROM documents WHERE id NOT IN (SELECT document_id FROM origins)")


def notes_without_row(connection: apsw.Connection) -> list[int]:
    """Return the ids of notes of which the chunks are there, and the document is not."""
    return _numbers(
        connection,
        "SELECT DISTINCT document_id FROM chunks WHERE document_id NOT IN (SELECT id FROM documents) AND ("
        "document_id IN (SELECT document_id FROM origins WHERE kind = 'note') "
        "OR (json_valid(metadata) AND metadata ->> '$.kind' = 'note'))",
    )


def proves(connection: apsw.Connection, chunk_id: int, enriched_text: str) -> bool:
    """Return whether any vector of a chunk was made of this text."""
    return any(
        connection.execute(f"SELECT text_hash FROM vectors_{number} WHERE chunk_id = ?", (chunk_id,)).get
        == vectors.text_hash(enriched_text)
        for number in schema_objects.vector_tables(connection)
    )


def indexed_paths_of(connection: apsw.Connection, document_id: int) -> list[tuple[int, bytes]]:
    """Return (source, path) of the files that are indexed as a document, where no other document is there."""
    rows = connection.execute(
        "SELECT files.source_id, files.path FROM files JOIN documents ON documents.id = files.document_id "
        "WHERE files.document_id = ? AND files.state = 'indexed' AND files.content_hash = documents.content_hash "
        "AND NOT EXISTS (SELECT 1 FROM origins WHERE path = files.path AND live = 1)",
        (document_id,),
    )
    return [(int(source_id), path) for source_id, path in rows]


def follow_origins(connection: apsw.Connection) -> None:
    """Have every document's state follow from its origins."""
    for document_id in _numbers(connection, "SELECT DISTINCT document_id FROM origins"):
        origins.refresh_state(connection, document_id)


def documents_of_chunks(connection: apsw.Connection, chunk_ids: Sequence[int]) -> list[int]:
    """Return the documents of these chunks."""
    return _numbers(
        connection,
        "SELECT DISTINCT document_id FROM chunks WHERE id IN (SELECT value FROM json_each(?))",
        json.dumps(list(chunk_ids)),
    )


def documents_cut_off(connection: apsw.Connection) -> list[int]:
    """Return the documents behind whose last chunk vectors of no chunk follow: the end of their text may be gone.

    A document's chunks are numbered in a row, so no gap between them tells of that.
    """
    ends: set[int] = set()
    for number in sorted(schema_objects.vector_tables(connection)):
        orphans = set(
            _numbers(connection, f"SELECT chunk_id FROM vectors_{number} WHERE chunk_id NOT IN (SELECT id FROM chunks)")
        )
        ends.update(orphan - 1 for orphan in orphans if orphan - 1 not in orphans)
    return documents_of_chunks(connection, sorted(ends))


def documents_with_gaps(connection: apsw.Connection) -> list[int]:
    """Return the documents without a chunk, or with gaps between their chunks."""
    return _numbers(
        connection,
        "SELECT id FROM documents WHERE id NOT IN (SELECT document_id FROM chunks) UNION "
        "SELECT document_id FROM chunks GROUP BY document_id "
        "HAVING min(position) <> 0 OR max(position) + 1 <> count(*)",
    )


def have_made_anew(connection: apsw.Connection, document_ids: Iterable[int]) -> None:
    """Have current documents be made anew from their copy or file, whatever rules made them."""
    wanted = sorted(set(document_ids))
    if not wanted:
        return
    connection.executemany(
        "UPDATE documents SET chunker_fingerprint = '' WHERE id = ?", ((document_id,) for document_id in wanted)
    )
    remaking = meta.get(connection, meta.REMAKING)
    after = wanted[0] - 1 if remaking is None else min(wanted[0] - 1, int(json.loads(remaking)["after"]))
    meta.put(connection, meta.REMAKING, json.dumps({"after": after}))


def close_gaps(connection: apsw.Connection, document_id: int, *, is_whole: bool = False) -> None:
    """Number a document's chunks without gaps. Where there were some, part of its text is gone, unless `is_whole`."""
    rows: list[int] = []
    places: list[int] = []
    for row, place in connection.execute(
        "SELECT id, position FROM chunks WHERE document_id = ? ORDER BY position", (document_id,)
    ):
        rows.append(int(row))
        places.append(int(place))
    if places == list(range(len(places))):
        return
    # Past every number that is taken, then down to the right ones.
    for first in (1 << 40, 0):
        connection.executemany(
            "UPDATE chunks SET position = ? WHERE id = ?", ((first + place, row) for place, row in enumerate(rows))
        )
    if not is_whole:
        connection.execute("UPDATE documents SET reason = 'truncated' WHERE id = ?", (document_id,))


def set_chunk_text(connection: apsw.Connection, chunk_id: int, text: str, enriched: str) -> None:
    """Write a chunk's text; its full-text row follows, and its vectors go where they were made of another."""
    connection.execute("UPDATE chunks SET text = ?, enriched_text = ? WHERE id = ?", (text, enriched, chunk_id))
    for number in schema_objects.vector_tables(connection):
        connection.execute(
            f"DELETE FROM vectors_{number} WHERE chunk_id = ? AND text_hash <> ?",
            (chunk_id, vectors.text_hash(enriched)),
        )
    meta.raise_vector_losses(connection)


# ---- the ledger and the queue ----


def wrong_paths(connection: apsw.Connection) -> list[tuple[int, bytes]]:
    """Return (source, path) of all that is indexed and holds nothing, or another content than the ledger says."""
    rows = connection.execute(
        """
        SELECT files.source_id, files.path FROM files LEFT JOIN documents ON documents.id = files.document_id
        WHERE files.state = 'indexed' AND files.source_id IN (SELECT id FROM sources WHERE reason IS NOT 'taken_out')
        AND (files.content_hash IS NOT documents.content_hash OR NOT EXISTS (
            SELECT 1 FROM origins WHERE path = files.path AND live = 1 AND document_id = files.document_id))
        """
    )
    return [(int(source_id), path) for source_id, path in rows]


def ghosts(connection: apsw.Connection) -> list[tuple[int, bytes]]:
    """Return (origin, path) of the live paths that the ledger knows nothing of."""
    rows = connection.execute(
        "SELECT id, path FROM origins WHERE kind = 'path' AND live = 1 AND NOT EXISTS (SELECT 1 FROM files "
        "WHERE path = origins.path AND source_id = origins.source_id AND state IN ('indexed', 'waiting', 'failed'))"
    )
    return [(int(origin_id), path) for origin_id, path in rows]


def set_source(connection: apsw.Connection, origin_id: int, source_id: int) -> None:
    """Write which source an origin's path lies in."""
    connection.execute("UPDATE origins SET source_id = ? WHERE id = ?", (source_id, origin_id))


def forget_version(connection: apsw.Connection, source_id: int, path: bytes) -> None:
    """Forget which version of a path was read, so that nothing of it is believed."""
    connection.execute(
        "UPDATE files SET content_hash = NULL, document_id = NULL, hash_due = 0 WHERE source_id = ? AND path = ?",
        (source_id, path),
    )


def stuck_jobs(connection: apsw.Connection) -> list[int]:
    """Return the jobs that count as worked on and that nobody has."""
    return _numbers(connection, "SELECT id FROM jobs WHERE state = 'processing' AND lease_until IS NULL")


def _numbers(connection: apsw.Connection, sql: str, *bindings: Any) -> list[int]:
    return [int(number) for (number,) in connection.execute(sql, bindings)]
