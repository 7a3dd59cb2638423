"""Says why a path is in its state, in a sentence: from the ledger, the queue and the origins.

What was never seen is explained by a look at it now, in `unseen`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kbsync.errors import NotFound
from kbsync.file_types import conversion_hint
from kbsync.filesystem import as_text
from kbsync.reasons import SENTENCES, FileState, Reason
from kbsync.store import documents, events, files, jobs, ledger, origins, sources
from kbsync.store.connection import Connection

_STATE_SENTENCES = {
    FileState.INDEXED: "It is indexed and searchable.",
    FileState.WAITING: "It waits to be read.",
    FileState.SKIPPED: "It was left out.",
    FileState.FAILED: "It could not be read.",
    FileState.GONE: "It is not there any more.",
}
_TAKEN_IN = "It was taken in from an inbox; its copy is indexed and searchable."
# What is said of a folder without files, before it was ever looked through and after that.
_NOTHING = ("nothing was seen in it yet", "nothing is in it")
_STATE_OF_JOB = {
    "queued": FileState.WAITING,
    "processing": FileState.WAITING,
    "failed": FileState.FAILED,
    "skipped": FileState.SKIPPED,
    "done": FileState.INDEXED,
}
# So many of a path's newest events are looked at for the one that says what became of it.
_EVENTS = 10
_DAY_S = 86400.0
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


def why(connection: Connection, path: str, keep_days: float | None = None) -> Explanation:
    """Explain a path of a source, or one that was added by hand. Raises NotFound for one that was never seen.

    `keep_days`: for how long what is gone is kept; None: for ever.
    """
    row = files.by_path(connection, path)
    if row is not None:
        return _gone(connection, row, keep_days) if row.state is FileState.GONE else _of_row(connection, row)
    document_id, job = origins.document_of(connection, path), jobs.newest_of_path(connection, path)
    if document_id is None and (removed := _removed(connection, path, job)) is not None:
        return removed
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
    found = (
        _folder(connection, path)
        or _folder_left_out(connection, path)
        or _was_here(connection, path, keep_days)
        or _folder_before(connection, path)
    )
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


def held_up(connection: Connection, path: str) -> str | None:
    """Say that the source of a path is not followed as it should be, and why; None where it is, or is in none."""
    source = _source_of(connection, path)
    if source is None or source.state not in ("paused", "held"):
        return None
    shown = as_text(source.path)
    if source.paused_at is not None:
        return f"Its folder {shown} is paused by you: not looked at until `kbsync sources resume {shlex.quote(shown)}`."
    what = "is held" if source.state == "held" else "is not looked at now"
    return f"Its folder {what}: {source.detail or shown}"


def _of_row(connection: Connection, row: files.FileRow) -> Explanation:
    hint = conversion_hint(row.path) if row.reason is Reason.UNSUPPORTED else None
    detail = said(row.state, row.reason, row.detail or hint, row.path)
    if (more := held_up(connection, row.path)) is not None:
        detail = f"{detail} {more}"
    return Explanation(row.path, row.state, row.reason, detail, row.document_id, row.last_seen_at)


def _gone(connection: Connection, row: files.FileRow, keep_days: float | None) -> Explanation:
    document_id = origins.document_of(connection, row.path)
    if document_id is not None:
        if _taken_in(connection, row.path, document_id):
            return Explanation(row.path, FileState.INDEXED, None, _TAKEN_IN, document_id, row.last_seen_at)
        detail = "It is not there any more; the copy that was added by hand stays searchable."
        return Explanation(row.path, row.state, row.reason, detail, row.document_id, row.last_seen_at)
    found = _was_here(connection, row.path, keep_days)
    if found is not None:
        detail, now_at = found.detail, found.now_at
        return Explanation(row.path, row.state, row.reason, detail, row.document_id, row.last_seen_at, now_at)
    detail, reason = "It is not there any more, and nothing of what it held is kept.", row.reason
    if (event := _removal(connection, row.path)) is not None:
        detail, reason = f"{detail} You removed that on {_day(event.at)}.", Reason.REMOVED_BY_YOU
    return Explanation(row.path, row.state, reason, detail, row.document_id, row.last_seen_at)


def _removed(connection: Connection, path: str, job: jobs.JobRow | None) -> Explanation | None:
    """Explain a path whose document a person took out after its last job, if that is so: it was added by hand."""
    event = _removal(connection, path)
    if event is not None and (job is None or job.updated_at <= event.at):
        when, at = f" on {_day(event.at)}", event.at
    elif job is not None and job.state == "done":
        when, at = "", job.updated_at  # longer ago than the history goes back
    else:
        return None
    detail = f"It was added by hand, and removed by you{when}; `kbsync add` with the file brings it back."
    return Explanation(path, FileState.SKIPPED, Reason.REMOVED_BY_YOU, detail, None, at)


def _removal(connection: Connection, path: str) -> events.Event | None:
    """Return the event that a person removed what a path held, where it held nothing since."""
    found, _ = events.listed(connection, [path], _EVENTS)
    newest = next((event for event in found if event.path == path and event.kind != "gone"), None)
    return newest if newest is not None and newest.kind == "removed" else None


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def _taken_in(connection: Connection, path: str, document_id: int) -> bool:
    held = origins.live_of(connection, [document_id])
    return any(origin.kind == "inbox" and origin.path == path for origin in held)


def _was_here(connection: Connection, path: str, keep_days: float | None) -> Explanation | None:
    """Explain a path that held something once, from the origin that ended; None where there was none."""
    ended = ledger.last_origin_of(connection, path)
    if ended is None:
        return None
    paths = origins.live_paths(connection, ended.document_id)
    if paths:
        detail = f"It is not there any more; what it held is at {as_text(paths[0])} now."
    elif ended.because == "removed":
        kept = _kept(connection, ended.document_id, keep_days)
        detail = f"It lies in a folder that is not followed any more. {kept}"
    else:
        detail = f"{_STATE_SENTENCES[FileState.GONE]} {_kept(connection, ended.document_id, keep_days)}"
    now_at = paths[0] if paths else None
    return Explanation(path, FileState.GONE, None, detail, ended.document_id, ended.until, now_at)


def _kept(connection: Connection, document_id: int, keep_days: float | None) -> str:
    """Say for how long the text of a document is kept that no path holds, and how it is found."""
    document = documents.by_id(connection, document_id)
    if document is not None and document.state == "current":
        return "What it held stays searchable: you added it by hand too."
    # What has a copy of kbsync's own goes by no clock.
    over = ledger.leftovers(connection, float("inf"), with_copies=False, only=[document_id])
    until = "" if keep_days is None or not over else f" until {_day(over[0].until + keep_days * _DAY_S)}"
    return f"Its text is kept{until} and found with `kbsync search --all-versions`."


def _source_of(connection: Connection, path: str) -> sources.SourceRow | None:
    inside = path.rstrip(os.sep) + os.sep
    return next(
        (row for row in sources.listed(connection) if inside.startswith(row.path.rstrip(os.sep) + os.sep)), None
    )


def _folder(connection: Connection, path: str) -> Explanation | None:
    """Sum up a followed folder, or one inside it; None for any other path."""
    source = _source_of(connection, path)
    states = {} if source is None else ledger.states_below(connection, path)
    if source is None or (not states and source.path != path):
        return None
    state = next((one for one in _FIRST_OF_FOLDER if states.get(one)), FileState.GONE if states else FileState.WAITING)
    counts = {str(one): states.get(one, 0) for one in FileState}
    told = (
        ", ".join(f"{count} {one}" for one, count in counts.items() if count)
        or _NOTHING[source.last_scan_at is not None]
    )
    detail = f"It is a folder of the source {as_text(source.path)} ({source.state}): {told}."
    if source.path == path:
        detail = f"It is a followed folder ({source.state}): {told}." + (f" {source.detail}" if source.detail else "")
    failed = tuple(found for _, found in ledger.failed_paths(connection, path, _NAMED))
    return Explanation(path, state, None, detail, None, source.last_scan_at, None, counts, failed)


def _folder_before(connection: Connection, path: str) -> Explanation | None:
    """Explain a folder that is followed no more: what was taken in from it, and what was read there."""
    taken_in, hidden = ledger.held_below(connection, path)
    if not taken_in and not hidden:
        return None
    parts = ["It is a folder that is not followed any more."]
    if taken_in:
        parts.append(f"What was taken in from it ({taken_in}) stays searchable.")
    if hidden:
        parts.append(f"What was read in it ({hidden}) is kept for a while, hidden from search.")
    parts.append(f"`kbsync sources add {shlex.quote(as_text(path))}` follows it.")
    return Explanation(path, FileState.SKIPPED, None, " ".join(parts), None, None, None, {})


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
