"""The end of a file's way through an inbox: it goes from the folder, once the store is seen to hold its very bytes."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from kbsync.clock import Clock
from kbsync.errors import FailFile, FileChanged, FileGone, KbsyncError, RetryLater
from kbsync.failpoints import failpoint
from kbsync.filesystem import FileSystem, RealFileSystem
from kbsync.knowledge_base.commits import Judged
from kbsync.model import Source
from kbsync.reasons import FileState, Reason
from kbsync.sources.inbox import Inbox, writing_wait
from kbsync.sources.snapshot import Snapshot, read_snapshot, reading_failed
from kbsync.store import documents, events, files
from kbsync.store.connection import Connection
from kbsync.store.writer import Readers, Writer

log = structlog.stdlib.get_logger(__name__)


def raise_while_written(fs: FileSystem, inbox: Inbox, path: str, now: float) -> None:
    """Raise FileChanged, saying for how long to wait, while a file is not finished; what `read_snapshot` raises too."""
    try:
        written_at = fs.lstat(path).ctime_ns / 1e9
        is_open = inbox.is_open_for_writing(path)
    except OSError as error:
        raise reading_failed(path, error) from error
    wait_s = writing_wait(is_open, now - written_at)
    if wait_s:
        what = "is still open for writing" if is_open else "was written a moment ago"
        raise FileChanged(f"{path} {what}; it is taken in when that ends.", wait_s=wait_s)


def holds(stored_path: str | None, content_hash: str) -> bool:
    """Return whether a stored copy is there and holds this content, by reading it."""
    if stored_path is None:
        return False
    try:
        return read_snapshot(RealFileSystem(), stored_path, 0).content_hash == content_hash
    except KbsyncError:
        return False


@dataclass(frozen=True, slots=True)
class TakenIn:
    """A file of an inbox whose document is committed: what was read, as which document, by which rules."""

    source: Source
    path: str
    snapshot: Snapshot
    document_id: int
    judged: Judged


def take_away(taken: TakenIn, inbox: Inbox, writer: Writer, readers: Readers, clock: Clock) -> None:
    """Remove a file that was taken in and write that down. Where it cannot be, it stays and the ledger says why.

    Whatever stops half-way is made up for by the next walk, which comes by an indexed file in an inbox.
    """
    content_hash = taken.snapshot.content_hash
    document = readers.read(lambda connection: documents.by_id(connection, taken.document_id))
    if document is None:
        return  # removed by hand at the same moment: the file stays for whoever removed it
    try:
        if not holds(document.stored_path, content_hash):
            raise FailFile(
                Reason.IO,
                f"{taken.path} was taken in, but its copy {document.stored_path} cannot be read back; the file stays.",
                hint="Check the disk that holds kbsync's data.",
            )
        failpoint("inbox.copy_proved")
        inbox.remove(taken.path, taken.snapshot.stat, content_hash)
        failpoint("inbox.removed")
    except FailFile as error:
        failure = error
        writer.run(lambda connection: _not_removed(connection, taken, failure, clock.now()))
        log.warning("inbox_file_stays", path=taken.path, reason=error.reason)
    except (FileChanged, FileGone, RetryLater) as error:
        log.info("inbox_file_stays", path=taken.path, error=str(error))
    else:
        writer.run(lambda connection: _removed(connection, taken, clock.now()))
        failpoint("inbox.written_down")


def _not_removed(connection: Connection, taken: TakenIn, error: FailFile, now: float) -> None:
    files.account(
        connection,
        taken.source.id,
        taken.path,
        taken.snapshot.stat,
        FileState.FAILED,
        error.reason,
        taken.judged.rules,
        now,
        detail=str(error),
        content_hash=taken.snapshot.content_hash,
        document_id=taken.document_id,
    )


def _removed(connection: Connection, taken: TakenIn, now: float) -> None:
    files.mark_gone(connection, taken.source.id, [taken.path], now)
    events.record(
        connection, "taken_in", now, source_id=taken.source.id, path=taken.path, document_id=taken.document_id
    )
