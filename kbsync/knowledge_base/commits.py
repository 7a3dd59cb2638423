"""What one transaction writes when a job ends: document, chunks, vectors, origin, file state, the job's end."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kbsync import file_types
from kbsync.errors import RetryLater
from kbsync.failpoints import failpoint
from kbsync.filesystem import Stat, as_text
from kbsync.model import DocumentUpdate, Job, Origin, Priority
from kbsync.queue import job_queue
from kbsync.reasons import FileState, Reason
from kbsync.store import documents, events, files, jobs, origins, reindexes
from kbsync.store.connection import Connection


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended. `dropped`: its file changed meanwhile, so it runs again."""

    state: jobs.JobState | None
    document_id: int | None = None
    chunk_count: int | None = None
    dropped: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """The version of a source's file that a job looked at, and the rules that judged it."""

    stat: Stat | None
    rules: str
    # It was read so soon after its last change that a later one may not show: its bytes are hashed once more.
    hash_due: bool = False


DROPPED = Outcome(None, dropped=True)


def ingested(
    connection: Connection,
    job: Job,
    update: DocumentUpdate,
    embedder_id: int,
    origin: Origin,
    judged: Judged | None,
    stored_path: str | None,
    now: float,
    *,
    is_new: bool = False,
    is_indexed: bool = False,
) -> Outcome:
    """Write a new or re-made document. `judged` is set for a source's file, `stored_path` for a kept copy.

    `is_new`: when the job began, no document had this content. Where one has it now, another job had the same bytes at
    the same time, and this one runs again: it finds them known. `is_indexed`: who added it by hand brings nothing new.
    """
    if not job_queue.is_current(connection, job):
        job_queue.run_again(connection, job, now)
        return DROPPED
    if is_new and documents.by_hash(connection, update.content_hash) is not None:
        job_queue.run_again(connection, job, now)
        return DROPPED
    if update.vectors is not None and not reindexes.takes_vectors(connection, embedder_id):
        job_queue.run_again(connection, job, now)  # another model took over between embedding and writing
        return DROPPED
    document_id = documents.write(connection, update, embedder_id, now)
    events.record(connection, "indexed", now, source_id=job.source_id, path=origin.path, document_id=document_id)
    return _placed(
        connection,
        job,
        document_id,
        update.content_hash,
        update.reason,
        origin,
        judged,
        stored_path,
        now,
        state="skipped" if is_indexed and job.kind != "path" else "done",
        chunk_count=len(update.chunks),
    )


def known(
    connection: Connection,
    job: Job,
    content_hash: str,
    origin: Origin,
    judged: Judged | None,
    stored_path: str | None,
    now: float,
) -> Outcome | None:
    """Give known content its new origin; None where the document was removed meanwhile: then it is new content."""
    if not job_queue.is_current(connection, job):
        job_queue.run_again(connection, job, now)
        return DROPPED
    document = documents.by_hash(connection, content_hash)
    if document is None:
        return None
    return _placed(
        connection,
        job,
        document.id,
        content_hash,
        document.reason,
        origin,
        judged,
        stored_path,
        now,
        state="done" if job.kind == "path" else "skipped",
        chunk_count=None,
    )


def _placed(
    connection: Connection,
    job: Job,
    document_id: int,
    content_hash: str,
    reason: Reason | None,
    origin: Origin,
    judged: Judged | None,
    stored_path: str | None,
    now: float,
    *,
    state: jobs.JobState,
    chunk_count: int | None,
) -> Outcome:
    before = None
    if origin.kind in ("path", "inbox") and origin.path is not None:
        before = origins.held_by(connection, origin.path)
    added = origins.add(connection, document_id, origin, now)
    failpoint("commits.placed")
    if origin.kind == "inbox" and origin.path is not None:
        origins.end_path(connection, origin.path, "superseded", now)  # from when this folder was a mirror
    if before is not None and before != document_id:
        follow_first_path(connection, before, now)
    if added and chunk_count is None:
        events.record(connection, "found", now, source_id=job.source_id, path=origin.path, document_id=document_id)
    if stored_path is not None:
        if not os.path.exists(stored_path):
            raise RetryLater(Reason.IO, f"The stored copy of {origin.path} was removed at the same moment.")
        documents.set_stored_path(connection, document_id, stored_path, os.path.basename(as_text(origin.path or "")))
    if job.kind == "staged":
        for source_id, path in files.take_back(connection, content_hash):
            events.record(connection, "taken_back", now, source_id=source_id, path=path, document_id=document_id)
    if job.kind == "staged" and origin.path is not None:
        _follow_again(connection, origin.path, now)
    if judged is not None and job.source_id is not None:
        files.account(
            connection,
            job.source_id,
            job.path,
            judged.stat,
            FileState.INDEXED,
            reason,
            judged.rules,
            now,
            content_hash=content_hash,
            document_id=document_id,
            hash_due=judged.hash_due,
        )
    failpoint("commits.accounted")
    jobs.end(
        connection,
        job.id,
        state,
        now,
        reason="already_indexed" if state == "skipped" else reason,
        document_id=document_id,
        chunk_count=chunk_count,
    )
    failpoint("commits.job_ended")
    return Outcome(state, document_id, chunk_count)


def _follow_again(connection: Connection, path: str, now: float) -> None:
    """What was added by hand is followed in its source again, where it was removed or could not be read before."""
    row = files.by_path(connection, path)
    if row is None or not (row.state is FileState.FAILED or row.reason is Reason.REMOVED_BY_YOU):
        return
    files.account(connection, row.source_id, row.path, None, FileState.WAITING, Reason.QUEUED, "", now)
    job_queue.enqueue_path(connection, row.source_id, row.path, 0, Priority.EVENT, now)


def ended(
    connection: Connection,
    job: Job,
    state: FileState,
    reason: Reason,
    message: str,
    judged: Judged | None,
    now: float,
) -> Outcome:
    """End a job as skipped or failed, the reason in the ledger.

    What the path held before is no longer there: its origin ends as superseded. A failure to look at it (permission,
    I/O) says nothing about the content, so then the last version stays.
    """
    if not job_queue.is_current(connection, job):
        job_queue.run_again(connection, job, now)
        return DROPPED
    job_state: jobs.JobState = "failed" if state is FileState.FAILED else "skipped"
    document_id = None
    if job.source_id is not None:
        if reason in (Reason.PERMISSION, Reason.IO, Reason.NO_SPACE, Reason.MODEL, Reason.CRASHED):
            document_id = origins.document_of(connection, job.path)
        elif _is_as_indexed(connection, job, judged):
            # Made anew by other rules, which fail on it: what the rules before made of the same bytes is still right.
            if judged is not None:
                files.set_rules(connection, job.source_id, job.path, judged.rules)
            jobs.end(connection, job.id, job_state, now, reason=reason, error=message)
            return Outcome(job_state)
        else:
            left = origins.end_path(connection, job.path, "superseded", now)
            if left is not None:
                follow_first_path(connection, left, now)
        files.account(
            connection,
            job.source_id,
            job.path,
            judged.stat if judged else None,
            state,
            reason,
            judged.rules if judged else "",
            now,
            detail=message,
            document_id=document_id,
        )
    events.record(connection, job_state, now, source_id=job.source_id, path=job.path, detail=f"{reason}: {message}")
    failpoint("commits.refused")
    jobs.end(connection, job.id, job_state, now, reason=reason, error=message)
    return Outcome(job_state)


def is_excluded(connection: Connection, job: Job, content_hash: str) -> bool:
    """Return whether a job's new path holds what a person took out of the index: a file that moved, or came back."""
    if job.source_id is None or origins.held_by(connection, job.path) is not None:
        return False
    return files.is_removed(connection, content_hash)


def excluded(connection: Connection, job: Job, judged: Judged, now: float) -> Outcome:
    """End a job of which `is_excluded` is true: its path is left out as well, until it is added by hand."""
    if not job_queue.is_current(connection, job):
        job_queue.run_again(connection, job, now)
        return DROPPED
    if job.source_id is not None:
        files.account(
            connection,
            job.source_id,
            job.path,
            judged.stat,
            FileState.SKIPPED,
            Reason.REMOVED_BY_YOU,
            judged.rules,
            now,
        )
    jobs.end(connection, job.id, "skipped", now, reason=Reason.REMOVED_BY_YOU)
    return Outcome("skipped")


def _is_as_indexed(connection: Connection, job: Job, judged: Judged | None) -> bool:
    """Return whether a job looked at the very version of its file that is indexed."""
    known = None if job.source_id is None else files.known(connection, job.source_id, job.path)
    if known is None or judged is None or known.state is not FileState.INDEXED:
        return False
    return known.stat == judged.stat and not known.hash_due


def again(connection: Connection, job: Job, now: float) -> Outcome:
    """Drop what came of a job: what it was decided by changed meanwhile. It runs again."""
    job_queue.run_again(connection, job, now)
    return DROPPED


def to_documents(connection: Connection, job: Job, now: float) -> Outcome:
    """Leave a job to the workers of documents."""
    job_queue.to_documents(connection, job, now)
    return DROPPED


def follow_first_path(connection: Connection, document_id: int, now: float) -> int:
    """Queue a look at a document that lost a path: title and type follow the first one that is left. Return how many.

    Only where that path's name asks for something else; its job at low priority finds out what.
    """
    document = documents.by_id(connection, document_id)
    paths = origins.live_source_paths(connection, document_id)
    row = files.by_path(connection, paths[0]) if paths else None
    if document is None or row is None:
        return 0
    language = file_types.language_of(row.path)
    type_by_name = file_types.type_of(row.path) or "text"  # any other ending is here as text, or not at all
    other_type = not document.type_by_hand and (
        document.type != type_by_name or (language is not None and document.language != language)
    )
    if document.title_source != "name" and not other_type:
        return 0
    job_queue.enqueue_path(connection, row.source_id, row.path, document.size_bytes, Priority.LOW, now)
    return 1


def look_again(connection: Connection, document_id: int, now: float) -> None:
    """Queue a document's first path in a source at low priority: its job makes it as today's rules do."""
    document, paths = documents.by_id(connection, document_id), origins.live_source_paths(connection, document_id)
    row = files.by_path(connection, paths[0]) if paths else None
    if document is not None and row is not None:
        job_queue.enqueue_path(connection, row.source_id, row.path, document.size_bytes, Priority.LOW, now)


def remade(
    connection: Connection, document: documents.Document, update: DocumentUpdate, embedder_id: int, now: float
) -> None:
    """Write a document that was made anew, unless it was removed or written meanwhile. Raises RetryLater."""
    if update.vectors is not None and not reindexes.takes_vectors(connection, embedder_id):
        raise RetryLater(Reason.RETRY, "Another embedding model took over meanwhile.")
    if documents.by_id(connection, document.id) != document:
        return
    documents.write(connection, update, embedder_id, now)
    events.record(connection, "indexed", now, document_id=document.id)


def recover(connection: Connection, now: float) -> list[tuple[str, str]]:
    """Put back what a dead process was working on; return (path, message) of jobs that it died of too often.

    For the start of the process that holds the lock. Those jobs have failed: their files are left alone until they
    change.
    """
    buried = []
    for source_id, path, job_id in job_queue.recover(connection, now, all_leases=True):
        message = f"{as_text(path)} was being read whenever kbsync died; it is left alone until it changes."
        jobs.end(connection, job_id, "failed", now, reason=Reason.CRASHED, error=message)
        known_file = None if source_id is None else files.known(connection, source_id, path)
        if source_id is not None and known_file is not None:
            document_id = origins.document_of(connection, path)
            files.account(
                connection,
                source_id,
                path,
                known_file.stat,
                FileState.FAILED,
                Reason.CRASHED,
                known_file.rules,
                now,
                detail=message,
                document_id=document_id,
            )
        buried.append((path, message))
    return buried


def gone(connection: Connection, job: Job, now: float) -> Outcome:
    """End a job whose file is not there any more. What that means for the document is the next scan's to say."""
    if not job_queue.is_current(connection, job):
        job_queue.run_again(connection, job, now)
        return DROPPED
    if job.source_id is not None:
        files.set_reason(
            connection, job.source_id, job.path, Reason.SETTLING, "It was not there when it was to be read."
        )
        # Its disk may only be away; then what the job was for (a title that follows, a proof) is still to be done.
        files.set_hash_due(connection, job.source_id, job.path)
    jobs.end(connection, job.id, "skipped", now, reason="gone")
    return Outcome("skipped")
