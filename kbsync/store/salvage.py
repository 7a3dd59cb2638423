"""What a damaged database still says that stands nowhere else: notes, what a person set, excluded and sent, vectors.

What can be read again from files is left to them; documents whose file is away, or another one now, come over whole.
Nothing is concluded from what cannot be read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kbsync.filesystem import Stat
from kbsync.model import IngestOptions, RootIdentity
from kbsync.store import migrations, sources
from kbsync.store.damaged_file import Columns, DamagedFile, fits
from kbsync.store.whole_documents import Model, WholeDocument, live_model, whole_documents

# A normalised vector's length, give or take what a smaller kind of number leaves of it.
_LENGTH_OFF = 1e-2
_VECTORS: Columns = (("chunk_id", "INTEGER", False), ("text_hash", "BLOB", False), ("embedding", "BLOB", False))
# Documents that are brought over whole are in memory so many at a time.
_SHARE = 1000
_HAND_ORIGINS = ("added", "upload", "inbox")


@dataclass(frozen=True, slots=True)
class Note:
    """`options.title` is set where a person gave it one. `is_whole`: its text is the one that was written."""

    text: str
    options: IngestOptions
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Kept:
    """A document whose stored copy has this name in `documents/`: what was set by hand, and where it came from."""

    name: str
    options: IngestOptions
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """A document, notes left out. `paths`: those of sources that hold it now; `is_explained`: an origin was read."""

    paths: tuple[str, ...]
    is_current: bool
    is_explained: bool = True


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job whose staged copy has this name in `staging/`."""

    name: str
    kind: str
    path: str
    options: IngestOptions


@dataclass(frozen=True, slots=True)
class Folder:
    """A source as it was. `paused_at`: when a person paused it; `identity`: which folder it was, if that is known."""

    path: str
    paused_at: float | None
    identity: RootIdentity | None


@dataclass(frozen=True, slots=True)
class Removed:
    """A path that a person took out of the index, or whose bytes were: they stay out."""

    folder: str
    path: str
    stat: Stat | None
    rules: str
    at: float
    content_hash: str | None
    is_left_out: bool


@dataclass(frozen=True, slots=True)
class Happened:
    """An event of the history."""

    at: float
    kind: str
    folder: str | None
    path: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class Salvage:
    """What could be read. `documents`: by content hash.

    `knows_jobs`: the queue could be read whole. `highest`: the largest row id of each table.
    """

    notes: tuple[Note, ...] = ()
    kept: tuple[Kept, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    folders: tuple[Folder, ...] = ()
    removed: tuple[Removed, ...] = ()
    history: tuple[Happened, ...] = ()
    documents: dict[str, Known] = field(default_factory=dict)
    knows_jobs: bool = False
    highest: dict[str, int] = field(default_factory=dict)

    @property
    def is_nothing(self) -> bool:
        """Return whether not a row could be read."""
        found = (self.notes, self.kept, self.waiting, self.folders, self.removed, self.history, self.documents)
        return not any(found)


Record = dict[str, Any]


class Salvager:
    """Reads a database that was set aside; `damaged` is open for as long as this is used."""

    def __init__(self, damaged: DamagedFile) -> None:
        self._damaged = damaged
        self._columns = {name: _columns(rows) for name, rows in migrations.columns_made().items()}
        self._leaves = damaged.tables({**self._columns, "vectors": _VECTORS} | self._vector_tables())

    def read(self, note_hash: Callable[[str, str], str]) -> Salvage:
        """Read all but the vectors. `note_hash` gives the content hash of a note with this title and text."""
        documents = {row["id"]: row for row in self._rows("documents")}
        origins: dict[int, list[Record]] = {}
        for origin in self._rows("origins"):
            origins.setdefault(origin["document_id"], []).append(origin)
        folders = {row["id"]: row for row in self._rows("sources")}
        kept, known = [], {}
        for number, row in documents.items():
            if row["type"] == "note":
                continue
            why = origins.get(number, [])
            if row["stored_path"] is not None:
                places = [_path(one["path"]) for one in why if one["live"] and one["kind"] in _HAND_ORIGINS]
                kept.append(Kept(os.path.basename(row["stored_path"]), _by_hand(row), tuple(filter(None, places))))
            paths = [_path(one["path"]) for one in why if one["live"] and one["kind"] == "path"]
            known[str(row["content_hash"])] = Known(tuple(filter(None, paths)), row["state"] == "current", bool(why))
        before = self._damaged.unread
        waiting = tuple(self._waiting())
        knows_jobs = bool(self._leaves.get("jobs")) and self._damaged.unread == before
        return Salvage(
            notes=tuple(self._notes(documents, note_hash)),
            kept=tuple(kept),
            waiting=waiting,
            folders=tuple(
                Folder(os.fsdecode(row["path"]), row["paused_at"], _identity(row["identity"]))
                for row in folders.values()
                if row["reason"] != "taken_out"
            ),
            removed=tuple(self._removed(folders)),
            history=tuple(self._history(folders)),
            documents=known,
            knows_jobs=knows_jobs,
            highest={
                table: self._highest(table)
                for table in ("documents", "sources", "origins", "chunks", "files", "jobs", "events")
            },
        )

    def vectors(self) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield (fingerprint of the embedder, hash of the text, embedding) of every vector that can be one."""
        import numpy as np

        embedders = {row["id"]: row for row in self._rows("embedders")}
        only = list(embedders.values()) if len(embedders) == 1 else []
        found: list[tuple[str, int, str]] = []
        for table in self._leaves:
            if table.startswith("vectors"):
                number = table.removeprefix("vectors_")
                # Of a table without a name it is known where there was one model only.
                of = embedders.get(int(number)) if number.isdecimal() else next(iter(only), None)
                if of is not None:
                    found.append((table, of["dimension"], of["fingerprint"]))
        dimensions = {row["fingerprint"]: row["dimension"] for row in embedders.values()}
        for table, dimension, fingerprint in found:
            for _row_id, values in self._damaged.rows(self._leaves[table]):
                if len(values) == 3 and _is_vector(np, values[1], values[2], dimension):
                    yield fingerprint, values[1], values[2]  # type: ignore[misc]  # two BLOBs
        for row in self._rows("salvaged_vectors"):  # from the time before, where that had not ended
            dimension = dimensions.get(row["fingerprint"], 0)
            if _is_vector(np, row["text_hash"], row["embedding"], dimension):
                yield row["fingerprint"], row["text_hash"], row["embedding"]

    def model(self) -> Model | None:
        """Return the model whose vectors were live, None where that cannot be read."""
        return live_model(self._rows)

    def whole(self, model: Model, wanted: Sequence[str]) -> Iterator[WholeDocument]:
        """Yield those of these documents (by content hash) that can be brought over whole, a share at a time."""
        for start in range(0, len(wanted), _SHARE):
            share = frozenset(wanted[start : start + _SHARE])
            yield from whole_documents(self._rows, self._vectors_of(model), model, share)

    def _vectors_of(self, model: Model) -> Iterator[tuple[int, bytes, bytes]]:
        import numpy as np

        for row_id, values in self._damaged.rows(self._leaves.get(f"vectors_{model.id}", ())):
            if len(values) == 3 and _is_vector(np, values[1], values[2], model.dimension):
                yield row_id, values[1], values[2]  # type: ignore[misc]  # two BLOBs

    def _vector_tables(self) -> dict[str, Columns]:
        return {name: _VECTORS for name in self._damaged.names() if name.removeprefix("vectors_").isdecimal()}

    def _rows(self, table: str) -> Iterator[Record]:
        """Yield the rows of a table whose values are of the right kinds, by their columns' names."""
        columns = self._columns[table]
        for row_id, values in self._damaged.rows(self._leaves.get(table, ())):
            if fits(values, columns):
                yield _named(row_id, values, columns)

    def _highest(self, table: str) -> int:
        return max((row_id for row_id, _values in self._damaged.rows(self._leaves.get(table, ()))), default=0)

    def _notes(self, documents: dict[int, Record], note_hash: Callable[[str, str], str]) -> Iterator[Note]:
        wanted = {number for number, row in documents.items() if row["type"] == "note"}
        for chunk in self._rows("chunks"):
            row = documents.get(chunk["document_id"])
            if row is None or chunk["document_id"] not in wanted:
                continue
            # The text stands there twice, once below its title: the one is taken that was written.
            texts = (chunk["text"], chunk["enriched_text"].removeprefix(f"{row['title']}\n\n"))
            whole = next((text for text in texts if note_hash(row["title"], text) == row["content_hash"]), None)
            text = whole or chunk["text"]
            if not text.strip():
                continue
            wanted.discard(chunk["document_id"])
            yield Note(
                text,
                IngestOptions(
                    title=row["title"] if row["title_source"] == "hand" else None, created_at=row["created_at"]
                ),
                whole is not None,
            )

    def _waiting(self) -> Iterator[Waiting]:
        for row in self._rows("jobs"):
            if row["state"] in ("queued", "processing") and row["staged_path"] is not None:
                yield Waiting(
                    os.path.basename(row["staged_path"]),
                    row["kind"],
                    os.fsdecode(row["path"]),
                    _options(row["options"]),
                )

    def _removed(self, folders: dict[int, Record]) -> Iterator[Removed]:
        for row in self._rows("files"):
            folder = folders.get(row["source_id"])
            is_left_out = row["reason"] == "removed_by_you"
            if folder is None or not (is_left_out or row["removed_hash"]):
                continue
            stat = None
            if None not in (row["size"], row["mtime_ns"], row["ctime_ns"], row["inode"], row["device"]):
                stat = Stat("file", row["size"], row["mtime_ns"], row["ctime_ns"], row["inode"], row["device"])
            yield Removed(
                os.fsdecode(folder["path"]),
                os.fsdecode(row["path"]),
                stat,
                row["rules"],
                row["last_seen_at"],
                row["removed_hash"],
                is_left_out,
            )

    def _history(self, folders: dict[int, Record]) -> Iterator[Happened]:
        for row in sorted(self._rows("events"), key=lambda row: int(row["id"])):
            folder = folders.get(row["source_id"])
            yield Happened(
                row["at"],
                row["kind"],
                None if folder is None else os.fsdecode(folder["path"]),
                _path(row["path"]),
                row["detail"],
            )


def _columns(made: tuple[tuple[object, ...], ...]) -> Columns:
    return tuple(
        (str(name), str(kind), not not_null or default is not None) for name, kind, not_null, default, _ in made
    )


def _named(row_id: int, values: tuple[object, ...], columns: Columns) -> Record:
    record: Record = {name: None for name, _kind, _null in columns}
    record.update(zip((name for name, _kind, _null in columns), values, strict=False))
    if "id" in record:
        record["id"] = row_id
    return record


def _path(raw: bytes | None) -> str | None:
    return None if raw is None else os.fsdecode(raw)


def _by_hand(row: Record) -> IngestOptions:
    """Return what a person set, of a document's row, and when it was added."""
    by_hand = bool(row["type_by_hand"])
    try:
        ocr = json.loads(row["metadata"]).get("ocr")
    except (ValueError, AttributeError):
        ocr = None
    return IngestOptions(
        title=row["title"] if row["title_source"] == "hand" else None,
        type=row["type"] if by_hand else None,
        language=row["language"] if by_hand else None,
        ocr=ocr if ocr in ("auto", "always", "never") else None,
        created_at=row["created_at"],
    )


def _identity(written: str | None) -> RootIdentity | None:
    try:
        return None if written is None else sources.identity_of(written)
    except (ValueError, TypeError, KeyError):
        return None


def _options(written: str) -> IngestOptions:
    try:
        return IngestOptions(**json.loads(written))
    except (ValueError, TypeError):
        return IngestOptions()


def _is_vector(np: Any, text_hash: object, embedding: object, dimension: int) -> bool:
    """Return whether these are a text's hash and a normalised vector of that many numbers."""
    if not isinstance(text_hash, bytes) or len(text_hash) != 32:
        return False
    if not isinstance(embedding, bytes) or len(embedding) != 4 * dimension or not dimension:
        return False
    with np.errstate(all="ignore"):
        length = float(np.linalg.norm(np.frombuffer(embedding, dtype=np.float32)))
    return abs(length - 1.0) < _LENGTH_OFF
