"""Works a claimed job to its end: read, recognise or ingest, commit. What it raises the worker decides on."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbsync import ingest
from kbsync.clock import Clock
from kbsync.errors import FileGone, SkipFile
from kbsync.file_types import CONVERTED_TYPES, type_of
from kbsync.filesystem import FileSystem, RealFileSystem
from kbsync.knowledge_base import commits
from kbsync.knowledge_base.commits import Judged, Outcome
from kbsync.model import (
    ChunkLimits,
    DocumentUpdate,
    Embedder,
    IngestOptions,
    Job,
    Origin,
    Parsed,
    Priority,
    Source,
    TokenCounter,
)
from kbsync.pipelines import note, router
from kbsync.reasons import Reason
from kbsync.sources.scanner import judge_path
from kbsync.sources.snapshot import Snapshot, read_snapshot
from kbsync.store import documents, origins, vectors
from kbsync.store.connection import Connection
from kbsync.store.documents import Document
from kbsync.store.stored_files import StoredFiles
from kbsync.store.writer import Readers, Writer

if TYPE_CHECKING:
    from kbsync.model import Vectors


@dataclass(frozen=True, slots=True)
class Parts:
    """What processing works with. `source_of` gives a source as configured now, None where it was taken out."""

    fs: FileSystem
    clock: Clock
    writer: Writer
    readers: Readers
    embedder: Embedder
    embedder_id: int
    counter: TokenCounter
    reader: ingest.Reader
    limits: ChunkLimits
    stored: StoredFiles
    own: frozenset[tuple[int, int]]
    source_of: Callable[[int], Source | None]


class Processor:
    """Turns one job into one commit. Any number of threads may call `process` at the same time."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def process(self, job: Job) -> Outcome:
        """Work a job to its end. Raises SkipFile, FailFile, FileGone, FileChanged and RetryLater, nothing written."""
        if job.kind == "path":
            return self._path(job)
        if job.kind == "staged":
            return self._staged(job)
        return self._note(job)

    def judged(self, job: Job) -> Judged | None:
        """Return the version and rules by which a failed or skipped job of a source's path is to be remembered."""
        source = None if job.source_id is None else self._parts.source_of(job.source_id)
        if source is None:
            return None
        try:
            seen = judge_path(self._parts.fs, source, self._parts.own, job.path)
        except OSError:
            return None  # not even a look is possible: the next scan looks again
        return None if seen is None else Judged(seen.stat, seen.rules)

    def _path(self, job: Job) -> Outcome:
        parts = self._parts
        source = None if job.source_id is None else parts.source_of(job.source_id)
        if source is None:
            raise FileGone(f"{job.path} belongs to no source any more.")
        try:
            seen = judge_path(parts.fs, source, parts.own, job.path)
        except OSError as error:
            # The source's own folder: its disk is away, which says nothing about the file. A walk takes it up again.
            raise FileGone(f"{source.path} cannot be looked at: {error.strerror}.") from error
        if seen is None:
            raise FileGone(f"{job.path} is not there any more.")
        if seen.path != job.path and seen.reason in (Reason.PERMISSION, Reason.IO):
            raise FileGone(f"{seen.path} cannot be entered now.")  # of the file itself nothing is known
        if seen.reason is not None:
            raise SkipFile(seen.reason, f"{job.path} is left out.")
        origin = Origin("path", job.path, job.source_id)
        if type_of(job.path) not in CONVERTED_TYPES:
            snapshot = read_snapshot(parts.fs, job.path, ingest.TEXT_BYTES)
            return self._content(job, snapshot, origin, Judged(snapshot.stat, seen.rules), source, None)
        # The converter gets the very bytes that are hashed: a copy, which goes when it is done.
        with parts.stored.staging(job.path) as (copy, file):
            snapshot = read_snapshot(parts.fs, job.path, 0, file.write)
        try:
            return self._content(job, snapshot, origin, Judged(snapshot.stat, seen.rules), source, copy)
        finally:
            parts.stored.discard(copy)

    def _staged(self, job: Job) -> Outcome:
        staged_path = _staged_path(job)
        snapshot = read_snapshot(RealFileSystem(), staged_path, ingest.TEXT_BYTES)
        outcome = self._content(job, snapshot, Origin("added", job.path, None), None, None, staged_path)
        if not outcome.dropped:
            self._parts.stored.discard(staged_path)
        return outcome

    def _content(
        self,
        job: Job,
        snapshot: Snapshot,
        origin: Origin,
        judged: Judged | None,
        source: Source | None,
        copy: str | None,
    ) -> Outcome:
        """Recognise known content, ingest everything else."""
        parts = self._parts
        known, paths = parts.readers.read(lambda connection: _known(connection, snapshot.content_hash))
        name, options = _wanted(job, known, paths)
        kind = ingest.kind_of(name, options, parts.limits, parts.reader, source.ocr if source else "auto")
        if known is not None and _as_wanted(known, name, options, kind):
            stored_path = None if known.stored_path is not None else self._store(job, snapshot.content_hash)
            outcome = parts.writer.run(
                lambda connection: commits.known(
                    connection, job, snapshot.content_hash, origin, judged, stored_path, parts.clock.now()
                )
            )
            if outcome is not None:
                return outcome
        password_file = options.password_file or (source.password_file if source else None)
        content = ingest.Content(
            snapshot.head, snapshot.size, snapshot.content_hash, name, options, copy, password_file
        )
        update = ingest.ingest(content, kind, parts.limits, parts.counter, parts.reader, self._vectorize(job.priority))
        return self._commit(job, update, origin, judged, self._store(job, snapshot.content_hash))

    def _store(self, job: Job, content_hash: str) -> str | None:
        """Link the staged copy to its permanent place, once it is known that it can be read; a source's file stays."""
        if job.staged_path is None:
            return None
        return self._parts.stored.store(job.staged_path, content_hash, job.path)

    def _note(self, job: Job) -> Outcome:
        parts = self._parts
        staged_path = _staged_path(job)
        text = read_snapshot(RealFileSystem(), staged_path, 1 << 62).head.decode("utf-8")
        origin = Origin("note", None, None)
        content_hash = ingest.note_hash(job.options.title or note.note_title(text), text)
        outcome = parts.writer.run(
            lambda connection: commits.known(connection, job, content_hash, origin, None, None, parts.clock.now())
        )
        if outcome is None:
            update = ingest.ingest_note(text, job.options, parts.counter, self._vectorize(job.priority))
            outcome = self._commit(job, update, origin, None, None)
        if not outcome.dropped:
            parts.stored.discard(staged_path)
        return outcome

    def _commit(
        self, job: Job, update: DocumentUpdate, origin: Origin, judged: Judged | None, stored_path: str | None
    ) -> Outcome:
        parts = self._parts
        return parts.writer.run(
            lambda connection: commits.ingested(
                connection, job, update, parts.embedder_id, origin, judged, stored_path, parts.clock.now()
            )
        )

    def _vectorize(self, priority: Priority) -> ingest.Vectorize:
        """Return a function that embeds only the texts that have no vector yet, in any version of any document."""
        parts = self._parts

        def vectorize(texts: Sequence[str]) -> Vectors:
            import numpy as np

            found = parts.readers.read(lambda connection: vectors.known(connection, parts.embedder_id, set(texts)))
            missing = [text for text in dict.fromkeys(texts) if text not in found]
            if missing:
                found.update(zip(missing, parts.embedder.embed(missing, priority), strict=True))
            return np.stack([found[text] for text in texts])

        return vectorize


def _staged_path(job: Job) -> str:
    if job.staged_path is None:
        raise FileGone(f"The staged copy of {job.path} is not known any more. Send it again.")
    return job.staged_path


def _known(connection: Connection, content_hash: str) -> tuple[Document | None, list[str]]:
    document = documents.by_hash(connection, content_hash)
    return document, [] if document is None else origins.live_paths(connection, document.id)


def _wanted(job: Job, known: Document | None, paths: Sequence[str]) -> tuple[str, IngestOptions]:
    """Return the name that gives title and type (the lexically first live path's) and what was set by hand, ever.

    A path whose name asks for the other lane (a web page's text in a .txt) does not speak for this one.
    """
    converted = type_of(job.path) in CONVERTED_TYPES
    speaking = [path for path in paths if (type_of(path) in CONVERTED_TYPES) is converted]
    first = os.fsencode(min([*speaking, job.path], key=os.fsencode))
    name = os.path.basename(first).decode("utf-8", "replace")
    options = job.options
    if known is None:
        return name, options
    return name, IngestOptions(
        title=options.title or (known.title if known.title_source == "hand" else None),
        type=options.type or (known.type if known.type_by_hand else None),
        language=options.language or (known.language if known.type_by_hand else None),
        ocr=options.ocr,
        password_file=options.password_file,
    )


def _as_wanted(known: Document, name: str, options: IngestOptions, kind: ingest.Kind) -> bool:
    """Return whether a document is what ingesting it again would make of it."""
    if known.type == "note":
        return True
    title = options.title or (router.title_of(Parsed(()), name) if known.title_source == "name" else known.title)
    return (
        (known.converter_fingerprint, known.chunker_fingerprint) == (kind.converter, kind.chunker)
        and known.type == kind.type
        and (kind.language is None or known.language == kind.language)
        and known.title == title
    )
