"""Takes files and notes in by hand: what a folder holds, a staged copy of each file, and its job in the queue."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace

from kbsync import ingest
from kbsync.clock import Clock
from kbsync.errors import FailFile, FileChanged, SkipFile, UsageError
from kbsync.filesystem import FileSystem, as_text
from kbsync.model import ChunkLimits, IngestOptions, Source
from kbsync.queue import job_queue
from kbsync.reasons import SENTENCES, Reason
from kbsync.sources.ignore import rules_for
from kbsync.sources.scanner import is_own, scan
from kbsync.sources.snapshot import read_snapshot, reading_failed
from kbsync.store.connection import Connection
from kbsync.store.stored_files import StoredFiles
from kbsync.store.writer import Writer

# Rules that a person overrides by naming the very file: it may be hidden, or of a name that a pattern leaves out.
_OVERRIDDEN = (Reason.IGNORED, Reason.UNSUPPORTED)


@dataclass(frozen=True, slots=True)
class Expansion:
    """What a path named by hand stands for. `skipped` holds (path, reason), `failed` (path, message)."""

    files: tuple[str, ...]
    skipped: tuple[tuple[str, Reason], ...] = ()
    failed: tuple[tuple[str, str], ...] = ()


class Adding:
    """The way in by hand. Any thread may call it."""

    def __init__(
        self,
        fs: FileSystem,
        clock: Clock,
        writer: Writer,
        stored: StoredFiles,
        limits: ChunkLimits,
        reader: ingest.Reader,
        own: frozenset[tuple[int, int]],
    ) -> None:
        self._fs = fs
        self._clock = clock
        self._writer = writer
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
        wanted, skipped = [], []
        for seen in walk:
            if seen.reason is None:
                wanted.append(seen.path)
            elif seen.stat.kind != "directory":
                skipped.append((seen.path, seen.reason))
        failed = [(where, as_text(f"Reading {where} failed: {error.strerror}.")) for where, error in walk.errors]
        return Expansion(tuple(wanted), tuple(skipped), tuple(failed))

    def add_file(self, path: str, options: IngestOptions) -> int:
        """Stage a copy of a file, queue it and return the job's id.

        Raises SkipFile (unsupported, empty, secret, ...), FailFile, FileGone and RetryLater (full disk).
        """
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
        options = replace(options, title=_storable(options.title))
        with self._stored.staging(name) as (staged_path, file):
            try:
                snapshot = read_snapshot(self._fs, path, 0, file.write)
            except FileChanged as error:
                raise FailFile(Reason.IO, error.message, hint="Add it again when it is finished.") from error
        now = self._clock.now()

        def queue(connection: Connection) -> int:
            return job_queue.enqueue_staged(connection, path, staged_path, snapshot.size, options, now)

        return self._queued(staged_path, queue)

    def add_note(self, text: str, title: str | None) -> int:
        """Queue a note and return the job's id. Raises UsageError for one without text."""
        if not text.strip():
            raise UsageError("The note is empty.", hint='Write kbsync add --note "some text".')
        with self._stored.staging("note.txt") as (staged_path, file):
            file.write(text.encode("utf-8", "replace"))
        now = self._clock.now()
        options = IngestOptions(title=_storable(title))
        return self._queued(
            staged_path, lambda connection: job_queue.enqueue_note(connection, staged_path, len(text), options, now)
        )

    def _queued(self, staged_path: str, queue: Callable[[Connection], int]) -> int:
        try:
            return self._writer.run(queue)
        except BaseException:
            self._stored.discard(staged_path)
            raise


def _storable(title: str | None) -> str | None:
    """Replace what is no text: bytes of a command line that are no UTF-8 come as halves of surrogate pairs."""
    return None if title is None else title.encode("utf-8", "replace").decode()
