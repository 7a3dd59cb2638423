"""The repair of files that kbsync keeps beside its database. None that may be somebody's only copy is ever removed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from kbsync.clock import Clock
from kbsync.errors import FileChanged, KbsyncError, RetryLater
from kbsync.failpoints import failpoint
from kbsync.filesystem import FileSystem, RealFileSystem, as_text
from kbsync.knowledge_base.own_files import is_right
from kbsync.model import IngestOptions
from kbsync.queue import job_queue
from kbsync.sources.snapshot import read_snapshot
from kbsync.store import documents, jobs, origins, sources
from kbsync.store.connection import Connection
from kbsync.store.documents import StoredCopy
from kbsync.store.full_text_copy import unpaced
from kbsync.store.stored_files import StoredFiles
from kbsync.store.writer import Readers, Writer


@dataclass(frozen=True, slots=True)
class FileRepair:
    """What it works with. `fs` is the disk of the folders."""

    fs: FileSystem
    clock: Clock
    writer: Writer
    readers: Readers
    stored: StoredFiles

    def mend_copies(self, copies: Sequence[StoredCopy]) -> int:
        """Take stored copies that are gone or damaged anew from a file with the same bytes; return how many.

        A damaged one is set aside first.
        """
        whole = 0
        for copy in copies:
            if os.path.exists(copy.path):
                if is_right(copy, unpaced):
                    continue  # somebody mended it meanwhile
                self.stored.set_aside(copy.path)
            whole += self._taken_anew(copy)
            failpoint("repair.copy_mended")
        return whole

    def _taken_anew(self, copy: StoredCopy) -> bool:
        held_by, rows = self.readers.read(
            lambda connection: (origins.live_of(connection, [copy.document_id]), sources.listed(connection))
        )
        # Nothing is read in a folder that a person paused, or in another one at its place.
        paused = tuple(row.path.rstrip(os.sep) + os.sep for row in rows if row.state == "paused")
        for origin in held_by:
            if origin.path is None or not os.path.isabs(origin.path) or origin.kind == "inbox":
                continue
            if origin.path.startswith(paused):
                continue
            try:
                with self.stored.staging(copy.path) as (staged, file):
                    snapshot = read_snapshot(self.fs, origin.path, 0, file.write)
                    if snapshot.content_hash != copy.content_hash:
                        raise FileChanged(f"{origin.path} holds something else by now.")
            except RetryLater:
                raise
            except KbsyncError:
                continue
            try:
                stored = self.stored.store(staged, copy.content_hash, copy.path)
                self.writer.run(partial(documents.move_stored, old=copy.path, new=stored))
            finally:
                self.stored.discard(staged)
            return True
        return False

    def take_in(self, unclaimed: Sequence[str]) -> tuple[int, list[str], list[str]]:
        """Give stored copies of no document back to theirs, or have them be taken in as added anew.

        Return (how many, where damaged ones lie now, those that were tried before and could not be taken in).
        """
        taken, aside, left = 0, [], []
        for path in unclaimed:
            name = os.path.basename(path)
            refused = self.readers.read(partial(jobs.was_refused, path=name))
            if refused is not None:
                left.append(f"{as_text(path)} ({refused})")
                continue
            with self.stored.staging(name) as (staged, file):
                snapshot = read_snapshot(RealFileSystem(), path, 0, file.write)
            named, told = name.partition(".")[0], snapshot.content_hash
            if len(named) == len(told) and named != told:
                self.stored.discard(staged)
                aside.append(as_text(self.stored.set_aside(path)))
            else:
                try:
                    twin = self.writer.run(partial(_claim, path=path, content_hash=told))
                    if twin is None:
                        self.writer.run(partial(self._queue, name=name, staged=staged, size=snapshot.size))
                except BaseException:
                    self.stored.discard(staged)
                    raise
                if twin is not None:
                    self.stored.discard(staged)
                if twin is not None and twin.path != path and is_right(twin, unpaced):
                    self.stored.discard(path)  # the very same bytes, read just now, are the document's own copy
                taken += 1
            failpoint("repair.copy_taken_in")
        return taken, aside, left

    def _queue(self, connection: Connection, name: str, staged: str, size: int) -> None:
        job_queue.enqueue_staged(connection, name, staged, size, IngestOptions(), self.clock.now())


def _claim(connection: Connection, path: str, content_hash: str) -> StoredCopy | None:
    """Write that a stored copy belongs to the document with its content; return the copy that this document has.

    None where no document has this content.
    """
    document = documents.by_hash(connection, content_hash)
    if document is None:
        return None
    if document.stored_path is None or not os.path.exists(document.stored_path):
        documents.set_stored_path(connection, document.id, path, os.path.basename(path))
        return StoredCopy(document.id, content_hash, path, document.size_bytes)
    return StoredCopy(document.id, content_hash, document.stored_path, document.size_bytes)
