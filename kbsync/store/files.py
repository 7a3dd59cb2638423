"""The table `files`, the ledger: every path seen in a source, the version last looked at and what became of it."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

import apsw

from kbsync.filesystem import Stat
from kbsync.model import KnownFile
from kbsync.reasons import FileState, Reason

# Looking an enum's member up in a dictionary is much faster than calling the enum; a rescan does it for every file.
_STATES: dict[str, FileState] = {state.value: state for state in FileState}
_REASONS: dict[str | None, Reason | None] = {None: None, **{reason.value: reason for reason in Reason}}


@dataclass(frozen=True, slots=True)
class FileRow:
    """What the ledger says of one path."""

    source_id: int
    path: str
    state: FileState
    reason: Reason | None
    detail: str | None
    document_id: int | None
    last_seen_at: float


def known_of_source(connection: apsw.Connection, source_id: int) -> dict[str, KnownFile]:
    """Return every path of a source that is not gone."""
    rows = connection.execute(
        "SELECT path, size, mtime_ns, ctime_ns, inode, device, state, reason, rules FROM files "
        "WHERE source_id = ? AND state <> 'gone'",
        (source_id,),
    )
    return {known.path: known for known in map(_known, rows)}


def known(connection: apsw.Connection, source_id: int, path: str) -> KnownFile | None:
    """Return what is known of one path, None where it was never seen or is gone."""
    row = connection.execute(
        "SELECT path, size, mtime_ns, ctime_ns, inode, device, state, reason, rules FROM files "
        "WHERE source_id = ? AND path = ? AND state <> 'gone'",
        (source_id, os.fsencode(path)),
    ).fetchone()
    return None if row is None else _known(row)


def account(
    connection: apsw.Connection,
    source_id: int,
    path: str,
    stat: Stat | None,
    state: FileState,
    reason: Reason | None,
    rules: str,
    now: float,
    *,
    detail: str | None = None,
    content_hash: str | None = None,
    document_id: int | None = None,
) -> None:
    """Write what became of a path. A path that waits keeps the document of its last version until that is replaced."""
    raw = os.fsencode(path)
    connection.execute(
        """
        INSERT INTO files (source_id, path, path_nfc, size, mtime_ns, ctime_ns, inode, device, content_hash,
                           document_id, state, reason, detail, rules, last_seen_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
        ON CONFLICT (source_id, path) DO UPDATE SET
            size = excluded.size, mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns, inode = excluded.inode,
            device = excluded.device, state = excluded.state, reason = excluded.reason, detail = excluded.detail,
            rules = excluded.rules, last_seen_at = excluded.last_seen_at,
            content_hash = CASE excluded.state WHEN 'waiting' THEN content_hash ELSE excluded.content_hash END,
            document_id = CASE excluded.state WHEN 'waiting' THEN document_id ELSE excluded.document_id END
        """,
        (
            source_id,
            raw,
            unicodedata.normalize("NFC", raw.decode("utf-8", "replace")),
            stat and stat.size,
            stat and stat.mtime_ns,
            stat and stat.ctime_ns,
            stat and stat.inode,
            stat and stat.device,
            content_hash,
            document_id,
            state,
            reason,
            detail,
            rules,
            now,
        ),
    )


def set_reason(connection: apsw.Connection, source_id: int, path: str, reason: Reason, detail: str | None) -> None:
    """Say what a waiting path waits for; any other state is left alone."""
    connection.execute(
        "UPDATE files SET reason = ?, detail = ? WHERE source_id = ? AND path = ? AND state = 'waiting'",
        (reason, detail, source_id, os.fsencode(path)),
    )


def mark_gone(connection: apsw.Connection, source_id: int, paths: Iterable[str], now: float) -> None:
    """Write that paths are no longer there."""
    connection.executemany(
        "UPDATE files SET state = 'gone', reason = NULL, detail = NULL, last_seen_at = ? "
        "WHERE source_id = ? AND path = ?",
        ((now, source_id, os.fsencode(path)) for path in paths),
    )


def delete_of_source(connection: apsw.Connection, source_id: int) -> int:
    """Forget the paths of a source that was taken out of the configuration; return how many stay.

    What a person removed by hand stays removed, should the source come back.
    """
    connection.execute(
        "DELETE FROM files WHERE source_id = ? AND NOT (state = 'skipped' AND reason = 'removed_by_you')", (source_id,)
    )
    return int(connection.execute("SELECT count(*) FROM files WHERE source_id = ?", (source_id,)).get)


def counts(connection: apsw.Connection) -> dict[int, dict[str, int]]:
    """Return for each source how many paths are in each state."""
    found: dict[int, dict[str, int]] = {}
    for source_id, state, count in connection.execute("SELECT source_id, state, count(*) FROM files GROUP BY 1, 2"):
        found.setdefault(int(source_id), {})[str(state)] = int(count)
    return found


def reason_counts(connection: apsw.Connection) -> dict[str, int]:
    """Return how many paths there are for each reason of skipped and failed ones, and of indexed ones that have one."""
    rows = connection.execute(
        "SELECT reason, count(*) FROM files WHERE state IN ('indexed', 'skipped', 'failed') AND reason IS NOT NULL "
        "GROUP BY reason ORDER BY reason"
    )
    return {str(reason): int(count) for reason, count in rows}


def by_path(connection: apsw.Connection, path: str) -> FileRow | None:
    """Return the ledger's row of a path; a name typed in another Unicode form is found too."""
    columns = "source_id, path, state, reason, detail, document_id, last_seen_at"
    raw_path = os.fsencode(path)
    # Of two rows (two sources at different times, two spellings) the one that is there counts.
    order = "ORDER BY state = 'gone', last_seen_at DESC LIMIT 1"
    row = connection.execute(f"SELECT {columns} FROM files WHERE path = ? {order}", (raw_path,)).fetchone()
    if row is None:
        nfc = unicodedata.normalize("NFC", raw_path.decode("utf-8", "replace"))
        row = connection.execute(f"SELECT {columns} FROM files WHERE path_nfc = ? {order}", (nfc,)).fetchone()
    if row is None:
        return None
    source_id, raw, state, reason, detail, document_id, last_seen_at = row
    return FileRow(
        source_id,
        os.fsdecode(raw),
        FileState(state),
        None if reason is None else Reason(reason),
        detail,
        document_id,
        last_seen_at,
    )


def _known(row: tuple[object, ...]) -> KnownFile:
    path, size, mtime_ns, ctime_ns, inode, device, state, reason, rules = row
    stat = None
    if size is not None:
        stat = Stat("file", size, mtime_ns, ctime_ns, inode, device)  # type: ignore[arg-type]  # STRICT columns
    return KnownFile(
        os.fsdecode(path),  # type: ignore[arg-type]  # a BLOB
        stat,
        _STATES[state],  # type: ignore[index]  # TEXT
        _REASONS[reason],  # type: ignore[index]  # TEXT or NULL
        rules,  # type: ignore[arg-type]  # TEXT
    )
