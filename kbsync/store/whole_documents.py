"""Documents of a damaged database that can be brought over whole: each piece of their text is proved by its hash."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kbsync.filesystem import Stat
from kbsync.model import Chunk, DocumentUpdate
from kbsync.reasons import Reason

if TYPE_CHECKING:
    from kbsync.model import Vectors

Record = dict[str, Any]
# Yields the rows of a table.
Rows = Callable[[str], Iterator[Record]]


@dataclass(frozen=True, slots=True)
class Model:
    """The model whose vectors were live, as the table `embedders` names it."""

    id: int
    fingerprint: str
    model_name: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Place:
    """A path of a source that holds a document (`until` is None) or held it. Times are seconds since 1970."""

    folder: str
    path: str
    since: float
    until: float | None
    because: str | None


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """What the ledger said of a path that holds, or held, a document."""

    folder: str
    path: str
    stat: Stat
    rules: str
    at: float
    is_gone: bool


@dataclass(frozen=True, slots=True)
class WholeDocument:
    """A document as it was written, its vectors made by a `Model`, and why it is there. `updated_at` as a time."""

    update: DocumentUpdate
    updated_at: float
    places: tuple[Place, ...]
    ledger: tuple[LedgerRow, ...]


def live_model(rows: Rows) -> Model | None:
    """Return the model whose vectors became live last, None where that cannot be read."""
    found = [row for row in rows("embedders") if row["live_at"] is not None and row["dimension"] > 0]
    newest = max(found, key=lambda row: float(row["live_at"]), default=None)
    return (
        None if newest is None else Model(*(newest[name] for name in ("id", "fingerprint", "model_name", "dimension")))
    )


def whole_documents(
    rows: Rows, vectors: Iterable[tuple[int, bytes, bytes]], model: Model, wanted: frozenset[str]
) -> Iterator[WholeDocument]:
    """Yield those of the wanted documents (by content hash) of which everything can be read and proved.

    `vectors`: (chunk, hash of its enriched text, embedding) of the model's table.
    """
    import numpy as np

    documents = {row["id"]: row for row in rows("documents") if row["content_hash"] in wanted}
    pieces: dict[int, list[Record]] = {}
    for chunk in rows("chunks"):
        if chunk["document_id"] in documents:
            pieces.setdefault(chunk["document_id"], []).append(chunk)
    chunk_ids = {chunk["id"] for chunks in pieces.values() for chunk in chunks}
    embeddings = {chunk_id: (text_hash, blob) for chunk_id, text_hash, blob in vectors if chunk_id in chunk_ids}
    folders = {row["id"]: os.fsdecode(row["path"]) for row in rows("sources")}
    places = _by_document(rows("origins"), documents)
    ledger = _by_document(rows("files"), documents)
    for number, row in documents.items():
        chunks = sorted(pieces.get(number, ()), key=lambda chunk: int(chunk["position"]))
        if not chunks or not all(_is_proved(row, at, chunk, embeddings) for at, chunk in enumerate(chunks)):
            continue
        matrix = np.stack([np.frombuffer(embeddings[chunk["id"]][1], dtype=np.float32) for chunk in chunks])
        if matrix.shape[1] == model.dimension and (update := _update(row, chunks, matrix)) is not None:
            yield WholeDocument(
                update,
                row["updated_at"],
                tuple(
                    Place(
                        folders[one["source_id"]],
                        os.fsdecode(one["path"]),
                        one["since"],
                        None if one["live"] else one["until"] or one["since"],
                        one["ended_because"],
                    )
                    for one in places.get(number, ())
                    if one["kind"] == "path" and one["path"] is not None and one["source_id"] in folders
                ),
                tuple(
                    LedgerRow(
                        folders[one["source_id"]],
                        os.fsdecode(one["path"]),
                        Stat("file", *(one[name] for name in ("size", "mtime_ns", "ctime_ns", "inode", "device"))),
                        one["rules"],
                        one["last_seen_at"],
                        one["state"] == "gone",
                    )
                    for one in ledger.get(number, ())
                    if one["source_id"] in folders
                    and None not in [one[name] for name in ("size", "mtime_ns", "ctime_ns", "inode", "device")]
                ),
            )


def _by_document(rows: Iterator[Record], documents: dict[int, Record]) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for row in rows:
        if row["document_id"] in documents:
            found.setdefault(row["document_id"], []).append(row)
    return found


def _is_proved(document: Record, at: int, chunk: Record, embeddings: dict[int, tuple[bytes, bytes]]) -> bool:
    """Return whether a piece is the one at its place, below its document's title, and the one that was embedded."""
    enriched = chunk["enriched_text"]
    if chunk["position"] != at or chunk["id"] not in embeddings:
        return False
    if not enriched.startswith(document["title"]) or not enriched.endswith(chunk["text"]):
        return False
    return hashlib.sha256(enriched.encode("utf-8", "surrogatepass")).digest() == embeddings[chunk["id"]][0]


def _update(row: Record, chunks: list[Record], vectors: Vectors) -> DocumentUpdate | None:
    try:
        return DocumentUpdate(
            content_hash=row["content_hash"],
            title=row["title"],
            title_source=row["title_source"],
            type=row["type"],
            type_by_hand=bool(row["type_by_hand"]),
            language=row["language"],
            original_filename=row["original_filename"],
            size_bytes=row["size_bytes"],
            page_count=row["page_count"],
            converter_fingerprint=row["converter_fingerprint"],
            chunker_fingerprint=row["chunker_fingerprint"],
            metadata=json.loads(row["metadata"]),
            chunks=tuple(
                Chunk(
                    chunk["position"],
                    chunk["text"],
                    chunk["enriched_text"],
                    json.loads(chunk["metadata"]),
                    chunk["token_count"],
                )
                for chunk in chunks
            ),
            vectors=vectors,
            reason=None if row["reason"] is None else Reason(row["reason"]),
            created_at=row["created_at"],
        )
    except ValueError:
        return None  # JSON or a reason that nobody wrote
