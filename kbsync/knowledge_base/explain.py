"""Says why a path is in its state, in a sentence: from the ledger, the queue and the origins.

What was never seen is explained by a look at it now, in `unseen`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from kbsync.errors import NotFound
from kbsync.file_types import conversion_hint
from kbsync.filesystem import as_text
from kbsync.reasons import SENTENCES, FileState, Reason
from kbsync.store import documents, files, jobs, ledger, origins, sources
from kbsync.store.connection import Connection

_STATE_SENTENCES = {
    FileState.INDEXED: "It is indexed and searchable.",
    FileState.WAITING: "It waits to be read.",
    FileState.SKIPPED: "It was left out.",
    FileState.FAILED: "It could not be read.",
    FileState.GONE: "It is not there any more. What it held is kept, and found only while another file holds it too.",
}
_TAKEN_IN = "It was taken in from an inbox; its copy is indexed and searchable."
_STATE_OF_JOB = {
    "queued": FileState.WAITING,
    "processing": FileState.WAITING,
    "failed": FileState.FAILED,
    "skipped": FileState.SKIPPED,
    "done": FileState.INDEXED,
}
# A folder is in the state of those of its files that need a look first.
_FIRST_OF_FOLDER = (FileState.FAILED, FileState.WAITING, FileState.INDEXED, FileState.SKIPPED, FileState.GONE)
# So many files that failed are named of a folder.
_NAMED = 100


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is known of a path. `detail` is for people; times are seconds since 1970, None for what was never seen.

    `now_at`: where what a path held is now that it is gone. Of a folder: `files` counts what is below it by state,
    `failed` names what could not be read.
    """

    path: str
    state: FileState
    reason: str | None
    detail: str
    document_id: int | None
    last_seen_at: float | None
    now_at: str | None = None
    files: Mapping[str, int] | None = None
    failed: tuple[str, ...] = field(default=())


def why(connection: Connection, path: str) -> Explanation:
    """Explain a path of a source, or one that was added by hand. Raises NotFound for one that was never seen."""
    row = files.by_path(connection, path)
    if row is not None:
        return _gone(connection, row) if row.state is FileState.GONE else _of_row(row)
    document_id, job = origins.document_of(connection, path), jobs.newest_of_path(connection, path)
    if job is not None and (document_id is None or job.state in ("queued", "processing", "failed")):
        state = _STATE_OF_JOB[job.state]
        reason = Reason(job.reason) if job.reason in list(Reason) else None
        return Explanation(path, state, job.reason, said(state, reason, job.error, path), document_id, job.updated_at)
    if document_id is not None:
        document = documents.by_id(connection, document_id)
        reason = document.reason if document is not None else None
        detail = "It was added by hand; a copy of it is indexed and searchable."
        if _taken_in(connection, path, document_id):
            detail = _TAKEN_IN
        if reason is not None:
            detail = f"It was added by hand; a copy of it is kept. {SENTENCES[reason]}"
        seen_at = None if job is None else job.updated_at
        return Explanation(path, FileState.INDEXED, reason, detail, document_id, seen_at)
    found = _folder(connection, path) or _folder_left_out(connection, path) or _was_here(connection, path)
    if found is not None:
        return found
    raise NotFound(f"{path} was never seen.", hint="Is it in a source? `kbsync sources list` shows them.")


def said(state: FileState, reason: Reason | None, detail: str | None, path: str) -> str:
    """Return the sentence of a state or reason, and what else is known in this case, without saying anything twice."""
    sentence = _STATE_SENTENCES[state] if reason is None else SENTENCES[reason]
    if not detail:
        return sentence
    shown = as_text(path)
    detail = detail.replace(f"{shown}: ", "").replace(shown, "it")
    # Many messages name the file and go on with the reason's own words.
    if detail.lower().startswith(sentence.rstrip(".").lower()):
        return detail[0].upper() + detail[1:]
    return f"{sentence} ({detail})"


def _of_row(row: files.FileRow) -> Explanation:
    hint = conversion_hint(row.path) if row.reason is Reason.UNSUPPORTED else None
    detail = said(row.state, row.reason, row.detail or hint, row.path)
    return Explanation(row.path, row.state, row.reason, detail, row.document_id, row.last_seen_at)


def _gone(connection: Connection, row: files.FileRow) -> Explanation:
    document_id = origins.document_of(connection, row.path)
    if document_id is not None:
        if _taken_in(connection, row.path, document_id):
            return Explanation(row.path, FileState.INDEXED, None, _TAKEN_IN, document_id, row.last_seen_at)
        detail = "It is not there any more; the copy that was added by hand stays searchable."
        return Explanation(row.path, row.state, row.reason, detail, row.document_id, row.last_seen_at)
    found = _was_here(connection, row.path)
    detail, now_at = _STATE_SENTENCES[FileState.GONE], None
    if found is not None and found.now_at is not None:
        detail, now_at = found.detail, found.now_at
    return Explanation(row.path, row.state, row.reason, detail, row.document_id, row.last_seen_at, now_at)


def _taken_in(connection: Connection, path: str, document_id: int) -> bool:
    held = origins.live_of(connection, [document_id])
    return any(origin.kind == "inbox" and origin.path == path for origin in held)


def _was_here(connection: Connection, path: str) -> Explanation | None:
    """Explain a path that held something once, from the origin that ended; None where there was none."""
    ended = ledger.last_origin_of(connection, path)
    if ended is None:
        return None
    paths = origins.live_paths(connection, ended.document_id)
    detail = _STATE_SENTENCES[FileState.GONE]
    if paths:
        detail = f"It is not there any more; what it held is at {as_text(paths[0])} now."
    elif ended.because == "removed":
        detail = "It lies in a folder that is not followed any more; what it held is kept, hidden from search."
    now_at = paths[0] if paths else None
    return Explanation(path, FileState.GONE, None, detail, ended.document_id, ended.until, now_at)


def _folder(connection: Connection, path: str) -> Explanation | None:
    """Sum up a followed folder, or one inside it; None for any other path."""
    inside = path.rstrip(os.sep) + os.sep
    source = next(
        (row for row in sources.listed(connection) if inside.startswith(row.path.rstrip(os.sep) + os.sep)), None
    )
    states = {} if source is None else ledger.states_below(connection, path)
    if source is None or (not states and source.path != path):
        return None
    state = next((one for one in _FIRST_OF_FOLDER if states.get(one)), FileState.WAITING)
    counts = {str(one): states.get(one, 0) for one in FileState}
    told = ", ".join(f"{count} {one}" for one, count in counts.items() if count) or "nothing was seen in it yet"
    detail = f"It is a folder of the source {as_text(source.path)} ({source.state}): {told}."
    if source.path == path:
        detail = f"It is a followed folder ({source.state}): {told}." + (f" {source.detail}" if source.detail else "")
    failed = tuple(found for _, found in ledger.failed_paths(connection, path, _NAMED))
    return Explanation(path, state, None, detail, None, source.last_scan_at, None, counts, failed)


def _folder_left_out(connection: Connection, path: str) -> Explanation | None:
    """Explain a path by the folder above it that is not entered: what is below has no row of its own."""
    above = os.path.dirname(path)
    while above != os.path.dirname(above):
        row = files.by_path(connection, above)
        if row is not None and row.state in (FileState.SKIPPED, FileState.FAILED):
            detail = f"It lies in {as_text(row.path)}: {said(row.state, row.reason, row.detail, row.path)}"
            return Explanation(path, row.state, row.reason, detail, None, row.last_seen_at)
        above = os.path.dirname(above)
    return None
