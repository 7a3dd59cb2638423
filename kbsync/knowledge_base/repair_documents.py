"""The repair of documents, of the ledger of paths and of the queue: what is sure stays, for the rest the files decide.

Each function is one step of knowledge_base/repair: it gets the writing connection and says what it did.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

from kbsync import ingest
from kbsync.filesystem import as_text
from kbsync.model import Origin, Priority
from kbsync.pipelines import note
from kbsync.pipelines.enrich import enriched_text
from kbsync.queue import job_queue
from kbsync.reasons import FileState, Reason
from kbsync.store import chunks, documents, events, files, integrity, jobs, mending, origins, sources
from kbsync.store.chunks import StoredChunk
from kbsync.store.connection import Connection
from kbsync.store.documents import Document


@dataclass(frozen=True, slots=True)
class Mended:
    """How many documents are made anew from their file or copy, were mended at once, and cannot be mended."""

    queued: int
    mended: int
    left: tuple[int, ...]


def explain(connection: Connection, now: float) -> tuple[int, int]:
    """Give documents without an origin one, by what still tells where they came from; the others go, and the files
    that history has them from are read again.

    Return (how many got one, how many went).
    """
    given = gone = 0
    again: list[tuple[int | None, bytes]] = []
    for document_id in mending.documents_without_origin(connection):
        document = documents.by_id(connection, document_id)
        if document is None:
            continue
        paths = mending.indexed_paths_of(connection, document_id)
        for source_id, path in paths:
            origins.add(connection, document_id, Origin("path", os.fsdecode(path), source_id), now)
        if not paths:
            origin = _origin_of(connection, document)
            if origin is None:
                again += filter(None, [events.last_place(connection, document_id)])
                documents.delete(connection, document_id)
                gone += 1
                continue
            origins.add(connection, document_id, origin, now)
        given += 1
        origins.refresh_state(connection, document_id)
    read_again(connection, again, now)  # perhaps the file is there: the next walk may be an hour away
    return given, gone


def _origin_of(connection: Connection, document: Document) -> Origin | None:
    """Return why a document may be here that is in no folder: history says it, or that there is a copy."""
    if document.type == "note":
        return Origin("note", None, None)
    if document.stored_path is None:
        return None
    known = events.way_in(connection, document.id)
    if known is not None:
        if known.is_inbox:
            there = known.source_id is not None and sources.exists(connection, known.source_id)
            return Origin("inbox", known.path, known.source_id if there else None)
        return Origin("added" if os.path.isabs(known.path) else "upload", known.path, None)
    return Origin("upload", document.original_filename or os.path.basename(document.stored_path), None)


def wrong_documents(connection: Connection) -> list[int]:
    """Return the documents whose text is not whole, or stands under another title or section than it should."""
    return [*integrity.documents_with_wrong_texts(connection), *mending.documents_with_gaps(connection)]


def mend_texts(connection: Connection, document_ids: Iterable[int]) -> Mended:
    """Have documents whose text is wrong or not whole be made anew; what cannot be read again keeps what is left."""
    queued: list[int] = []
    left: list[int] = []
    mended = 0
    for document_id in sorted(set(document_ids)):
        document = documents.by_id(connection, document_id)
        if document is None:
            continue
        if document.type == "note":
            if _mend_note(connection, document):
                mended += 1
            else:
                left.append(document_id)
        elif document.state != "current":
            _keep_what_is_left(connection, document)
            mended += 1
        elif _can_be_read(connection, document):
            queued.append(document_id)
        else:
            left.append(document_id)
    mending.have_made_anew(connection, queued)
    return Mended(len(queued), mended, tuple(left))


def make_cut_off_anew(connection: Connection) -> None:
    """Have documents be made anew whose end may be gone, where they can be read: their vectors alone still tell."""
    found = (documents.by_id(connection, number) for number in mending.documents_cut_off(connection))
    mending.have_made_anew(
        connection,
        [
            document.id
            for document in found
            if document
            and document.type != "note"
            and document.state == "current"
            and _can_be_read(connection, document)
        ],
    )


def bring_notes_back(connection: Connection, now: float) -> tuple[int, list[int]]:
    """Make the rows of notes again whose text is there and stands nowhere else: its chunk holds their title too.

    Return (how many came back, those of which the text is not in one piece).
    """
    count, left = 0, []
    for document_id in mending.notes_without_row(connection):
        stored = chunks.of_document(connection, document_id)
        if len(stored) != 1:
            left.append(document_id)
            continue
        title, text = _note_of(connection, stored[0])
        content_hash = ingest.note_hash(title, text)
        if documents.by_hash(connection, content_hash) is not None:
            continue  # it was written down once more meanwhile
        documents.bring_back_note(
            connection,
            document_id,
            title,
            "content" if title == note.note_title(text) else "hand",
            content_hash,
            len(text.encode("utf-8", "surrogatepass")),
            ingest.NOTE_CONVERTER,
            now,
        )
        mending.set_chunk_text(connection, stored[0].id, text, enriched_text(title, None, text))
        mending.close_gaps(connection, document_id, is_whole=True)
        origins.add(connection, document_id, Origin("note", None, None), now)
        origins.refresh_state(connection, document_id)
        count += 1
    return count, left


def _note_of(connection: Connection, chunk: StoredChunk) -> tuple[str, str]:
    """Return (title, text) of a note by its chunk; where the two texts of that disagree, what was embedded counts."""
    tail = f"\n\n{chunk.text}"
    if chunk.enriched_text.endswith(tail):
        return chunk.enriched_text.removesuffix(tail), chunk.text
    if mending.proves(connection, chunk.id, chunk.enriched_text):
        title, _, text = chunk.enriched_text.partition("\n\n")
        return title, text
    return note.note_title(chunk.text), chunk.text


def _can_be_read(connection: Connection, document: Document) -> bool:
    if document.stored_path is not None:
        return os.path.exists(document.stored_path)
    paths = origins.live_source_paths(connection, document.id)
    return bool(paths) and files.by_path(connection, paths[0]) is not None


def _mend_note(connection: Connection, document: Document) -> bool:
    """Write a note's text and title as its hash proves them; False where neither the text nor what is indexed is."""
    stored = chunks.of_document(connection, document.id)
    if len(stored) != 1:
        return False
    (chunk,) = stored
    head, _, tail = chunk.enriched_text.partition("\n\n")
    for title, text in product((document.title, head), (chunk.text, tail)):
        if ingest.note_hash(title, text) == document.content_hash:
            documents.set_title(connection, document.id, title)
            mending.set_chunk_text(connection, chunk.id, text, enriched_text(title, None, text))
            mending.close_gaps(connection, document.id, is_whole=True)
            return True
    return False


def _keep_what_is_left(connection: Connection, document: Document) -> None:
    """An older version, whose file is not there any more: its text stands as it is, under its title and section."""
    stored = chunks.of_document(connection, document.id)
    if not stored and document.stored_path is None:
        documents.delete(connection, document.id)
        return
    for chunk in stored:
        header = chunk.metadata.get("section_header")
        title = " ".join(document.title.split())
        enriched = enriched_text(title, str(header) if header else None, chunk.text)
        if not integrity.is_enriched(document.title, chunk.enriched_text, chunk.text, header):
            mending.set_chunk_text(connection, chunk.id, chunk.text, enriched)
    mending.close_gaps(connection, document.id)


# ---- the ledger of paths ----


def read_again(connection: Connection, paths: Iterable[tuple[int | None, bytes]], now: float) -> int:
    """Have paths be read again, nothing that was known of them believed; return how many."""
    count = 0
    for source_id, raw in set(paths):
        path = os.fsdecode(raw)
        if source_id is None or not sources.exists(connection, source_id):
            continue
        known = files.known(connection, source_id, path)
        if known is not None and known.reason is Reason.REMOVED_BY_YOU:
            continue
        stat = None if known is None else known.stat
        rules = "" if known is None else known.rules
        files.account(connection, source_id, path, stat, FileState.WAITING, Reason.QUEUED, rules, now)
        mending.forget_version(connection, source_id, raw)
        size = 0 if stat is None else stat.size
        job_queue.enqueue_path(connection, source_id, path, size, Priority.SCAN, now)
        count += 1
    return count


def mend_ledger(connection: Connection, now: float) -> int:
    """Have every path be read again of which ledger and documents disagree; return how many.

    A path that lies in no followed folder any more, or that a person took out, holds nothing.
    """
    paths: list[tuple[int | None, bytes]] = list(mending.drop_twice(connection, now))
    paths += mending.wrong_paths(connection)
    roots = {row.path: row.id for row in sources.listed(connection)}
    for origin_id, raw in mending.ghosts(connection):
        path = os.fsdecode(raw)
        root = max((root for root in roots if path.startswith(root.rstrip(os.sep) + os.sep)), key=len, default=None)
        row = files.by_path(connection, path)
        if root is None or (row is not None and row.reason is Reason.REMOVED_BY_YOU):
            origins.end(connection, [origin_id], "removed", now)
            continue
        mending.set_source(connection, origin_id, roots[root])
        paths.append((roots[root], raw))
    return read_again(connection, paths, now)


def leave_out_again(connection: Connection) -> list[str]:
    """Leave out what a person removed, where history tells of it and the ledger has forgotten it; return the paths."""
    forgotten = events.forgotten_removals(connection)
    for source_id, path, at in forgotten:
        files.account(connection, source_id, path, None, FileState.SKIPPED, Reason.REMOVED_BY_YOU, "", at)
    return [path for _, path, _ in forgotten]


# ---- the queue ----


def put_back(connection: Connection, now: float) -> int:
    """Put jobs that nobody works on back into the queue; return how many."""
    stuck = mending.stuck_jobs(connection)
    for job_id in stuck:
        jobs.requeue(connection, job_id, now, not_before=0, attempts=0, reason=Reason.QUEUED, error=None)
    return len(stuck)


def end_without_copy(connection: Connection, job_ids: Iterable[int], now: float) -> list[tuple[str, str]]:
    """End jobs whose staged copy is gone; return (path, message) of each."""
    ended = []
    for job_id in job_ids:
        job = jobs.by_id(connection, job_id)
        if job is None or job.state not in ("queued", "processing"):
            continue
        what = as_text(job.path) or "The note"
        message = f"{what} was not read: its copy in kbsync's folder is gone. Send it again."
        jobs.end(connection, job_id, "failed", now, reason=Reason.IO, error=message)
        events.record(connection, "failed", now, path=job.path or None, detail=f"{Reason.IO}: {message}")
        ended.append((what, message))
    return ended
