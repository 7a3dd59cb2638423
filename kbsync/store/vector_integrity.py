"""The questions of the integrity check about vectors: are they there, are they some, are they of this text."""

from __future__ import annotations

from typing import Any

import apsw

from kbsync.store import meta, reindexes, schema_objects, vectors
from kbsync.store.found import Found, first_of, found_rows

_AT_ONCE = 4096


def tables(connection: apsw.Connection) -> Found | None:
    """Tables of vectors that nobody knows, and embedders whose table is not there or is not the one that it was."""
    return first_of(wrong_tables(connection))


def wrong_tables(connection: apsw.Connection, *, lengths: bool = True) -> list[str]:
    """Return what is wrong with the tables of vectors as a whole, one line each. `lengths`: look at every vector's."""
    there, indexed = schema_objects.vector_tables(connection), schema_objects.vector_indexes(connection)
    known = dict(connection.execute("SELECT id, dimension FROM embedders"))
    wrong = [f"vectors_{number} (of no embedder)" for number in sorted(there - known.keys())]
    wrong += [f"vectors_{number} (missing)" for number in sorted(known.keys() - there)]
    wrong += [f"vectors_{number}_text (missing)" for number in sorted((there & known.keys()) - indexed)]
    for key in (meta.LIVE_EMBEDDER, meta.BUILDING_EMBEDDER):
        value = meta.get(connection, key)
        if value is not None and not (value.isdigit() and int(value) in known):
            wrong.append(f"{key} {value}")
    if known and meta.get(connection, meta.LIVE_EMBEDDER) is None:
        wrong.append("no live embedder")
    for number in sorted(there & known.keys()) if lengths else ():
        length = common_length(connection, number)
        if length is not None and length != 4 * known[number]:
            wrong.append(f"embedder {number} (dimension {known[number]}, its vectors have {length // 4})")
    return wrong


def wrong_dimensions(connection: apsw.Connection, dimensions: dict[str, int]) -> list[str]:
    """Return the embedders that are told another dimension than their model has. `dimensions`: by fingerprint."""
    return [
        f"embedder {number} (dimension {dimension})"
        for number, fingerprint, dimension in connection.execute("SELECT id, fingerprint, dimension FROM embedders")
        if dimensions.get(fingerprint, dimension) != dimension
    ]


def common_length(connection: apsw.Connection, number: int) -> int | None:
    """Return the length in bytes that most vectors of a table have; None where it is empty, or no length stands out."""
    rows: list[Any] = connection.execute(
        f"SELECT length(embedding) AS bytes, count(*) FROM vectors_{number} GROUP BY 1"
    ).fetchall()
    length, count = max(rows, key=lambda row: int(row[1]), default=(0, 0))
    stands_out = 2 * count > sum(row[1] for row in rows)
    return int(length) if stands_out and length and length % 4 == 0 else None


def missing(connection: apsw.Connection) -> Found | None:
    """Chunks without a vector of the live embedder, unless these, or those of a new table, are being made."""
    wanted = [table for table in (reindexes.live(connection), reindexes.building(connection)) if table is not None]
    there = schema_objects.vector_tables(connection)
    if any(table.id not in there for table in wanted) or meta.get(connection, meta.FILLING) is not None:
        return None
    if not wanted and wrong_tables(connection, lengths=False):
        return None  # which table they would be missing in is not known
    nowhere = " AND ".join(["TRUE", *(f"id NOT IN (SELECT chunk_id FROM vectors_{table.id})" for table in wanted)])
    return found_rows(connection, "chunk", f"SELECT id FROM chunks WHERE {nowhere}")


def extra(connection: apsw.Connection) -> Found | None:
    """Vectors without a chunk, in any table that is in use."""
    return found_rows(
        connection,
        "chunk",
        *(
            f"SELECT chunk_id AS id FROM vectors_{number} WHERE chunk_id NOT IN (SELECT id FROM chunks)"
            for number in numbers(connection)
        ),
    )


def bad(connection: apsw.Connection) -> Found | None:
    """Vectors of a wrong length, that are zero or not finite."""
    return first_of(
        f"chunk {chunk_id}" for number in numbers(connection) for chunk_id in bad_vectors(connection, number)
    )


def bad_vectors(connection: apsw.Connection, number: int) -> list[int]:
    """Return the chunks whose vector in a table has a wrong length, is zero or not finite."""
    import numpy as np

    dimension = connection.execute("SELECT dimension FROM embedders WHERE id = ?", (number,)).get
    bad = []
    rows = connection.execute(f"SELECT chunk_id, embedding FROM vectors_{number}")
    while batch := [row for row, _ in zip(rows, range(_AT_ONCE), strict=False)]:
        right = [row for row in batch if len(row[1]) == 4 * dimension]
        bad += [chunk_id for chunk_id, blob in batch if len(blob) != 4 * dimension]
        if right and dimension:
            matrix = np.frombuffer(b"".join(blob for _, blob in right), dtype=np.float32).reshape(-1, dimension)
            with np.errstate(over="ignore", invalid="ignore"):
                lengths = np.linalg.norm(matrix, axis=1)
            bad += [right[i][0] for i in np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))]
    return bad


def stale(connection: apsw.Connection) -> Found | None:
    """Vectors that were made of another text than their chunk has now."""
    return first_of(
        f"chunk {chunk_id}" for number in numbers(connection) for chunk_id in stale_vectors(connection, number)
    )


def stale_vectors(connection: apsw.Connection, number: int) -> list[int]:
    """Return the chunks whose vector in a table was made of another text."""
    rows = connection.execute(
        f"SELECT v.chunk_id, v.text_hash, chunks.enriched_text FROM vectors_{number} AS v "
        "JOIN chunks ON chunks.id = v.chunk_id"
    )
    return [int(chunk_id) for chunk_id, text_hash, text in rows if vectors.text_hash(text) != text_hash]


def numbers(connection: apsw.Connection) -> list[int]:
    """Return the numbers of the tables that are there and belong to an embedder."""
    there = schema_objects.vector_tables(connection)
    return [int(row) for (row,) in connection.execute("SELECT id FROM embedders ORDER BY id") if row in there]
