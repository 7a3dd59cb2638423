"""What a start does first: put back what a dead process was working on, and remove the copies it left half stored."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import structlog

from kbsync.clock import Clock
from kbsync.failpoints import failpoint
from kbsync.knowledge_base import commits, rebuilt
from kbsync.knowledge_base.discarding import discard_promised
from kbsync.log import ErrorLog
from kbsync.store import documents, jobs
from kbsync.store.copies import hash_file
from kbsync.store.stored_files import StoredFiles
from kbsync.store.writer import Readers, Writer

log = structlog.stdlib.get_logger(__name__)


def recover(
    writer: Writer, readers: Readers, stored: StoredFiles, error_log: ErrorLog, clock: Clock, *, is_new: bool = False
) -> None:
    """Put back what a dead process was working on, and remove the copies that it left half stored.

    `is_new`: the database was just made. What lies staged then was sent to one that somebody deleted, and may be the
    only copy: it goes among the stored ones.
    """
    now = clock.now()
    for path in stored.staged() if is_new else ():
        content_hash, _size = hash_file(path)
        stored.store(path, content_hash, os.path.basename(path))
    for path, message in writer.run(lambda connection: commits.recover(connection, now)):
        error_log.record(path, message, now)
    failpoint("recovery.requeued")
    staged, kept = readers.read(lambda connection: (jobs.staged_paths(connection), documents.stored_paths(connection)))
    _follow_moved_folder(writer, staged, stored.staging_dir, jobs.move_staged)
    _follow_moved_folder(writer, kept, stored.documents_dir, documents.move_stored)
    failpoint("recovery.followed")
    discard_promised(writer, readers, stored)
    unclaimed = stored.sweep(staged | kept, keep_stored=readers.read(rebuilt.is_settling))
    failpoint("recovery.swept")
    if unclaimed:
        log.warning("stored_copies_unclaimed", count=len(unclaimed), first=unclaimed[0])


def _follow_moved_folder(writer: Writer, paths: set[str], folder: str, move: Callable[..., None]) -> None:
    """The data folder was moved since the paths were written: write the new ones, where the copies are there."""
    moved = [
        (path, now_at)
        for path in paths
        if os.path.dirname(path) != folder and os.path.exists(now_at := os.path.join(folder, os.path.basename(path)))
    ]
    for old, new in moved:
        writer.run(partial(move, old=old, new=new))
        failpoint("recovery.path_moved")
