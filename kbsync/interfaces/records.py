"""The shapes of JSON that the command line and HTTP share. A contract: fields are added, never renamed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from kbsync.daemon.rest import Resting, said
from kbsync.knowledge_base.damage import Problem
from kbsync.knowledge_base.difference import Change
from kbsync.knowledge_base.explain import Explanation
from kbsync.knowledge_base.reindexing import ReindexStatus
from kbsync.model import SearchResult
from kbsync.pipelines.isolation import SlotStatus
from kbsync.pipelines.isolation_plan import Slots
from kbsync.store.chunks import StoredChunk
from kbsync.store.documents import Document
from kbsync.store.events import Event
from kbsync.store.jobs import JobRow
from kbsync.store.ledger import Leftover
from kbsync.store.sources import SourceRow

Record = dict[str, Any]

# The states that add up to what was seen; what is gone does not count.
_SEEN = ("indexed", "waiting", "skipped", "failed")


def time_of(seconds: float | None) -> str | None:
    """Return seconds since 1970 as ISO 8601 in UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def schedule_record(job: Record) -> Record:
    """A job of the timetable, whose times are seconds since 1970."""
    return {**job, "last": time_of(job["last"]), "next": time_of(job["next"])}


def shown_path(path: str | None) -> str | None:
    """Return a path as text that JSON can carry: bytes that are no UTF-8 become `\\xNN`."""
    return None if path is None else os.fsencode(path).decode("utf-8", "backslashreplace")


def search_record(result: SearchResult) -> Record:
    """`{query, mode, took_ms, hits: [...]}`, and `notice` where the mode is not what was asked for.

    `hint`: what to try where nothing was found. `notices`: what needs a person, whatever was searched for.
    """
    hits = []
    for hit in result.hits:
        record = asdict(hit)
        record["path"] = shown_path(hit.path)
        record["paths"] = [shown_path(path) for path in hit.paths]
        hits.append(record)
    return {
        "query": result.query.encode("utf-8", "replace").decode(),
        "mode": result.mode,
        "took_ms": round(result.took_ms, 2),
        "hits": hits,
        "notice": result.notice,
        "hint": None,
        "notices": [],
    }


def document_record(document: Document, paths: list[str]) -> Record:
    """A document with its live paths."""
    return {
        "id": document.id,
        "title": document.title,
        "type": document.type,
        "language": document.language,
        "state": document.state,
        "reason": document.reason,
        "content_hash": document.content_hash,
        "original_filename": document.original_filename and shown_path(document.original_filename),
        "stored_path": document.stored_path,
        "size_bytes": document.size_bytes,
        "page_count": document.page_count,
        "paths": [shown_path(path) for path in paths],
        "created_at": time_of(document.created_at),
        "updated_at": time_of(document.updated_at),
        "metadata": document.metadata,
    }


def chunk_record(chunk: StoredChunk) -> Record:
    """A chunk of a document."""
    return {
        "id": chunk.id,
        "position": chunk.position,
        "text": chunk.text,
        "token_count": chunk.token_count,
        "metadata": chunk.metadata,
    }


def job_record(job: JobRow) -> Record:
    """A job of the queue."""
    record = asdict(job)
    record["path"] = shown_path(job.path)
    for name in ("not_before", "created_at", "updated_at"):
        record[name] = time_of(record[name]) if record[name] else None
    return record


def conversion_record(slots: Slots, children: Sequence[SlotStatus]) -> Record:
    """`{slots, threads, children: [{state, pid, file, seconds, resident_bytes}]}`: what reads documents, and how."""
    return {
        "slots": slots.count,
        "threads": slots.threads,
        "children": [
            {
                "state": child.state,
                "pid": child.pid,
                "file": shown_path(child.file),
                "seconds": None if child.seconds is None else round(child.seconds, 1),
                "resident_bytes": child.resident_bytes,
            }
            for child in children
        ],
    }


def source_record(row: SourceRow, counts: dict[str, int], *, running: bool) -> Record:
    """A source with its state and how many paths are in each state. Without a daemon nothing is watched: `stopped`."""
    return {
        "path": shown_path(row.path),
        "state": row.state if running or row.state != "watching" else "stopped",
        "reason": row.reason,
        "detail": _detail(row),
        "since": time_of(row.since),
        "last_scan_at": time_of(row.last_scan_at),
        "files": {
            **{state: counts.get(state, 0) for state in ("indexed", "waiting", "skipped", "failed", "gone")},
            "seen": sum(counts.get(state, 0) for state in _SEEN),
        },
    }


def _detail(row: SourceRow) -> str | None:
    """Say of a source that a person paused since when that is and how it goes on, of others what the last walk said."""
    if row.paused_at is None:
        return row.detail
    shown = shown_path(row.path) or ""
    return (
        f"{shown} is paused by you since {time_of(row.paused_at)}; `kbsync sources resume {shlex.quote(shown)}` "
        "goes on with it."
    )


def reindex_record(status: ReindexStatus) -> Record:
    """`{state, model_name, live_model_name, chunks_done, chunks_total, stale_left, begun_at, finished_at, left_s,
    error}`: how far the index is made anew."""
    record = asdict(status)
    record["begun_at"], record["finished_at"] = time_of(status.begun_at), time_of(status.finished_at)
    record["left_s"] = None if status.left_s is None else round(status.left_s)
    return record


def rest_record(resting: Resting | None, now: float) -> Record | None:
    """`{reason, since, until, detail}`: why work rests at `now` (seconds since 1970); None where it goes on."""
    if resting is None:
        return None
    return {
        "reason": resting.cause,
        "since": time_of(resting.since),
        "until": time_of(resting.until),
        "detail": said(resting, now),
    }


def reindex_notices(reindex: Record, told: str | None = None) -> list[str]:
    """Say that another model than the configured one answers, and why the index is not being made anew.

    `told`: the error that was told already.
    """
    found = []
    if reindex["live_model_name"] not in ("", reindex["model_name"]):
        found.append(
            f"The index is being made anew for {reindex['model_name']}: {reindex['chunks_done']} of "
            f"{reindex['chunks_total']} chunks. Until then search uses what {reindex['live_model_name']} made."
        )
    if reindex["error"] and reindex["error"] != told:
        found.append(f"Making the index anew waits: {reindex['error']}")
    return found


def why_record(explanation: Explanation) -> Record:
    """`{path, state, reason, detail, document_id, last_seen_at, now_at}`; of a folder `files` and `failed` too."""
    record: Record = {
        "path": shown_path(explanation.path),
        "state": explanation.state,
        "reason": explanation.reason,
        "detail": explanation.detail,
        "document_id": explanation.document_id,
        "last_seen_at": time_of(explanation.last_seen_at),
        "now_at": shown_path(explanation.now_at),
    }
    if explanation.files is not None:
        record["files"] = dict(explanation.files)
        record["failed"] = [shown_path(path) for path in explanation.failed]
    return record


def event_record(event: Event) -> Record:
    """`{id, at, kind, source, path, document_id, detail}`: something that happened."""
    return {
        "id": event.id,
        "at": time_of(event.at),
        "kind": event.kind,
        "source": shown_path(event.source),
        "path": shown_path(event.path),
        "document_id": event.document_id,
        "detail": event.detail,
    }


def change_record(change: Change) -> Record:
    """`{source, path, change, from, reason}`: what a rescan would find."""
    return {
        "source": shown_path(change.source),
        "path": shown_path(change.path),
        "change": change.change,
        "from": shown_path(change.before),
        "reason": change.reason,
    }


def leftover_record(leftover: Leftover) -> Record:
    """`{id, title, state, until}`: a document that nothing holds any more, and since when."""
    return {
        "id": leftover.id,
        "title": leftover.title,
        "state": leftover.state,
        "until": time_of(leftover.until),
    }


def check_record(problems: Sequence[Problem]) -> Record:
    """`{ok, problems: [{kind, detail, count, first, repaired, done, hint}]}`; `ok`: whole, or all of it repaired."""
    return {
        "ok": all(problem.repaired for problem in problems),
        "problems": [asdict(problem) for problem in problems],
    }
