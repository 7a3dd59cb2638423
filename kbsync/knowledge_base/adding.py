"""Takes files and notes in by hand: what a folder holds, a staged copy of each file, and its job in the queue."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from kbsync import ingest
from kbsync.clock import Clock
from kbsync.errors import FailFile, FileChanged, FileGone, RetryLater, SkipFile, UsageError
from kbsync.failpoints import failpoint
from kbsync.file_types import DocumentType, type_of
from kbsync.filesystem import FileSystem, RealFileSystem, Stat, as_text
from kbsync.knowledge_base.processing import is_indexed, known_content, made_with, wanted
from kbsync.model import ChunkLimits, IngestOptions, Source
from kbsync.pipelines import content_type
from kbsync.queue import job_queue
from kbsync.reasons import SENTENCES, Reason
from kbsync.sources.ignore import rules_for
from kbsync.sources.scanner import is_own, scan
from kbsync.sources.snapshot import Snapshot, read_snapshot, reading_failed
from kbsync.store.connection import Connection
from kbsync.store.stored_files import StoredFiles
from kbsync.store.writer import Readers, Writer

# Rules that a person overrides by naming the very file: it may be hidden, or of a name that a pattern leaves out.
_OVERRIDDEN = (Reason.IGNORED, Reason.UNSUPPORTED)
# Bytes of a file name on every file system that matters.
_LONGEST_NAME = 255
# Characters of a title: it stands above every piece and in every list.
_LONGEST_TITLE = 1000
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Expansion:
    """What a path named by hand stands for. `skipped` holds (path, reason), `failed` (path, message)."""

    files: tuple[str, ...]
    skipped: tuple[tuple[str, Reason], ...] = ()
    failed: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Survey:
    """What a folder holds for the index: type -> how many files, type -> how many bytes. Not `complete`: at least.

    `left_out`: reason -> how many files, and folders that are not entered; `unreadable`: what could not be looked at.
    """

    files: dict[DocumentType, int]
    sizes: dict[DocumentType, int]
    complete: bool
    left_out: dict[Reason, int]
    unreadable: str | None


class Adding:
    """The way in by hand. Any thread may call it."""

    def __init__(
        self,
        fs: FileSystem,
        clock: Clock,
        writer: Writer,
        readers: Readers,
        stored: StoredFiles,
        limits: ChunkLimits,
        reader: ingest.Reader,
        own: frozenset[tuple[int, int]],
    ) -> None:
        self._fs = fs
        self._clock = clock
        self._writer = writer
        self._readers = readers
        self._stored = stored
        self._limits = limits
        self._reader = reader
        self._own = own

    def expand(self, path: str, *, recursive: bool) -> Expansion:
        """Return the files a path stands for: itself, or (recursive) what a folder holds by the rules of a source.

        Raises UsageError for a folder without `recursive`, FileGone and FailFile where it cannot be looked at.
        """
        try:
            stat = self._fs.lstat(path)
        except OSError as error:
            raise reading_failed(path, error) from error
        if stat.kind != "directory":
            return Expansion((path,))
        if not recursive:
            raise UsageError(f"{path} is a folder.", hint="Add --recursive to take in what it holds.")
        walk = scan(self._fs, Source(0, path), self._own)
        files, skipped = [], []
        for seen in walk:
            if seen.reason is None:
                files.append(seen.path)
            elif seen.stat.kind != "directory":
                skipped.append((seen.path, seen.reason))
        failed = [(where, as_text(f"Reading {where} failed: {error.strerror}.")) for where, error in walk.errors]
        return Expansion(tuple(files), tuple(skipped), tuple(failed))

    def survey(self, path: str, *, recursive: bool, ignore: tuple[str, ...], within_s: float) -> Survey:
        """Count what a source at this path would index, for at most `within_s` seconds. Nothing is opened but rules."""
        deadline = self._clock.monotonic() + within_s
        walk = scan(
            self._fs,
            Source(0, path, recursive=recursive, ignore=ignore),
            self._own,
            lambda: self._clock.monotonic() >= deadline,
        )
        files: Counter[DocumentType] = Counter()
        sizes: Counter[DocumentType] = Counter()
        left_out: Counter[Reason] = Counter()
        for seen in walk:
            if seen.reason is not None:
                left_out[seen.reason] += 1
            else:
                document_type = type_of(seen.path) or "text"
                files[document_type] += 1
                sizes[document_type] += seen.stat.size
        unreadable = next((as_text(f"{at} cannot be read: {error.strerror}.") for at, error in walk.errors), None)
        return Survey(dict(files), dict(sizes), walk.complete, dict(left_out.most_common()), unreadable)

    def look_at(self, path: str, options: IngestOptions) -> tuple[DocumentType, int] | None:
        """Return (type, bytes) of a file that `add_file` would have read, None for one that is indexed already.

        Stages and queues nothing. Raises what `add_file` raises.
        """
        self._judge(path, options)
        try:
            snapshot = read_snapshot(self._fs, path, content_type.SNIFFED_BYTES)
        except FileChanged as error:
            raise _still_written(error) from error
        known, paths = self._readers.read(lambda connection: known_content(connection, snapshot.content_hash))
        told = content_type.told_type(snapshot.head, snapshot.size, path)
        name, options = wanted(path, options, known, paths, told)
        kind = ingest.kind_of(name, options, self._limits, self._reader, made_with(known, self._reader), None, told)
        if known is not None and is_indexed(known, options, kind):
            return None
        return kind.type, snapshot.size

    def add_file(self, path: str, options: IngestOptions) -> int:
        """Stage a copy of a file, queue it and return the job's id; that of an earlier one that still waits for it.

        Raises SkipFile (unsupported, empty, secret, ...), FailFile, FileGone and RetryLater (full disk).
        """
        name = os.path.basename(path)
        self._judge(path, options)
        options = replace(options, title=_storable(options.title))
        with self._stored.staging(name) as (staged_path, file):
            try:
                snapshot = read_snapshot(self._fs, path, 0, file.write)
            except FileChanged as error:
                raise _still_written(error) from error
        try:
            failpoint("adding.staged")
            earlier = self._waiting_already(path, snapshot, options)
        except BaseException:
            self._stored.discard(staged_path)
            raise
        if earlier is not None:
            self._stored.discard(staged_path)
            return earlier
        now = self._clock.now()

        def queue(connection: Connection) -> int:
            return job_queue.enqueue_staged(connection, path, staged_path, snapshot.size, options, now)

        return self._queued(staged_path, queue)

    def _waiting_already(self, path: str, snapshot: Snapshot, options: IngestOptions) -> int | None:
        """Return the job that waits for the same bytes of the same path: an add that was interrupted left it."""
        waiting = self._readers.read(
            lambda connection: job_queue.staged_already(connection, path, snapshot.size, options)
        )
        for job_id, copy in waiting:
            try:
                if read_snapshot(RealFileSystem(), copy, 0).content_hash == snapshot.content_hash:
                    return job_id
            except (FileGone, RetryLater):
                continue  # it ended a moment ago, or its copy is damaged: the new one is read instead
        return None

    def _judge(self, path: str, options: IngestOptions) -> None:
        """Refuse what is never read, before anything is opened. Raises as `add_file` does."""
        try:
            stat = self._fs.lstat(path)
            # Asked before anything is opened: closing a descriptor of the database would drop SQLite's locks on it.
            own = is_own(self._fs, path, self._own)
        except OSError as error:
            raise reading_failed(path, error) from error
        if own:
            raise SkipFile(Reason.IGNORED, f"{path} belongs to kbsync itself; it is never read.")
        name = os.path.basename(path)
        rules = rules_for(Source(0, os.path.dirname(path)), self._own)
        reason = rules.judge_file(name, stat)
        if reason is not None and reason not in _OVERRIDDEN:
            raise SkipFile(reason, f"{path}: {SENTENCES[reason]}")
        ingest.kind_of(name, options, self._limits, self._reader, "auto")
        if stat.size == 0:
            raise SkipFile(Reason.EMPTY, f"{path}: {SENTENCES[Reason.EMPTY]}")

    def add_upload(self, name: str, size: int, content: Iterable[bytes], options: IngestOptions) -> int:
        """Stage what is sent under a file name, queue it and return the job's id. `content` comes in any pieces.

        `size` is what was announced, in bytes. Raises UsageError for what is no file name, SkipFile (unsupported,
        secret, too large, empty) before anything is read, RetryLater (full disk), and what `content` raises.
        """
        if name in ("", ".", "..") or re.search(r"[/\\\x00-\x1f\x7f]", name) or len(os.fsencode(name)) > _LONGEST_NAME:
            raise UsageError("This is no file name.", hint="Send the plain name, without folders.")
        reason = rules_for(Source(0, os.sep), self._own).judge_file(name, Stat("file", size, 0, 0, 0, 0))
        if reason is not None and reason not in _OVERRIDDEN:
            raise SkipFile(reason, f"{name}: {SENTENCES[reason]}")
        ingest.kind_of(name, options, self._limits, self._reader, "auto")
        options = replace(options, title=_storable(options.title))
        with self._stored.staging(name) as (staged_path, file):
            received = sum(file.write(piece) for piece in content)
        now = self._clock.now()

        def queue(connection: Connection) -> int:
            return job_queue.enqueue_staged(connection, name, staged_path, received, options, now)

        return self._queued(staged_path, queue)

    def add_note(self, text: str, title: str | None) -> int:
        """Queue a note and return the job's id. Raises UsageError for one without text, or a title too long."""
        if not text.strip():
            raise UsageError("The note is empty.", hint='Write kbsync add --note "some text".')
        options = IngestOptions(title=_storable(title))
        with self._stored.staging("note.txt") as (staged_path, file):
            file.write(text.encode("utf-8", "replace"))
        now = self._clock.now()
        return self._queued(
            staged_path, lambda connection: job_queue.enqueue_note(connection, staged_path, len(text), options, now)
        )

    def _queued(self, staged_path: str, queue: Callable[[Connection], int]) -> int:
        try:
            job_id = self._writer.run(queue)
        except BaseException:
            self._stored.discard(staged_path)
            raise
        failpoint("adding.queued")
        return job_id


def _still_written(error: FileChanged) -> FailFile:
    return FailFile(Reason.IO, error.message, hint="Add it again when it is finished.")


def _storable(title: str | None) -> str | None:
    """Return a title on one line, without what is no text. Raises UsageError for one that is too long to head anything.

    Bytes of a command line that are no UTF-8 come as halves of surrogate pairs.
    """
    if title is None:
        return None
    if len(title) > _LONGEST_TITLE:
        raise UsageError(f"The title has more than {_LONGEST_TITLE} characters.", hint="Put it into the text.")
    return " ".join(_CONTROLS.sub(" ", title.encode("utf-8", "replace").decode()).split())
