"""Works a claimed job to its end: read, recognise or ingest, commit. What it raises the worker decides on."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kbsync import ingest
from kbsync.clock import Clock
from kbsync.errors import FailFile, FileGone, SkipFile, folder_gone
from kbsync.failpoints import failpoint
from kbsync.file_types import CONVERTED_TYPES, DOCUMENT_TYPES, DocumentType, type_of
from kbsync.filesystem import FileSystem, RealFileSystem, as_text
from kbsync.knowledge_base import commits, taking_in
from kbsync.knowledge_base.commits import Judged, Outcome
from kbsync.knowledge_base.embedders import Embedding
from kbsync.knowledge_base.vectorize import Vectorize
from kbsync.measures import Durations
from kbsync.model import (
    OCR_MODES,
    ChunkLimits,
    IngestOptions,
    Job,
    OcrMode,
    Origin,
    Parsed,
    Priority,
    Source,
    TokenCounter,
)
from kbsync.pipelines import content_type, note, router
from kbsync.reasons import Reason
from kbsync.sources.ignore import TOO_LARGE_BYTES
from kbsync.sources.inbox import Inbox
from kbsync.sources.reconcile import is_racy
from kbsync.sources.scanner import judge_path
from kbsync.sources.snapshot import Snapshot, read_snapshot
from kbsync.store import documents, origins
from kbsync.store.connection import Connection
from kbsync.store.documents import Document, Fingerprints
from kbsync.store.stored_files import StoredFiles
from kbsync.store.writer import Readers, T, Work, Writer


@dataclass(frozen=True, slots=True)
class Parts:
    """What processing works with.

    `embedding` gives the embedder of what is written now, `source_of` a source as configured now, None where it was
    taken out, `open_inbox` the door through which files leave an inbox; it is asked for inboxes only.
    """

    fs: FileSystem
    clock: Clock
    writer: Writer
    readers: Readers
    embedding: Callable[[], Embedding]
    counter: TokenCounter
    reader: ingest.Reader
    limits: ChunkLimits
    stored: StoredFiles
    own: frozenset[tuple[int, int]]
    source_of: Callable[[int], Source | None]
    open_inbox: Callable[[Source], Inbox]
    stages: Durations


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
        if source.mode == "inbox":
            return self._inbox(job, source, seen.rules)
        origin = Origin("path", job.path, job.source_id)
        if job.lane == "text" and type_of(job.path) not in CONVERTED_TYPES:
            read_at = parts.clock.now()
            with parts.stages.time("read"):
                snapshot = read_snapshot(parts.fs, job.path, ingest.TEXT_BYTES)
            return self._content(job, snapshot, origin, _as_read(snapshot, seen.rules, read_at), source, None)
        # The converter gets the very bytes that are hashed: a copy, which goes when it is done.
        read_at = parts.clock.now()
        with parts.stages.time("read"), parts.stored.staging(job.path) as (copy, file):
            snapshot = read_snapshot(parts.fs, job.path, content_type.SNIFFED_BYTES, file.write)
        try:
            return self._content(job, snapshot, origin, _as_read(snapshot, seen.rules, read_at), source, copy)
        finally:
            parts.stored.discard(copy)

    def _inbox(self, job: Job, source: Source, rules: str) -> Outcome:
        """Take a file in: its copy goes into the store with the commit, and only then the file from the folder."""
        parts, inbox = self._parts, self._parts.open_inbox(source)
        taking_in.raise_while_written(parts.fs, inbox, job.path, parts.clock.now())
        with parts.stages.time("read"), parts.stored.staging(job.path) as (copy, file):
            snapshot = read_snapshot(parts.fs, job.path, ingest.TEXT_BYTES, file.write)
        judged = Judged(snapshot.stat, rules)
        try:
            origin = Origin("inbox", job.path, source.id)
            outcome = self._content(job, snapshot, origin, judged, source, copy, to_keep=copy)
            failpoint("processing.inbox_committed")
        finally:
            parts.stored.discard(copy)
        if outcome.document_id is not None:
            taken = taking_in.TakenIn(source, job.path, snapshot, outcome.document_id, judged)
            taking_in.take_away(taken, inbox, parts.writer, parts.readers, parts.clock)
        return outcome

    def _staged(self, job: Job) -> Outcome:
        with self._parts.stages.time("read"):
            staged_path, snapshot = _read_staged(job, ingest.TEXT_BYTES)
        # What was added by hand has a place on this machine, what was sent has a name only.
        origin = Origin("added" if os.path.isabs(job.path) else "upload", job.path, None)
        outcome = self._content(job, snapshot, origin, None, None, staged_path, to_keep=staged_path)
        failpoint("processing.staged_committed")
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
        to_keep: str | None = None,
    ) -> Outcome:
        """Recognise known content, ingest everything else. `to_keep`: the staged copy that goes into the store."""
        parts = self._parts
        failpoint("processing.hashed")
        known, paths = parts.readers.read(lambda connection: known_content(connection, snapshot.content_hash))
        if known is None and judged is not None and origin.kind == "path":
            rules = judged
            if parts.readers.read(lambda connection: commits.is_excluded(connection, job, snapshot.content_hash)):
                return self._commit(lambda connection: commits.excluded(connection, job, rules, parts.clock.now()))
        told = content_type.told_type(snapshot.head, snapshot.size, job.path)
        name, options = wanted(job.path, job.options, known, paths, told)
        ocr = source.ocr if source else made_with(known, parts.reader)
        # A source's rules let its paths through, by their ending or because `include` names it: then it is text.
        unknown: DocumentType | None = None if source is None and type_of(job.path) is None else "text"
        kind = ingest.kind_of(name, options, parts.limits, parts.reader, ocr, unknown, told)

        def is_still_wanted(connection: Connection) -> bool:
            # Other jobs give and take paths of the same content meanwhile: the first one that is left must speak.
            document, holding = known_content(connection, snapshot.content_hash)
            return known is None or wanted(job.path, job.options, document, holding, told) == (name, options)

        if known is not None and as_wanted(known, name, options, kind):
            is_kept = known.stored_path is not None and (
                # What is the only copy from now on is proved, not believed; what is gone is stored anew.
                taking_in.holds(known.stored_path, snapshot.content_hash)
                if origin.kind == "inbox"
                else os.path.exists(known.stored_path)
            )
            stored_path = None if is_kept else self._store(to_keep, snapshot.content_hash, job.path)
            outcome = self._commit(
                lambda connection: (
                    commits.known(
                        connection, job, snapshot.content_hash, origin, judged, stored_path, parts.clock.now()
                    )
                    if is_still_wanted(connection)
                    else commits.again(connection, job, parts.clock.now())
                )
            )
            if outcome is not None:
                return outcome
        if kind.type in CONVERTED_TYPES and job.lane == "text":
            if snapshot.size > TOO_LARGE_BYTES:
                raise SkipFile(Reason.TOO_LARGE, f"{name} is {kind.type} by its content, and larger than the limit.")
            return self._commit(lambda connection: commits.to_documents(connection, job, parts.clock.now()))
        head = snapshot.head
        if copy is not None and kind.type not in CONVERTED_TYPES:
            # Of what its name calls a document only the start was kept.
            head = read_snapshot(RealFileSystem(), copy, ingest.TEXT_BYTES).head
        password_file = options.password_file or (source.password_file if source else None)
        content = ingest.Content(head, snapshot.size, snapshot.content_hash, name, options, copy, password_file)
        vectorize = Vectorize(parts.embedding, parts.readers, job.priority)
        update = ingest.ingest(content, kind, parts.limits, parts.counter, parts.reader, vectorize, parts.stages.time)
        failpoint("processing.made")
        stored_path = self._store(to_keep, snapshot.content_hash, job.path)
        indexed = known is not None and is_indexed(known, options, kind)
        return self._commit(
            lambda connection: (
                commits.ingested(
                    connection,
                    job,
                    update,
                    vectorize.embedder_id,
                    origin,
                    judged,
                    stored_path,
                    parts.clock.now(),
                    is_new=known is None,
                    is_indexed=indexed,
                )
                if is_still_wanted(connection)
                else commits.again(connection, job, parts.clock.now())
            )
        )

    def _commit(self, work: Work[T]) -> T:
        with self._parts.stages.time("write"):
            return self._parts.writer.run(work)

    def _store(self, copy: str | None, content_hash: str, path: str) -> str | None:
        """Link a staged copy to its permanent place, once it is known that it can be read; a mirror's file stays."""
        return None if copy is None else self._parts.stored.store(copy, content_hash, path)

    def _note(self, job: Job) -> Outcome:
        parts = self._parts
        with parts.stages.time("read"):
            staged_path, snapshot = _read_staged(job, 1 << 62)
        text = snapshot.head.decode("utf-8")
        origin = Origin("note", None, None)
        content_hash = ingest.note_hash(job.options.title or note.note_title(text), text)
        outcome = self._commit(
            lambda connection: commits.known(connection, job, content_hash, origin, None, None, parts.clock.now())
        )
        if outcome is None:
            vectorize = Vectorize(parts.embedding, parts.readers, job.priority)
            update = ingest.ingest_note(text, job.options, parts.counter, vectorize, parts.stages.time)
            embedder_id = vectorize.embedder_id
            outcome = self._commit(
                lambda connection: commits.ingested(
                    connection, job, update, embedder_id, origin, None, None, parts.clock.now(), is_new=True
                )
            )
        failpoint("processing.note_committed")
        if not outcome.dropped:
            parts.stored.discard(staged_path)
        return outcome

    def rules(self) -> str:
        """Return what names today's rules of converting and cutting, whatever the type."""
        reader = self._parts.reader
        converters = [reader.fingerprint(mode) for mode in OCR_MODES]
        converters += [router.converter_fingerprint(kind, reader.encodings) for kind in DOCUMENT_TYPES]
        return "\n".join((*converters, router.chunker_fingerprint(self._parts.limits)))

    def is_stale(self, made: Fingerprints) -> bool:
        """Return whether other rules than today's converted or cut a document."""
        if made.type == "note":
            return False
        reader = self._parts.reader
        if made.type in CONVERTED_TYPES:
            converters = [reader.fingerprint(mode) for mode in OCR_MODES]
        else:
            converters = [router.converter_fingerprint(made.type, reader.encodings)]
        return made.converter not in converters or made.chunker != router.chunker_fingerprint(self._parts.limits)

    def remake(self, document: Document) -> None:
        """Ingest a document anew from its stored copy, in place. Raises SkipFile, FailFile and RetryLater."""
        parts, stored_path = self._parts, document.stored_path
        if stored_path is None:
            raise FailFile(Reason.IO, f"There is no copy of {document.title} to read.")
        snapshot = read_snapshot(RealFileSystem(), stored_path, ingest.TEXT_BYTES)
        if snapshot.content_hash != document.content_hash:
            raise FailFile(Reason.CORRUPT, f"The stored copy {stored_path} is damaged.", hint="Add the file again.")
        paths = parts.readers.read(lambda connection: origins.live_paths(connection, document.id))
        path = paths[0] if paths else document.original_filename or stored_path
        told = content_type.told_type(snapshot.head, snapshot.size, path)
        name, options = wanted(path, IngestOptions(), document, paths, told)
        # Made by other rules, its fingerprint still names the mode that was asked for.
        made_by = document.converter_fingerprint
        ocr: OcrMode = next((mode for mode in OCR_MODES if f" ocr-{mode}" in made_by), "auto")
        kind = ingest.kind_of(name, options, parts.limits, parts.reader, ocr, document.type, told)
        copy = stored_path if kind.type in CONVERTED_TYPES else None
        content = ingest.Content(snapshot.head, snapshot.size, snapshot.content_hash, name, options, copy, None)
        vectorize = Vectorize(parts.embedding, parts.readers, Priority.LOW)
        update = ingest.ingest(content, kind, parts.limits, parts.counter, parts.reader, vectorize, parts.stages.time)
        failpoint("processing.remade")
        self._commit(
            lambda connection: commits.remade(connection, document, update, vectorize.embedder_id, parts.clock.now())
        )


def _as_read(snapshot: Snapshot, rules: str, read_at: float) -> Judged:
    return Judged(snapshot.stat, rules, hash_due=is_racy(snapshot.stat, read_at))


def _read_staged(job: Job, keep_bytes: int) -> tuple[str, Snapshot]:
    """Return (where a job's staged copy lies, what it holds).

    Raises FailFile where it is gone for good, StorageUnavailable where its whole folder is: that may come back.
    """
    if job.staged_path is not None:
        try:
            return job.staged_path, read_snapshot(RealFileSystem(), job.staged_path, keep_bytes)
        except FileGone:
            if not os.path.isdir(os.path.dirname(job.staged_path)):
                raise folder_gone(os.path.dirname(job.staged_path)) from None
            # somebody cleared kbsync's folder
    what = as_text(job.path) or "The note"
    raise FailFile(Reason.IO, f"{what} was not read: its copy in kbsync's folder is gone.", hint="Send it again.")


def known_content(connection: Connection, content_hash: str) -> tuple[Document | None, list[str]]:
    """Return (the document with this content, None where there is none; the paths that hold it now)."""
    document = documents.by_hash(connection, content_hash)
    return document, [] if document is None else origins.live_paths(connection, document.id)


def wanted(
    path: str, asked: IngestOptions, known: Document | None, paths: Sequence[str], told: DocumentType | None = None
) -> tuple[str, IngestOptions]:
    """Return the name that gives title and type (the lexically first live path's) and what was set by hand, ever.

    Where the content does not tell what it is, a path whose name asks for the other lane (a part of a web page in a
    .txt) does not speak for this one.
    """
    converted = type_of(path) in CONVERTED_TYPES
    speaking = [other for other in paths if told or (type_of(other) in CONVERTED_TYPES) is converted]
    first = os.fsencode(min([*speaking, path], key=os.fsencode))
    name = os.path.basename(first).decode("utf-8", "replace")
    if known is None:
        return name, asked
    # The language of a script says nothing about the page that the file is to be read as from now on.
    same_type = known.type_by_hand and asked.type in (None, known.type)
    return name, IngestOptions(
        title=asked.title or (known.title if known.title_source == "hand" else None),
        type=asked.type or (known.type if known.type_by_hand else None),
        language=asked.language or (known.language if same_type else None),
        ocr=asked.ocr or _ocr_by_hand(known),
        password_file=asked.password_file,
        created_at=asked.created_at,
    )


def made_with(known: Document | None, reader: ingest.Reader) -> OcrMode:
    """Return the OCR mode that a document was made with: who adds it again and names none wants no other.

    `auto` for a new one, and for one that no mode of today's rules makes.
    """
    if known is None or known.type not in CONVERTED_TYPES:
        return "auto"
    return next((mode for mode in OCR_MODES if reader.fingerprint(mode) == known.converter_fingerprint), "auto")


def _ocr_by_hand(known: Document) -> OcrMode | None:
    return next((mode for mode in OCR_MODES if mode == known.metadata.get("ocr")), None)


def as_wanted(known: Document, name: str, options: IngestOptions, kind: ingest.Kind) -> bool:
    """Return whether a document is what ingesting it again would make of it."""
    if known.type == "note" or known.title_source != "name" or options.title:
        return is_indexed(known, options, kind)
    return is_indexed(known, options, kind) and known.title == router.title_of(Parsed(()), name)


def is_indexed(known: Document, options: IngestOptions, kind: ingest.Kind) -> bool:
    """Return whether who adds this content is told that it is indexed already.

    At most its title changes, where that is the first file's name and another name comes first now.
    """
    if known.type == "note":
        return True
    return (
        (known.converter_fingerprint, known.chunker_fingerprint) == (kind.converter, kind.chunker)
        and known.type == kind.type
        and (kind.language is None or known.language == kind.language)
        and options.title in (None, known.title)
    )
