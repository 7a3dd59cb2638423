"""The table `chunks`; its full-text index follows by triggers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from kbsync.model import Chunk, Metadata
from kbsync.store.selection import CURRENT, Selection


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


def documents_of(connection: apsw.Connection, ids: Sequence[int]) -> dict[int, int]:
    """Return the document of each chunk that exists among the ids."""
    rows = connection.execute(
        "SELECT id, document_id FROM chunks WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),)
    )
    return {int(chunk_id): int(document_id) for chunk_id, document_id in rows}


def count(connection: apsw.Connection) -> int:
    """Return how many chunks there are, hidden documents' included."""
    return int(connection.execute("SELECT count(*) FROM chunks").get)


def matching(
    connection: apsw.Connection, match: str, limit: int, selection: Selection = CURRENT
) -> list[tuple[int, int, float]]:
    """Return (chunk id, document id, score) of selected chunks that match, best first, ties by id; higher is better.

    `match` is an FTS5 expression from search/query. Scores are BM25 (Robertson and Zaragoza 2009, FTS5's k1 and b).
    """
    if selection == CURRENT:
        # Nearly every chunk may be shown: only the best are looked at, where that is enough.
        ahead = limit + limit // 2
        sql = (
            "WITH best AS MATERIALIZED (SELECT rowid AS id, -bm25(chunks_fts) AS score FROM chunks_fts "
            "WHERE chunks_fts MATCH ? ORDER BY score DESC, rowid LIMIT ?) "
            "SELECT best.id, chunks.document_id, best.score, documents.state = 'current' FROM best "
            "CROSS JOIN chunks ON chunks.id = best.id CROSS JOIN documents ON documents.id = chunks.document_id "
            "ORDER BY best.score DESC, best.id"
        )
        rows: list[Any] = connection.execute(sql, (match, ahead)).fetchall()
        shown = [(int(row[0]), int(row[1]), float(row[2])) for row in rows if row[3]]
        if len(rows) < ahead or len(shown) >= limit:
            return shown[:limit]
    # CROSS: for a narrow selection SQLite would else evaluate the whole expression anew for every chunk of it.
    found = connection.execute(
        "SELECT chunks.id, chunks.document_id, -bm25(chunks_fts) AS score FROM chunks_fts "
        "CROSS JOIN chunks ON chunks.id = chunks_fts.rowid CROSS JOIN documents ON documents.id = chunks.document_id "
        f"WHERE chunks_fts MATCH ? AND ({selection.sql}) ORDER BY score DESC, chunks.id LIMIT ?",
        (match, *selection.bindings, limit),
    )
    return [(int(chunk_id), int(document_id), float(score)) for chunk_id, document_id, score in found]


def matching_names(
    connection: apsw.Connection, match: str, limit: int, selection: Selection = CURRENT
) -> list[tuple[int, int, float]]:
    """Return (first chunk id, document id, score) of selected documents whose file or folder name matches."""
    rows = connection.execute(
        # Materialized: FTS5 computes bm25 only where no grouping or join is folded into its own query.
        "WITH found AS MATERIALIZED (SELECT rowid AS id, -bm25(names_fts) AS score FROM names_fts "
        "WHERE names_fts MATCH ?) "
        "SELECT chunks.id, chunks.document_id, max(found.score) AS score FROM found "
        "CROSS JOIN origins ON origins.id = found.id "
        "CROSS JOIN chunks ON chunks.document_id = origins.document_id AND chunks.position = 0 "
        "CROSS JOIN documents ON documents.id = chunks.document_id "
        f"WHERE {selection.sql} GROUP BY chunks.document_id ORDER BY score DESC, chunks.id LIMIT ?",
        (match, *selection.bindings, limit),
    )
    return [(int(chunk_id), int(document_id), float(score)) for chunk_id, document_id, score in rows]


def any_selected(connection: apsw.Connection, selection: Selection) -> bool:
    """Return whether any chunk is selected."""
    return bool(
        connection.execute(
            "SELECT EXISTS (SELECT 1 FROM documents JOIN chunks ON chunks.document_id = documents.id "
            f"WHERE {selection.sql})",
            selection.bindings,
        ).get
    )


def newest(connection: apsw.Connection, limit: int, selection: Selection) -> list[int]:
    """Return the first selected chunk of each document, of those that changed last first."""
    rows = connection.execute(
        "SELECT min(chunks.id) FROM documents JOIN chunks ON chunks.document_id = documents.id "
        f"WHERE {selection.sql} GROUP BY documents.id ORDER BY documents.updated_at DESC, documents.id DESC LIMIT ?",
        (*selection.bindings, limit),
    )
    return [int(chunk_id) for (chunk_id,) in rows]


def titles_matching(connection: apsw.Connection, match: str) -> dict[int, str]:
    """Return the titles of all documents with a chunk that matches an FTS5 expression, by document id."""
    rows = connection.execute(
        "SELECT id, title FROM documents WHERE id IN (SELECT chunks.document_id FROM chunks_fts "
        "CROSS JOIN chunks ON chunks.id = chunks_fts.rowid WHERE chunks_fts MATCH ?)",
        (match,),
    )
    return {int(document_id): str(title) for document_id, title in rows}


def sections_matching(connection: apsw.Connection, match: str) -> dict[int, str]:
    """Return the section headers of all chunks that match an FTS5 expression and have one, by chunk id."""
    rows = connection.execute(
        "SELECT chunks.id, json_extract(chunks.metadata, '$.section_header') AS header FROM chunks_fts "
        "CROSS JOIN chunks ON chunks.id = chunks_fts.rowid WHERE chunks_fts MATCH ? AND header IS NOT NULL",
        (match,),
    )
    return {int(chunk_id): str(header) for chunk_id, header in rows}


def _chunk(row: tuple[object, ...]) -> StoredChunk:
    chunk_id, document_id, position, text, enriched_text, metadata, token_count = row
    return StoredChunk(
        int(str(chunk_id)),
        int(str(document_id)),
        int(str(position)),
        str(text),
        str(enriched_text),
        _readable(str(metadata)),
        int(str(token_count)),
    )


def _readable(metadata: str) -> Metadata:
    try:
        read = json.loads(metadata)
    except ValueError:
        return {}  # damaged: the text is shown without its place
    return read if isinstance(read, dict) else {}
