"""The table `files`, the ledger: every path seen in a source, the version last looked at and what became of it."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apsw

from kbsync.filesystem import Stat
from kbsync.model import KnownFile
from kbsync.reasons import FileState, Reason

# Looking an enum's member up in a dictionary is much faster than calling the enum; a rescan does it for every file.
_STATES: dict[str, FileState] = {state.value: state for state in FileState}
_REASONS: dict[str | None, Reason | None] = {None: None, **{reason.value: reason for reason in Reason}}
# What `known_file` reads.
KNOWN = "size, mtime_ns, ctime_ns, inode, device, state, reason, rules, hash_due"
_HELD = "source_id, path, size, mtime_ns, ctime_ns, inode, device, content_hash, document_id"


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
        f"SELECT path, {KNOWN} FROM files WHERE source_id = ? AND state <> 'gone'",
        (source_id,),
    )
    found = ((os.fsdecode(row[0]), row[1:]) for row in rows)
    return {path: known_file(path, row) for path, row in found}


def known(connection: apsw.Connection, source_id: int, path: str) -> KnownFile | None:
    """Return what is known of one path, None where it was never seen or is gone."""
    row = connection.execute(
        f"SELECT {KNOWN} FROM files WHERE source_id = ? AND path = ? AND state <> 'gone'",
        (source_id, os.fsencode(path)),
    ).fetchone()
    return None if row is None else known_file(path, row)


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
    hash_due: bool = False,
) -> None:
    """Write what became of a path. A path that waits keeps the document of its last version until that is replaced."""
    raw = os.fsencode(path)
    connection.execute(
        """
        INSERT INTO files (source_id, path, path_nfc, size, mtime_ns, ctime_ns, inode, device, content_hash,
                           document_id, state, reason, detail, rules, last_seen_at, hash_due)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
        ON CONFLICT (source_id, path) DO UPDATE SET
            size = excluded.size, mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns, inode = excluded.inode,
            device = excluded.device, state = excluded.state, reason = excluded.reason, detail = excluded.detail,
            rules = excluded.rules, last_seen_at = excluded.last_seen_at, hash_due = excluded.hash_due,
            content_hash = CASE WHEN excluded.state = 'waiting' AND state <> 'gone' THEN content_hash
                                ELSE excluded.content_hash END,
            document_id = CASE WHEN excluded.state = 'waiting' AND state <> 'gone' THEN document_id
                               ELSE excluded.document_id END
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
            int(hash_due),
        ),
    )


def indexed_with(connection: apsw.Connection, inodes: Iterable[int]) -> list[tuple[int, str, Stat, str, int]]:
    """Return (source, path, stat, content hash, document) of the indexed paths of any source with these inodes."""
    rows = connection.execute(
        f"SELECT {_HELD} FROM files INDEXED BY files_indexed_inode WHERE state = 'indexed' "
        "AND inode IN (SELECT value FROM json_each(?)) AND content_hash IS NOT NULL AND document_id IS NOT NULL "
        "ORDER BY path",
        (json.dumps(list(set(inodes))),),
    )
    return [_held(row) for row in rows]


def indexed_at(
    connection: apsw.Connection, source_id: int, paths: Iterable[str]
) -> list[tuple[int, str, Stat, str, int]]:
    """Return (source, path, stat, content hash, document) of those of a source's paths that hold something.

    One that waits to be read again still holds its last version: of that the size is told, and no inode.
    """
    found = []
    for path in paths:
        row = connection.execute(
            """
            SELECT source_id, path, CASE files.state WHEN 'indexed' THEN size ELSE size_bytes END, mtime_ns, ctime_ns,
                   CASE files.state WHEN 'indexed' THEN inode ELSE 0 END, device, documents.content_hash, document_id
            FROM files JOIN documents ON documents.id = document_id
            WHERE source_id = ? AND path = ? AND files.state IN ('indexed', 'waiting') AND size IS NOT NULL
            """,
            (source_id, os.fsencode(path)),
        ).fetchone()
        if row is not None:
            found.append(_held(row))
    return found


def waiting_of_size(connection: apsw.Connection, sizes: Iterable[int]) -> list[tuple[int, str, Stat, str]]:
    """Return (source, path, stat, rules) of the paths that wait to be read, hold nothing yet and have these sizes.

    Those of paused sources are left out: nothing is read there.
    """
    rows = connection.execute(
        "SELECT source_id, path, size, mtime_ns, ctime_ns, inode, device, rules FROM files "
        "INDEXED BY files_waiting_size WHERE state = 'waiting' AND size IN (SELECT value FROM json_each(?)) "
        "AND document_id IS NULL AND source_id NOT IN (SELECT id FROM sources WHERE state = 'paused') ORDER BY path",
        (json.dumps(list(sizes)),),
    )
    return [(row[0], os.fsdecode(row[1]), Stat("file", *row[2:7]), row[7]) for row in rows]


def any_waiting(connection: apsw.Connection) -> bool:
    """Return whether any path waits to be read."""
    return bool(connection.execute("SELECT EXISTS (SELECT 1 FROM files WHERE state = 'waiting' AND size >= 0)").get)


def lost_since(connection: apsw.Connection, source_id: int, since: float, now: float) -> int:
    """Return how many paths of a source went since a time, and held what is found nowhere now.

    What went after `now` went while the clock was ahead: when, nobody knows.
    """
    return int(
        connection.execute(
            "SELECT count(*) FROM files JOIN documents ON documents.id = files.document_id WHERE source_id = ? "
            "AND files.state = 'gone' AND last_seen_at > ? AND last_seen_at <= ? AND documents.state <> 'current'",
            (source_id, since, now),
        ).get
    )


@dataclass(frozen=True, slots=True)
class HashedFile:
    """An indexed path with the version that was read and its SHA-256 (hex). `id` is its row."""

    id: int
    source_id: int
    path: str
    stat: Stat
    content_hash: str


def hashed_count(connection: apsw.Connection) -> int:
    """Return how many paths are indexed."""
    return int(connection.execute("SELECT count(*) FROM files WHERE state = 'indexed'").get)


def hashed_after(connection: apsw.Connection, row: int, limit: int) -> list[HashedFile]:
    """Return the indexed paths whose rows follow one, at most `limit`, in the order of their rows."""
    rows = connection.execute(
        "SELECT id, source_id, path, size, mtime_ns, ctime_ns, inode, device, content_hash FROM files "
        "WHERE id > ? AND state = 'indexed' AND content_hash IS NOT NULL AND size IS NOT NULL ORDER BY id LIMIT ?",
        (row, limit),
    )
    return [
        HashedFile(number, source_id, os.fsdecode(path), Stat("file", *stat), content_hash)
        for number, source_id, path, *stat, content_hash in rows
    ]


def set_reason(connection: apsw.Connection, source_id: int, path: str, reason: Reason, detail: str | None) -> None:
    """Say what a waiting path waits for; any other state is left alone."""
    connection.execute(
        "UPDATE files SET reason = ?, detail = ? WHERE source_id = ? AND path = ? AND state = 'waiting'",
        (reason, detail, source_id, os.fsencode(path)),
    )


def set_rules(connection: apsw.Connection, source_id: int, path: str, rules: str) -> None:
    """Write by which rules a path was judged last, nothing else of it having changed."""
    connection.execute(
        "UPDATE files SET rules = ? WHERE source_id = ? AND path = ?", (rules, source_id, os.fsencode(path))
    )


def set_hash_due(connection: apsw.Connection, source_id: int, path: str) -> None:
    """Have an indexed path read once more when it is next seen; any other state is left alone."""
    connection.execute(
        "UPDATE files SET hash_due = 1 WHERE source_id = ? AND path = ? AND state = 'indexed'",
        (source_id, os.fsencode(path)),
    )


def mark_gone(connection: apsw.Connection, source_id: int, paths: Iterable[str], now: float) -> None:
    """Write that paths are no longer there."""
    connection.executemany(
        "UPDATE files SET state = 'gone', reason = NULL, detail = NULL, last_seen_at = ? "
        "WHERE source_id = ? AND path = ?",
        ((now, source_id, os.fsencode(path)) for path in paths),
    )


def set_removed(connection: apsw.Connection, source_id: int, path: str, content_hash: str) -> None:
    """Remember the bytes that a person took out of the index at a path, whatever becomes of the path."""
    connection.execute(
        "UPDATE files SET removed_hash = ? WHERE source_id = ? AND path = ?",
        (content_hash, source_id, os.fsencode(path)),
    )


def is_removed(connection: apsw.Connection, content_hash: str) -> bool:
    """Return whether a person took these bytes out of the index, at whatever path they were then."""
    return connection.execute("SELECT 1 FROM files WHERE removed_hash = ? LIMIT 1", (content_hash,)).get is not None


def take_back(connection: apsw.Connection, content_hash: str) -> list[tuple[int, str]]:
    """A person brought bytes again that had been taken out: they are followed like any others.

    Return (source, path) of where they had been.
    """
    rows: list[Any] = connection.execute(
        "UPDATE files SET removed_hash = NULL WHERE removed_hash = ? RETURNING source_id, path", (content_hash,)
    ).fetchall()
    return [(int(source_id), os.fsdecode(path)) for source_id, path in rows]


def delete_of_source(connection: apsw.Connection, source_id: int) -> int:
    """Forget the paths of a source that was taken out of the configuration; return how many stay.

    What a person removed by hand stays removed, should the source come back.
    """
    connection.execute(
        "DELETE FROM files WHERE source_id = ? AND reason IS NOT 'removed_by_you' AND removed_hash IS NULL",
        (source_id,),
    )
    # A path that holds something else since is read like a new one, should its folder come back.
    connection.execute(
        "UPDATE files SET state = 'gone', reason = NULL, detail = NULL, document_id = NULL "
        "WHERE source_id = ? AND reason IS NOT 'removed_by_you'",
        (source_id,),
    )
    return int(connection.execute("SELECT count(*) FROM files WHERE source_id = ?", (source_id,)).get)


def counts(connection: apsw.Connection) -> dict[int, dict[str, int]]:
    """Return for each source how many paths are in each state. Gone is only what is found nowhere else.

    What moved, or was taken in from an inbox, is counted where it is now.
    """
    found: dict[int, dict[str, int]] = {}
    for source_id, state, count in connection.execute("SELECT source_id, state, count(*) FROM files GROUP BY 1, 2"):
        found.setdefault(int(source_id), {})[str(state)] = int(count)
    elsewhere = connection.execute(
        "SELECT source_id, count(*) FROM files JOIN documents ON documents.id = files.document_id "
        "WHERE files.state = 'gone' AND documents.state = 'current' GROUP BY 1"
    )
    for source_id, count in elsewhere:
        found[int(source_id)]["gone"] -= int(count)
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


def _held(row: tuple[Any, ...]) -> tuple[int, str, Stat, str, int]:
    source_id, path, size, mtime_ns, ctime_ns, inode, device, content_hash, document_id = row
    return (
        int(source_id),
        os.fsdecode(path),
        Stat("file", size, mtime_ns, ctime_ns, inode, device),
        content_hash,
        int(document_id),
    )


def known_file(path: str, row: tuple[Any, ...]) -> KnownFile:
    """Return a row with the columns `KNOWN` as what is known of a path."""
    size, mtime_ns, ctime_ns, inode, device, state, reason, rules, hash_due = row
    stat = None if size is None else Stat("file", size, mtime_ns, ctime_ns, inode, device)
    return KnownFile(path, stat, _STATES[state], _REASONS[reason], rules, hash_due == 1)
