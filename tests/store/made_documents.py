"""Documents without a pipeline: what a transaction writes for given texts, with vectors of hashed words."""

from __future__ import annotations

import apsw

from kbsync.model import Chunk, DocumentUpdate, Origin
from kbsync.store import documents, origins, vectors
from tests.fakes.hash_embedder import HashEmbedder, hash_vectors

EMBEDDER = HashEmbedder()
NOW = 1_000.0


def made_update(content_hash: str, *texts: str, title: str = "A title") -> DocumentUpdate:
    enriched = [f"{title}\n\n{text}" for text in texts]
    return DocumentUpdate(
        content_hash=content_hash,
        title=title,
        title_source="content",
        type="markdown",
        type_by_hand=False,
        language=None,
        original_filename="a.md",
        size_bytes=sum(map(len, texts)),
        page_count=None,
        converter_fingerprint="converter-1",
        chunker_fingerprint="chunker-1",
        metadata={"tags": ["one", "två"]},
        chunks=tuple(
            Chunk(position, text, whole, {"kind": "text"}, len(text.split()))
            for position, (text, whole) in enumerate(zip(texts, enriched, strict=True))
        ),
        vectors=hash_vectors(enriched, EMBEDDER.dimension) if texts else None,
        reason=None,
    )


def write_document(connection: apsw.Connection, update: DocumentUpdate, path: str | None = None) -> int:
    """Write a document as a job does; with `path` it lies in a watched folder."""
    embedder_id = vectors.use_embedder(connection, EMBEDDER, NOW)
    document_id = documents.write(connection, update, embedder_id, NOW)
    if path is not None:
        origins.add(connection, document_id, Origin("path", path, None), NOW)
    return document_id


def matching(connection: apsw.Connection, table: str, words: str) -> list[int]:
    """Return the row ids of a full-text table that hold the words."""
    rows = connection.execute(f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid", (words,))
    return [int(row[0]) for row in rows]


def count(connection: apsw.Connection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table}").get)


def state_of(connection: apsw.Connection, document_id: int) -> str:
    document = documents.by_id(connection, document_id)
    assert document is not None
    return document.state
