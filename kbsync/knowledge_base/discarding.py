"""Removes the stored copies of deleted documents from the disk, after the commit or at the next start."""

from __future__ import annotations

import os

import structlog

from kbsync.errors import RetryLater
from kbsync.store import discards, documents
from kbsync.store.connection import Connection
from kbsync.store.stored_files import StoredFiles
from kbsync.store.writer import Readers, Writer

log = structlog.stdlib.get_logger(__name__)


def discard_promised(writer: Writer, readers: Readers, stored: StoredFiles) -> None:
    """Remove the stored copies that are to go; where the disk does not let them, the next start does.

    In the writer's turn: no commit that names a copy anew comes between the question and the deed.
    """

    def discard(connection: Connection) -> None:
        claimed = {os.path.basename(path) for path in documents.stored_paths(connection)}
        for name in discards.pending(connection):
            if name not in claimed:
                stored.discard(os.path.join(stored.documents_dir, name))
        discards.kept(connection)

    if not readers.read(discards.pending):
        return
    try:
        writer.run(discard)
    except (OSError, RetryLater) as error:
        log.warning("stored_copies_stay", error=str(error))
