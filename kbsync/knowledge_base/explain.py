"""Says why a path is in its state, in a sentence, from the ledger, the queue and the origins."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kbsync.errors import NotFound
from kbsync.file_types import conversion_hint
from kbsync.reasons import SENTENCES, FileState, Reason
from kbsync.store import documents, files, jobs, origins
from kbsync.store.connection import Connection

_STATE_SENTENCES = {
    FileState.INDEXED: "It is indexed and searchable.",
    FileState.WAITING: "It waits to be read.",
    FileState.SKIPPED: "It was left out.",
    FileState.FAILED: "It could not be read.",
    FileState.GONE: "It is not there any more. What it held is kept, and found only while another file holds it too.",
}
_STATE_OF_JOB = {
    "queued": FileState.WAITING,
    "processing": FileState.WAITING,
    "failed": FileState.FAILED,
    "skipped": FileState.SKIPPED,
    "done": FileState.INDEXED,
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is known of a path. `detail` is for people; times are seconds since 1970."""

    path: str
    state: FileState
    reason: str | None
    detail: str
    document_id: int | None
    last_seen_at: float


def why(connection: Connection, path: str) -> Explanation:
    """Explain a path of a source, or one that was added by hand. Raises NotFound for one that was never seen."""
    row = files.by_path(connection, path)
    if row is not None:
        hint = conversion_hint(row.path) if row.reason is Reason.UNSUPPORTED else None
        detail = _detail(row.state, row.reason, row.detail or hint)
        if row.state is FileState.GONE and origins.document_of(connection, path) is not None:
            detail = "It is not there any more; the copy that was added by hand stays searchable."
        return Explanation(row.path, row.state, row.reason, detail, row.document_id, row.last_seen_at)
    document_id, job = origins.document_of(connection, path), jobs.newest_of_path(connection, path)
    if job is not None and (document_id is None or job.state in ("queued", "processing", "failed")):
        state = _STATE_OF_JOB[job.state]
        reason = Reason(job.reason) if job.reason in list(Reason) else None
        return Explanation(path, state, job.reason, _detail(state, reason, job.error), document_id, job.updated_at)
    if document_id is not None:
        document = documents.by_id(connection, document_id)
        reason = document.reason if document is not None else None
        detail = "It was added by hand; a copy of it is indexed and searchable."
        if reason is not None:
            detail = f"It was added by hand; a copy of it is kept. {SENTENCES[reason]}"
        seen_at = job.updated_at if job is not None else 0.0
        return Explanation(path, FileState.INDEXED, reason, detail, document_id, seen_at)
    folder = _folder_left_out(connection, path)
    if folder is not None:
        detail = f"It lies in {folder.path}: {_detail(folder.state, folder.reason, folder.detail)}"
        return Explanation(path, folder.state, folder.reason, detail, None, folder.last_seen_at)
    raise NotFound(f"{path} was never seen.", hint="Is it in a source? `kbsync sources list` shows them.")


def _folder_left_out(connection: Connection, path: str) -> files.FileRow | None:
    """Return the ledger's row of the folder above a path that is not entered: what is below has no row of its own."""
    above = os.path.dirname(path)
    while above != os.path.dirname(above):
        row = files.by_path(connection, above)
        if row is not None and row.state in (FileState.SKIPPED, FileState.FAILED):
            return row
        above = os.path.dirname(above)
    return None


def _detail(state: FileState, reason: Reason | None, detail: str | None) -> str:
    sentence = _STATE_SENTENCES[state] if reason is None else SENTENCES[reason]
    return f"{sentence} ({detail})" if detail else sentence
