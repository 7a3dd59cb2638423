"""The table `chunks`; its full-text index follows by triggers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import apsw

from kbsync.model import Chunk, Metadata


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk with its ids, as search shows it."""

    id: int
    document_id: int
    position: int
    text: str
    enriched_text: str
    metadata: Metadata
    token_count: int


_COLUMNS = "id, document_id, position, text, enriched_text, metadata, token_count"


def insert(connection: apsw.Connection, document_id: int, new: Iterable[Chunk]) -> list[int]:
    """Insert a document's chunks and return their ids in order."""
    ids = []
    for chunk in new:
        connection.execute(
            "INSERT INTO chunks (document_id, position, text, enriched_text, metadata, token_count) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (
                document_id,
                chunk.position,
                chunk.text,
                chunk.enriched_text,
                json.dumps(chunk.metadata, ensure_ascii=False),
                chunk.token_count,
            ),
        )
        ids.append(connection.last_insert_rowid())
    return ids


def delete_of(connection: apsw.Connection, document_id: int) -> None:
    """Delete a document's chunks. Their vectors must be gone already."""
    connection.execute("DELETE FROM chunks WHERE document_id = ?", (document_id,))


def of_document(connection: apsw.Connection, document_id: int) -> list[StoredChunk]:
    """Return a document's chunks in order."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM chunks WHERE document_id = ? ORDER BY position", (document_id,))
    return [_chunk(row) for row in rows]


def by_ids(connection: apsw.Connection, ids: Sequence[int]) -> dict[int, StoredChunk]:
    """Return the chunks that exist among the ids."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM chunks WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),)
    )
    return {chunk.id: chunk for chunk in map(_chunk, rows)}


def count(connection: apsw.Connection) -> int:
    """Return how many chunks there are, hidden documents' included."""
    return int(connection.execute("SELECT count(*) FROM chunks").get)


def matching(connection: apsw.Connection, match: str, limit: int) -> list[tuple[int, int, float]]:
    """Return (chunk id, document id, score) of current documents' chunks that match, best first; higher is better.

    `match` is an FTS5 expression from search/query. Scores are BM25 (Robertson and Zaragoza 2009, FTS5's k1 and b).
    """
    rows = connection.execute(
        "SELECT chunks.id, chunks.document_id, -bm25(chunks_fts) AS score FROM chunks_fts "
        "JOIN chunks ON chunks.id = chunks_fts.rowid JOIN documents ON documents.id = chunks.document_id "
        "WHERE chunks_fts MATCH ? AND documents.state = 'current' ORDER BY score DESC, chunks.id LIMIT ?",
        (match, limit),
    )
    return [(int(chunk_id), int(document_id), float(score)) for chunk_id, document_id, score in rows]


def matching_names(connection: apsw.Connection, match: str, limit: int) -> list[tuple[int, int, float]]:
    """Return (first chunk id, document id, score) of current documents whose file or folder name matches."""
    rows = connection.execute(
        # Materialized: FTS5 computes bm25 only where no grouping or join is folded into its own query.
        "WITH found AS MATERIALIZED (SELECT rowid AS id, -bm25(names_fts) AS score FROM names_fts "
        "WHERE names_fts MATCH ? ORDER BY score DESC LIMIT ?) "
        "SELECT chunks.id, chunks.document_id, max(found.score) AS score FROM found "
        "JOIN origins ON origins.id = found.id "
        "JOIN chunks ON chunks.document_id = origins.document_id AND chunks.position = 0 "
        "GROUP BY chunks.document_id ORDER BY score DESC, chunks.id",
        (match, limit),
    )
    return [(int(chunk_id), int(document_id), float(score)) for chunk_id, document_id, score in rows]


def _chunk(row: tuple[object, ...]) -> StoredChunk:
    chunk_id, document_id, position, text, enriched_text, metadata, token_count = row
    return StoredChunk(
        int(str(chunk_id)),
        int(str(document_id)),
        int(str(position)),
        str(text),
        str(enriched_text),
        json.loads(str(metadata)),
        int(str(token_count)),
    )
