"""Vectors: an ordinary table for each embedder, `vectors_{id}`; which one is live is a row in `meta`.

A vector is kept with the hash of the enriched text it was made of. That is the embedding cache too: a text that is
in the table, also of a superseded version, is never embedded again, and nothing is stored twice for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import apsw

from kbsync.errors import FailFile
from kbsync.failpoints import failpoint
from kbsync.model import Embedder
from kbsync.reasons import Reason
from kbsync.store import meta
from kbsync.store.selection import CURRENT, Selection

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kbsync.model import Vectors


def use_embedder(connection: apsw.Connection, embedder: Embedder, now: float, folder: str | None = None) -> int:
    """Return the embedder's row id, its table made where it is new; the first one ever becomes live.

    Of two tables of one model it is the live one. `folder` says where the model lies now.
    """
    row = connection.execute(
        "SELECT id FROM embedders WHERE fingerprint = ? ORDER BY id = ? DESC, id DESC LIMIT 1",
        (embedder.fingerprint, live_embedder(connection)),
    ).get
    if row is None:
        row = make_table(connection, embedder, now)
    if folder is not None:
        connection.execute("UPDATE embedders SET folder = ?1 WHERE id = ?2 AND folder IS NOT ?1", (folder, row))
    if live_embedder(connection) is None:
        make_live(connection, int(row), now)
    return int(row)


def make_table(connection: apsw.Connection, embedder: Embedder, now: float) -> int:
    """Make a new, empty table for an embedder's vectors and return its row id."""
    return _make_table(connection, embedder.fingerprint, embedder.model_name, embedder.dimension, now)


def take_over(connection: apsw.Connection, fingerprint: str, model_name: str, dimension: int, now: float) -> int:
    """Return the row id of a model that a database that was set aside was made with; the first one becomes live."""
    row = connection.execute("SELECT id FROM embedders WHERE fingerprint = ?", (fingerprint,)).get
    if row is None:
        row = _make_table(connection, fingerprint, model_name, dimension, now)
    if live_embedder(connection) is None:
        make_live(connection, int(row), now)
    return int(row)


def _make_table(connection: apsw.Connection, fingerprint: str, model_name: str, dimension: int, now: float) -> int:
    connection.execute(
        "INSERT INTO embedders (fingerprint, model_name, dimension, created_at) VALUES (?, ?, ?, ?)",
        (fingerprint, model_name, dimension, now),
    )
    row = connection.last_insert_rowid()
    create(connection, row)
    failpoint("vectors.table_made")
    return row


def create(connection: apsw.Connection, embedder_id: int) -> None:
    """Create what is missing of an embedder's table and its index."""
    number = int(embedder_id)
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS vectors_{number} (chunk_id INTEGER PRIMARY KEY REFERENCES chunks (id), "
        "text_hash BLOB NOT NULL, embedding BLOB NOT NULL) STRICT"
    )
    connection.execute(f"CREATE INDEX IF NOT EXISTS vectors_{number}_text ON vectors_{number} (text_hash)")


def make_live(connection: apsw.Connection, embedder_id: int, now: float) -> None:
    """Have search use this table from now on."""
    meta.put(connection, meta.LIVE_EMBEDDER, str(embedder_id))
    connection.execute("UPDATE embedders SET live_at = ? WHERE id = ?", (now, embedder_id))
    meta.raise_vector_losses(connection)


def live_embedder(connection: apsw.Connection) -> int | None:
    """Return the row id of the embedder whose vectors search uses, None before the first."""
    value = meta.get(connection, meta.LIVE_EMBEDDER)
    return None if value is None else int(value)


def text_hash(enriched_text: str) -> bytes:
    """Return the key of a text in the embedding cache."""
    return hashlib.sha256(enriched_text.encode("utf-8", "surrogatepass")).digest()


def insert(
    connection: apsw.Connection, embedder_id: int, chunk_ids: Sequence[int], texts: Sequence[str], rows: Vectors
) -> None:
    """Insert one vector a chunk. Raises FailFile(MODEL) unless each is finite, non-zero and of the right length."""
    import numpy as np

    dimension = _dimension(connection, embedder_id)
    matrix = np.ascontiguousarray(rows, dtype=np.float32)
    if matrix.shape != (len(chunk_ids), dimension):
        raise FailFile(
            Reason.MODEL, f"The model gave vectors of shape {matrix.shape}, not ({len(chunk_ids)}, {dimension})."
        )
    if not np.isfinite(matrix).all() or not (np.linalg.norm(matrix, axis=1) > 0).all():
        raise FailFile(Reason.MODEL, "The model gave a vector that is zero or not a number.")
    at_the_end = min(chunk_ids, default=0) > newest(connection, embedder_id)
    connection.executemany(
        f"INSERT INTO vectors_{int(embedder_id)} (chunk_id, text_hash, embedding) VALUES (?, ?, ?)",
        ((chunk_ids[i], text_hash(texts[i]), matrix[i].tobytes()) for i in range(len(chunk_ids))),
    )
    if live_embedder(connection) != embedder_id:
        return  # nobody searches a table that is being made
    if at_the_end:
        meta.raise_vector_generation(connection)
    else:
        meta.raise_vector_losses(connection)


def delete_of(connection: apsw.Connection, document_id: int) -> None:
    """Delete the vectors of a document's chunks, in every embedder's table."""
    for table in _tables(connection):
        connection.execute(
            f"DELETE FROM {table} WHERE chunk_id IN (SELECT id FROM chunks WHERE document_id = ?)", (document_id,)
        )
    meta.raise_vector_losses(connection)


def known(connection: apsw.Connection, embedder_id: int, texts: Iterable[str]) -> dict[str, NDArray[np.float32]]:
    """Return the vectors that this embedder made of any of the texts before."""
    import numpy as np

    length = 4 * _dimension(connection, embedder_id)
    found = {}
    for text in texts:
        blob = connection.execute(
            f"SELECT embedding FROM vectors_{int(embedder_id)} WHERE text_hash = ? AND length(embedding) = ? LIMIT 1",
            (text_hash(text), length),
        ).get
        if blob is None:
            blob = connection.execute(
                "SELECT embedding FROM salvaged_vectors WHERE text_hash = ? AND length(embedding) = ? "
                "AND fingerprint = (SELECT fingerprint FROM embedders WHERE id = ?)",
                (text_hash(text), length, embedder_id),
            ).get
        if blob is None:
            continue
        vector = np.frombuffer(blob, dtype=np.float32)
        if np.isfinite(vector).all() and vector.any():  # what is damaged spoils no other document
            found[text] = vector
    return found


def keep_salvaged(connection: apsw.Connection, rows: Iterable[tuple[str, bytes, bytes]]) -> None:
    """Keep (fingerprint, text hash, embedding) of what is lost otherwise, for texts that are met again."""
    connection.executemany(
        "INSERT INTO salvaged_vectors (fingerprint, text_hash, embedding) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows
    )


def keep_orphaned(connection: apsw.Connection, embedder_id: int) -> None:
    """Keep the vectors whose chunk, or whose document, is not there any more: its file may be read again."""
    connection.execute(
        "INSERT INTO salvaged_vectors (fingerprint, text_hash, embedding) "
        f"SELECT embedders.fingerprint, text_hash, embedding FROM vectors_{int(embedder_id)} "
        "JOIN embedders ON embedders.id = ? WHERE typeof(text_hash) = 'blob' AND typeof(embedding) = 'blob' "
        "AND chunk_id NOT IN (SELECT id FROM chunks WHERE document_id IN (SELECT id FROM documents)) "
        "ON CONFLICT DO NOTHING",
        (embedder_id,),
    )


def count_salvaged(connection: apsw.Connection) -> int:
    """Return how many vectors are kept of what was lost."""
    return int(connection.execute("SELECT count(*) FROM salvaged_vectors").get)


def forget_salvaged(connection: apsw.Connection) -> None:
    """Every text that is still there has been met: the others are needed no more."""
    connection.execute("DELETE FROM salvaged_vectors")


def ids(connection: apsw.Connection, embedder_id: int) -> NDArray[np.int64]:
    """Return every chunk id that has a vector, ascending."""
    # Without an order SQLite reads the small index instead of the table with the vectors.
    return _ascending(connection.execute(f"SELECT group_concat(chunk_id) FROM vectors_{int(embedder_id)}").get)


def newest(connection: apsw.Connection, embedder_id: int) -> int:
    """Return the largest chunk id that has a vector, 0 where none has."""
    return int(connection.execute(f"SELECT max(chunk_id) FROM vectors_{int(embedder_id)}").get or 0)


def current_after(connection: apsw.Connection, embedder_id: int, after: int) -> NDArray[np.int64]:
    """Return the ids above `after` that have a vector and belong to a current document, ascending."""
    joined = connection.execute(
        f"SELECT group_concat(v.chunk_id) FROM vectors_{int(embedder_id)} AS v "
        "CROSS JOIN chunks ON chunks.id = v.chunk_id CROSS JOIN documents ON documents.id = chunks.document_id "
        "WHERE v.chunk_id > ? AND documents.state = 'current'",
        (after,),
    ).get
    return _ascending(joined)


def load(connection: apsw.Connection, embedder_id: int, chunk_ids: Iterable[int]) -> Vectors:
    """Return the vectors of these chunks, which must exist, in the ids' ascending order, shape (n, dimension).

    In place of one that is damaged stand zeros: it is near to nothing.
    """
    import numpy as np

    dimension = _dimension(connection, embedder_id)
    nothing = bytes(4 * dimension)
    rows = connection.execute(
        f"SELECT embedding FROM vectors_{int(embedder_id)} WHERE chunk_id IN (SELECT value FROM json_each(?)) "
        "ORDER BY chunk_id",
        (json.dumps([int(chunk_id) for chunk_id in chunk_ids]),),
    )
    joined = b"".join(row[0] if len(row[0]) == len(nothing) else nothing for row in rows)
    matrix = np.frombuffer(joined, dtype=np.float32).reshape(-1, dimension)
    if np.isfinite(matrix).all():
        return matrix
    whole = matrix.copy()
    whole[~np.isfinite(matrix).all(axis=1)] = 0
    return whole


def current_chunks(connection: apsw.Connection) -> NDArray[np.int64]:
    """Return the ids of all chunks of current documents, ascending."""
    return selected_chunks(connection, CURRENT)


def selected_chunks(connection: apsw.Connection, selection: Selection) -> NDArray[np.int64]:
    """Return the ids of the chunks that a search may find, ascending."""
    joined = connection.execute(
        "SELECT group_concat(chunks.id) FROM documents JOIN chunks ON chunks.document_id = documents.id "
        f"WHERE {selection.sql}",
        selection.bindings,
    ).get
    return _ascending(joined)


def nearest(
    connection: apsw.Connection, embedder_id: int, query: bytes, limit: int, selection: Selection = CURRENT
) -> list[tuple[int, float]]:
    """Return (chunk id, cosine similarity) by exact search in SQL among what is selected, best first, ties by id."""
    rows = connection.execute(
        # The selection first and as a whole: joined, SQLite might ask it anew for every vector.
        "WITH selected AS MATERIALIZED (SELECT chunks.id FROM documents JOIN chunks "
        f"ON chunks.document_id = documents.id WHERE {selection.sql}) "
        f"SELECT v.chunk_id, 1.0 - vec_distance_cosine(v.embedding, ?) AS score FROM selected "
        f"CROSS JOIN vectors_{int(embedder_id)} AS v ON v.chunk_id = selected.id AND length(v.embedding) = length(?) "
        "ORDER BY score DESC, v.chunk_id LIMIT ?",
        (*selection.bindings, query, query, limit),
    )
    return [(int(chunk_id), float(score)) for chunk_id, score in rows if score is not None]


def _ascending(joined: str | None) -> NDArray[np.int64]:
    """Return ids that SQLite joined with commas, sorted; one row a query is much faster than one an id."""
    import numpy as np

    return np.sort(np.fromstring(joined or "", dtype=np.int64, sep=","))


def _dimension(connection: apsw.Connection, embedder_id: int) -> int:
    return int(connection.execute("SELECT dimension FROM embedders WHERE id = ?", (embedder_id,)).get or 0)


def _tables(connection: apsw.Connection) -> list[str]:
    return [f"vectors_{int(row[0])}" for row in connection.execute("SELECT id FROM embedders")]
