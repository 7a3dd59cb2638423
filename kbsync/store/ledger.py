"""Sums over the ledger and what hangs on it: files by folder, what failed, what came by hand, what is over its time."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from kbsync.reasons import FileState, Reason

# Origins of what a person brought, and the jobs of that.
_BY_HAND = "('added', 'note', 'upload')"
_HAND_JOBS = "('staged', 'note')"
# Paths that `add` was told to take in and left out are forgotten with their jobs; a known content is no failure.
_OF_JOB = {"queued": "waiting", "processing": "waiting", "failed": "failed", "skipped": "skipped"}


@dataclass(frozen=True, slots=True)
class Failures:
    """How many files of a source could not be read for a reason, and one of them."""

    source_id: int
    reason: Reason | None
    count: int
    first: str


@dataclass(frozen=True, slots=True)
class Leftover:
    """A document that nothing holds any more. `stored_path`: where kbsync's own copy lies; `until` as a time."""

    id: int
    title: str
    state: str
    content_hash: str
    stored_path: str | None
    until: float


@dataclass(frozen=True, slots=True)
class EndedOrigin:
    """What a path held last: the document, and when (in seconds since 1970) and why it ended."""

    document_id: int
    until: float | None
    because: str | None


def last_origin_of(connection: apsw.Connection, path: str) -> EndedOrigin | None:
    """Return what a path held until it held nothing more; None where it never did, or does now."""
    row = connection.execute(
        "SELECT document_id, until, ended_because, live FROM origins WHERE path = ? "
        "ORDER BY live DESC, until DESC, id DESC LIMIT 1",
        (os.fsencode(path),),
    ).fetchone()
    return None if row is None or row[3] else EndedOrigin(int(row[0]), row[1], row[2])


def failures(connection: apsw.Connection) -> list[Failures]:
    """Return the failed files of each source by reason."""
    rows = connection.execute(
        "SELECT source_id, reason, count(*), min(path) FROM files WHERE state = 'failed' "
        "AND source_id IN (SELECT id FROM sources) GROUP BY source_id, reason ORDER BY source_id, reason"
    )
    return [
        Failures(int(source_id), None if reason is None else Reason(reason), int(count), os.fsdecode(path))
        for source_id, reason, count, path in rows
    ]


def failed_paths(connection: apsw.Connection, folder: str | None = None, limit: int = -1) -> list[tuple[int, str]]:
    """Return (source, path) of files that could not be read, below a folder or all; -1: however many."""
    low, high = _below(folder or os.sep)
    rows = connection.execute(
        "SELECT source_id, path FROM files WHERE state = 'failed' AND source_id IN (SELECT id FROM sources) "
        "AND path > ? AND path < ? ORDER BY path LIMIT ?",
        (low, high, limit),
    )
    return [(int(source_id), os.fsdecode(path)) for source_id, path in rows]


def failed_for(connection: apsw.Connection, reasons: Sequence[Reason]) -> list[tuple[int, str]]:
    """Return (source, path) of what failed for these reasons in folders that are read now, those least seen first."""
    rows = connection.execute(
        "SELECT source_id, path FROM files WHERE state = 'failed' AND reason IN (SELECT value FROM json_each(?)) "
        "AND source_id IN (SELECT id FROM sources WHERE state <> 'paused') ORDER BY last_seen_at, path",
        (json.dumps(list(reasons)),),
    )
    return [(int(source_id), os.fsdecode(path)) for source_id, path in rows]


def states_below(connection: apsw.Connection, folder: str) -> dict[FileState, int]:
    """Return how many paths below a folder are in each state. Gone is only what is found nowhere else."""
    rows = connection.execute(
        "SELECT state, count(*) - coalesce(sum(state = 'gone' AND EXISTS (SELECT 1 FROM documents "
        "WHERE id = files.document_id AND documents.state = 'current')), 0) FROM files "
        "WHERE path > ? AND path < ? GROUP BY state",
        _below(folder),
    )
    return {FileState(state): int(count) for state, count in rows}


def held_below(connection: apsw.Connection, folder: str) -> tuple[int, int]:
    """Return how many documents were taken in below a folder, and how many paths held one while it was followed.

    Of the latter those that ended since it is followed no more, and hold nothing now.
    """
    low, high = _below(folder)
    live = _count(connection, "origins WHERE live = 1 AND kind = 'inbox' AND path > ? AND path < ?", low, high)
    ended = _count(
        connection,
        "(SELECT DISTINCT path FROM origins AS ended WHERE live = 0 AND ended_because = 'removed' AND path > ? "
        "AND path < ? AND NOT EXISTS (SELECT 1 FROM origins WHERE path = ended.path AND live = 1))",
        low,
        high,
    )
    return live, ended


def by_hand(connection: apsw.Connection) -> dict[FileState, int]:
    """Return how many files and notes that a person brought are in each state."""
    found = dict.fromkeys((FileState.INDEXED, FileState.WAITING, FileState.SKIPPED, FileState.FAILED), 0)
    found[FileState.INDEXED] = _count(connection, f"origins WHERE live = 1 AND kind IN {_BY_HAND}")
    # Of several tries at one path the last one counts; what is indexed by now counts there.
    rows: Any = connection.execute(
        f"SELECT state, count(*) FROM jobs WHERE kind IN {_HAND_JOBS} AND coalesce(reason, '') <> 'already_indexed' "
        f"AND (state IN ('queued', 'processing') OR (state IN ('failed', 'skipped') AND NOT EXISTS (SELECT 1 FROM jobs "
        f"AS later WHERE later.path = jobs.path AND later.id > jobs.id AND later.kind IN {_HAND_JOBS}))) GROUP BY state"
    )
    for state, count in rows:
        found[FileState(_OF_JOB[state])] += int(count)
    return found


def leftovers(
    connection: apsw.Connection,
    until: float,
    *,
    with_copies: bool,
    only: Sequence[int] | None = None,
    limit: int = -1,
) -> list[Leftover]:
    """Return the superseded and missing documents that nothing holds since that time or longer, oldest first.

    Without `with_copies` only those of which kbsync keeps no copy: such a copy may be the only one. `only`: of these
    ids; -1: however many.
    """
    rows = connection.execute(
        "SELECT id, title, state, content_hash, stored_path, "
        "coalesce((SELECT max(until) FROM origins WHERE document_id = documents.id), updated_at) AS ended "
        "FROM documents WHERE state <> 'current' AND ended <= ?1 AND (?2 OR (stored_path IS NULL AND NOT EXISTS "
        "(SELECT 1 FROM origins WHERE document_id = documents.id AND kind <> 'path'))) "
        "AND (?3 IS NULL OR id IN (SELECT value FROM json_each(?3))) ORDER BY ended, id LIMIT ?4",
        (until, int(with_copies), None if only is None else json.dumps(list(only)), limit),
    )
    return [Leftover(*row) for row in rows]


def forget_gone(connection: apsw.Connection, before: float) -> int:
    """Delete the rows of paths that are gone since before a time; return how many.

    What a person took out of the index is remembered: its file may come back.
    """
    connection.execute(
        "DELETE FROM files WHERE state = 'gone' AND last_seen_at < ? AND removed_hash IS NULL", (before,)
    )
    return int(connection.changes())


def forget_options(connection: apsw.Connection, document_ids: Sequence[int]) -> None:
    """Take out what was set by hand for these documents, a title perhaps, of jobs that have ended."""
    connection.execute(
        "UPDATE jobs SET options = '{}' WHERE document_id IN (SELECT value FROM json_each(?)) "
        "AND state IN ('done', 'failed', 'skipped')",
        (json.dumps(list(document_ids)),),
    )


def taken_in(connection: apsw.Connection) -> int:
    """Return how many files were taken in from inboxes and are kept."""
    return _count(connection, "origins WHERE live = 1 AND kind = 'inbox'")


def _below(folder: str) -> tuple[bytes, bytes]:
    """Return the bounds (both excluded) of the paths below a folder: `0` follows the separator."""
    raw = os.fsencode(folder).rstrip(b"/")
    return raw + b"/", raw + b"0"


def _count(connection: apsw.Connection, what: str, *bindings: bytes) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {what}", bindings).get)
