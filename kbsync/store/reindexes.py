"""A new table of vectors beside the live one: begun, filled, made live in one step; the old one goes afterwards.

`meta.building_embedder` names it. How far it is needs no row of its own: what has no vector in it is still to be done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import apsw

from kbsync.failpoints import failpoint
from kbsync.model import Embedder
from kbsync.store import meta, vectors

if TYPE_CHECKING:
    from kbsync.model import Vectors


@dataclass(frozen=True, slots=True)
class VectorTable:
    """One embedder's table of vectors. Times are seconds since 1970; `folder` is where the model lay when last used."""

    id: int
    fingerprint: str
    model_name: str
    dimension: int
    folder: str | None
    created_at: float
    live_at: float | None


@dataclass(frozen=True, slots=True)
class Missing:
    """A chunk without a vector in the table that is being made. `tokens` as the chunker counted them."""

    chunk_id: int
    enriched_text: str
    tokens: int


def live(connection: apsw.Connection) -> VectorTable | None:
    """Return the table that search uses, None before the first."""
    return _table(connection, vectors.live_embedder(connection))


def building(connection: apsw.Connection) -> VectorTable | None:
    """Return the table that is being made, None where none is."""
    value = meta.get(connection, meta.BUILDING_EMBEDDER)
    return _table(connection, None if value is None else int(value))


def takes_vectors(connection: apsw.Connection, embedder_id: int) -> bool:
    """Return whether vectors may still be written to a table: it is live, or being made."""
    return str(embedder_id) in (meta.get(connection, meta.LIVE_EMBEDDER), meta.get(connection, meta.BUILDING_EMBEDDER))


def follow(connection: apsw.Connection, embedder: Embedder, folder: str, now: float) -> None:
    """Make the tables fit the configured model, for the start of the process that holds the lock.

    Where another model's vectors are live, a table for this one is begun, or the one begun earlier goes on. Tables
    that nobody needs any more go: those that were replaced, and what was begun for a model that is wanted no more.
    """
    wanted = vectors.use_embedder(connection, embedder, now, folder)
    begun = building(connection)
    if wanted != vectors.live_embedder(connection):
        meta.put(connection, meta.BUILDING_EMBEDDER, str(wanted))
        finish(connection, now)  # at once where there is nothing to embed
    elif begun is not None and begun.fingerprint != embedder.fingerprint:
        meta.remove(connection, meta.BUILDING_EMBEDDER)
    drop_replaced(connection)


def begin(connection: apsw.Connection, embedder: Embedder, folder: str, now: float) -> None:
    """Begin a new table for the configured model, unless one is being made already."""
    if building(connection) is None:
        row = vectors.make_table(connection, embedder, now)
        connection.execute("UPDATE embedders SET folder = ? WHERE id = ?", (folder, row))
        meta.put(connection, meta.BUILDING_EMBEDDER, str(row))
        failpoint("reindexes.begun")


def missing(connection: apsw.Connection, embedder_id: int, after: int, limit: int) -> list[Missing]:
    """Return chunks without a vector in a table, by id, those with a greater id than `after`."""
    rows = connection.execute(
        "SELECT id, enriched_text, token_count FROM chunks WHERE id > ? AND NOT EXISTS "
        f"(SELECT 1 FROM vectors_{int(embedder_id)} WHERE chunk_id = chunks.id) ORDER BY id LIMIT ?",
        (after, limit),
    )
    return [Missing(int(chunk_id), str(text), int(tokens)) for chunk_id, text, tokens in rows]


def fill(connection: apsw.Connection, embedder_id: int, done: Sequence[Missing], rows: Vectors) -> None:
    """Write the vectors of chunks that are still there and still without one; `rows` has one for each of `done`."""
    if not takes_vectors(connection, embedder_id):
        return  # another model is wanted meanwhile
    wanted = [
        number
        for number, chunk in enumerate(done)
        if connection.execute(
            "SELECT EXISTS (SELECT 1 FROM chunks WHERE id = ?1) AND NOT EXISTS "
            f"(SELECT 1 FROM vectors_{int(embedder_id)} WHERE chunk_id = ?1)",
            (chunk.chunk_id,),
        ).get
    ]
    if wanted:
        chosen = [done[number] for number in wanted]
        vectors.insert(
            connection,
            embedder_id,
            [chunk.chunk_id for chunk in chosen],
            [chunk.enriched_text for chunk in chosen],
            rows[wanted],
        )
        failpoint("reindexes.filled")


def finish(connection: apsw.Connection, now: float) -> bool:
    """Make the new table the live one where every chunk has its vector; return whether it is."""
    new = building(connection)
    if new is None or missing(connection, new.id, 0, 1):
        return False
    vectors.make_live(connection, new.id, now)
    failpoint("reindexes.live")
    meta.remove(connection, meta.BUILDING_EMBEDDER)
    return True


def gaps(connection: apsw.Connection) -> VectorTable | None:
    """Return the live table where a repair left gaps in it that are to be filled; None where it is as it was made."""
    return None if meta.get(connection, meta.FILLING) is None else live(connection)


def end_filling(connection: apsw.Connection) -> bool:
    """Forget that the live table has gaps, where it has none any more; return whether that is so."""
    table = live(connection)
    if table is not None and missing(connection, table.id, 0, 1):
        return False
    meta.remove(connection, meta.FILLING)
    return True


def drop_replaced(connection: apsw.Connection) -> None:
    """Drop every table that is neither live nor being made."""
    for (row,) in list(connection.execute("SELECT id FROM embedders")):
        if not takes_vectors(connection, row):
            connection.execute(f"DROP TABLE vectors_{int(row)}")
            connection.execute("DELETE FROM embedders WHERE id = ?", (row,))
            failpoint("reindexes.dropped")


def filled(connection: apsw.Connection, embedder_id: int) -> int:
    """Return how many chunks have their vector in a table."""
    return int(connection.execute(f"SELECT count(*) FROM vectors_{int(embedder_id)}").get)


def _table(connection: apsw.Connection, embedder_id: int | None) -> VectorTable | None:
    row = connection.execute(
        "SELECT id, fingerprint, model_name, dimension, folder, created_at, live_at FROM embedders WHERE id = ?",
        (embedder_id,),
    ).fetchone()
    return None if row is None else VectorTable(*row)  # STRICT columns in the order of the fields
