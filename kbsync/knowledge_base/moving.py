"""A known file at another path: what one transaction writes so that its document follows."""

from __future__ import annotations

from kbsync import file_types
from kbsync.failpoints import failpoint
from kbsync.filesystem import as_text
from kbsync.knowledge_base import commits
from kbsync.model import Origin, Priority
from kbsync.queue import job_queue
from kbsync.reasons import FileState
from kbsync.sources.moves import Move
from kbsync.store import documents, events, files, origins
from kbsync.store.connection import Connection


def follow(connection: Connection, move: Move, now: float) -> bool:
    """Have a document follow its file to another path, with never a moment between; False where either changed.

    What was not proved by its hash is read again at low priority; so is the first path where the title may follow it.
    """
    old, new = move.old, files.known(connection, move.source_id, move.path)
    still = files.indexed_at(connection, old.source_id, [old.path])
    if [row[3:] for row in still] != [(old.content_hash, old.document_id)]:
        return False
    document = documents.by_id(connection, old.document_id)
    held = origins.held_by(connection, move.path)
    if document is None or origins.held_by(connection, old.path) != old.document_id or held is not None:
        return False
    if new is not None and new.state is not FileState.WAITING:
        return False
    origins.add(connection, old.document_id, Origin("path", move.path, move.source_id), now)
    origins.end_path(connection, old.path, "missing", now)
    failpoint("moving.origin_moved")
    files.mark_gone(connection, old.source_id, [old.path], now)
    files.account(
        connection,
        move.source_id,
        move.path,
        move.stat,
        FileState.INDEXED,
        document.reason,
        move.rules,
        now,
        content_hash=old.content_hash,
        document_id=old.document_id,
        # Also where its new name makes another type of the same bytes: it may be none.
        hash_due=not move.proved or file_types.type_of(old.path) != file_types.type_of(move.path),
    )
    failpoint("moving.row_moved")
    for kind, source_id, path, other in (
        ("moved", old.source_id, old.path, move.path),
        ("arrived", move.source_id, move.path, old.path),
    ):
        detail = as_text(other)
        events.record(connection, kind, now, source_id=source_id, path=path, document_id=old.document_id, detail=detail)
    if move.proved:
        commits.follow_first_path(connection, old.document_id, now)
    else:
        job_queue.enqueue_path(connection, move.source_id, move.path, move.stat.size, Priority.LOW, now)
    return True
