"""The table `documents`: one row for each content."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast

import apsw

from kbsync.failpoints import failpoint
from kbsync.file_types import DocumentType
from kbsync.model import DocumentUpdate, Metadata, TitleSource
from kbsync.reasons import Reason
from kbsync.store import chunks, discards, origins, vectors

_COLUMNS = (
    "id, title, title_source, type, language, type_by_hand, content_hash, original_filename, stored_path, size_bytes, "
    "page_count, reason, state, converter_fingerprint, chunker_fingerprint, created_at, updated_at, metadata"
)


@dataclass(frozen=True, slots=True)
class Document:
    """A row of `documents`. Times are seconds since 1970."""

    id: int
    title: str
    title_source: TitleSource
    type: DocumentType
    language: str | None
    type_by_hand: bool
    content_hash: str
    original_filename: str | None
    stored_path: str | None
    size_bytes: int
    page_count: int | None
    reason: Reason | None
    state: Literal["current", "superseded", "missing"]
    converter_fingerprint: str
    chunker_fingerprint: str
    created_at: float
    updated_at: float
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """By which rules a document was made."""

    type: DocumentType
    converter: str
    chunker: str


def by_hash(connection: apsw.Connection, content_hash: str) -> Document | None:
    """Return the document with this content, None where there is none."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM documents WHERE content_hash = ?", (content_hash,)).fetchone()
    return None if row is None else _document(row)


def by_id(connection: apsw.Connection, document_id: int) -> Document | None:
    """Return the document, None where there is none."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM documents WHERE id = ?", (document_id,)).fetchone()
    return None if row is None else _document(row)


def listed(
    connection: apsw.Connection, *, state: str | None, document_type: str | None, limit: int, offset: int
) -> tuple[list[Document], int]:
    """Return (documents newest first, how many there are in all); None filters nothing."""
    where = "(?1 IS NULL OR state = ?1) AND (?2 IS NULL OR type = ?2)"
    total = connection.execute(f"SELECT count(*) FROM documents WHERE {where}", (state, document_type)).get
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM documents WHERE {where} ORDER BY updated_at DESC, id DESC LIMIT ?3 OFFSET ?4",
        (state, document_type, limit, offset),
    )
    return [_document(row) for row in rows], int(total)


def write(connection: apsw.Connection, update: DocumentUpdate, embedder_id: int, now: float) -> int:
    """Write one content whole: its row, chunks (and by triggers FTS) and vectors; return its id.

    Known content is replaced in place and keeps its id, its stored copy and when it was made.
    """
    known = connection.execute("SELECT id FROM documents WHERE content_hash = ?", (update.content_hash,)).get
    values = (
        update.title,
        update.title_source,
        update.type,
        update.language,
        int(update.type_by_hand),
        update.original_filename,
        update.size_bytes,
        update.page_count,
        update.reason,
        update.converter_fingerprint,
        update.chunker_fingerprint,
        json.dumps(update.metadata, ensure_ascii=False),
        now,
    )
    if known is None:
        connection.execute(
            "INSERT INTO documents (title, title_source, type, language, type_by_hand, original_filename, size_bytes, "
            "page_count, reason, converter_fingerprint, chunker_fingerprint, metadata, updated_at, created_at, "
            "content_hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*values, now if update.created_at is None else update.created_at, update.content_hash),
        )
        document_id = connection.last_insert_rowid()
    else:
        document_id = int(known)
        connection.execute(
            "UPDATE documents SET title = ?, title_source = ?, type = ?, language = ?, type_by_hand = ?, "
            "original_filename = coalesce(?, original_filename), size_bytes = ?, page_count = ?, reason = ?, "
            "converter_fingerprint = ?, chunker_fingerprint = ?, metadata = ?, updated_at = ? WHERE id = ?",
            (*values, document_id),
        )
        vectors.delete_of(connection, document_id)
        chunks.delete_of(connection, document_id)
        failpoint("documents.taken_apart")
    failpoint("documents.row_written")
    ids = chunks.insert(connection, document_id, update.chunks)
    failpoint("documents.chunks_written")
    if update.vectors is not None:
        vectors.insert(connection, embedder_id, ids, [chunk.enriched_text for chunk in update.chunks], update.vectors)
        failpoint("documents.vectors_written")
    return document_id


def bring_back_note(
    connection: apsw.Connection,
    document_id: int,
    title: str,
    title_source: TitleSource,
    content_hash: str,
    size_bytes: int,
    made_by: str,
    now: float,
) -> None:
    """Write the row of a note again whose chunk is there; when it was made stands in what else is left of it."""
    made = connection.execute(
        "SELECT min(at) FROM (SELECT since AS at FROM origins WHERE document_id = ?1 "
        "UNION ALL SELECT at FROM events WHERE document_id = ?1)",
        (document_id,),
    ).get
    connection.execute(
        "INSERT INTO documents (id, title, title_source, type, content_hash, size_bytes, converter_fingerprint, "
        "chunker_fingerprint, created_at, updated_at) VALUES (?, ?, ?, 'note', ?, ?, ?, ?, ?, ?)",
        (
            document_id,
            title,
            title_source,
            content_hash,
            size_bytes,
            made_by,
            made_by,
            now if made is None else float(made),
            now,
        ),
    )


def set_stored_path(connection: apsw.Connection, document_id: int, stored_path: str, original_filename: str) -> None:
    """Record where the copy lies and what the file was called."""
    connection.execute(
        "UPDATE documents SET stored_path = ?, original_filename = coalesce(original_filename, ?) WHERE id = ?",
        (stored_path, original_filename, document_id),
    )


def move_stored(connection: apsw.Connection, old: str, new: str) -> None:
    """Write where a stored copy lies now."""
    connection.execute("UPDATE documents SET stored_path = ? WHERE stored_path = ?", (new, old))


def content_hashes(connection: apsw.Connection) -> set[str]:
    """Return the content hash of every document."""
    return {str(value) for (value,) in connection.execute("SELECT content_hash FROM documents")}


def fingerprints_after(connection: apsw.Connection, after: int) -> Iterator[tuple[int, Fingerprints]]:
    """Yield (id, by which rules it was made) of current documents with a greater id, by id."""
    for document_id, kind, converter, chunker in connection.execute(
        "SELECT id, type, converter_fingerprint, chunker_fingerprint FROM documents "
        "WHERE state = 'current' AND id > ? ORDER BY id",
        (after,),
    ):
        yield int(document_id), Fingerprints(kind, converter, chunker)


def counts_by_fingerprints(connection: apsw.Connection, after: int) -> dict[Fingerprints, int]:
    """Return how many current documents with a greater id were made by which rules."""
    rows = connection.execute(
        "SELECT type, converter_fingerprint, chunker_fingerprint, count(*) FROM documents "
        "WHERE state = 'current' AND id > ? GROUP BY 1, 2, 3",
        (after,),
    )
    return {Fingerprints(kind, converter, chunker): int(count) for kind, converter, chunker, count in rows}


def to_be_remade(connection: apsw.Connection, after: int) -> int:
    """Return how many documents with a greater id are to be made anew, whatever rules made them."""
    return int(
        connection.execute(
            "SELECT count(*) FROM documents WHERE state = 'current' AND type <> 'note' AND chunker_fingerprint = '' "
            "AND id > ?",
            (after,),
        ).get
    )


def mark_stale(connection: apsw.Connection) -> None:
    """Have every current document count as cut by other rules than today's; notes are never cut."""
    connection.execute("UPDATE documents SET chunker_fingerprint = '' WHERE state = 'current' AND type <> 'note'")


def stored_paths(connection: apsw.Connection) -> set[str]:
    """Return where every stored copy lies."""
    return {
        str(path) for (path,) in connection.execute("SELECT stored_path FROM documents WHERE stored_path IS NOT NULL")
    }


@dataclass(frozen=True, slots=True)
class StoredCopy:
    """Where the copy of a document lies, and what it should hold. `size` in bytes."""

    document_id: int
    content_hash: str
    path: str
    size: int


def stored_copies(connection: apsw.Connection) -> list[StoredCopy]:
    """Return the copy of every document that has one, by content hash."""
    rows = connection.execute(
        "SELECT id, content_hash, stored_path, size_bytes FROM documents WHERE stored_path IS NOT NULL "
        "ORDER BY content_hash"
    )
    return [StoredCopy(int(number), str(content), str(path), int(size)) for number, content, path, size in rows]


def set_title(connection: apsw.Connection, document_id: int, title: str) -> None:
    """Write a document's title; what its chunks stand under is the caller's to write."""
    connection.execute("UPDATE documents SET title = ? WHERE id = ?", (title, document_id))


def delete(connection: apsw.Connection, document_id: int) -> None:
    """Delete a document with its chunks, FTS rows, vectors and origins. Files and jobs that name it forget it.

    Its stored copy is promised to go: whoever deletes has `knowledge_base.discarding` keep that.
    """
    stored_path = connection.execute("SELECT stored_path FROM documents WHERE id = ?", (document_id,)).get
    if stored_path is not None:
        discards.promise(connection, str(stored_path))
    vectors.delete_of(connection, document_id)
    failpoint("documents.vectors_deleted")
    chunks.delete_of(connection, document_id)
    failpoint("documents.chunks_deleted")
    origins.delete_of(connection, document_id)
    connection.execute("UPDATE files SET document_id = NULL WHERE document_id = ?", (document_id,))
    connection.execute("UPDATE jobs SET document_id = NULL WHERE document_id = ?", (document_id,))
    connection.execute("DELETE FROM documents WHERE id = ?", (document_id,))


def languages(connection: apsw.Connection) -> list[str]:
    """Return the languages that current documents are in."""
    rows = connection.execute(
        "SELECT DISTINCT language FROM documents WHERE state = 'current' AND language IS NOT NULL ORDER BY language"
    )
    return [str(language) for (language,) in rows]


def count_by_type(connection: apsw.Connection) -> dict[str, int]:
    """Return how many current documents there are of each type."""
    return {
        str(document_type): int(count)
        for document_type, count in connection.execute(
            "SELECT type, count(*) FROM documents WHERE state = 'current' GROUP BY type ORDER BY type"
        )
    }


def _document(row: tuple[object, ...]) -> Document:
    values = list(row)
    values[5] = bool(values[5])
    values[11] = None if values[11] is None else Reason(cast(str, values[11]))
    values[-1] = json.loads(cast(str, values[-1]))
    return Document(*values)  # type: ignore[arg-type]  # the columns are in the order of the fields; STRICT checks types
