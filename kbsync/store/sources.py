"""The table `sources`: how each configured folder is doing. Which there are, config.toml says."""

from __future__ import annotations

import os
from dataclasses import dataclass

import apsw

# The reason of a folder that is configured no more, but whose exclusions are kept.
TAKEN_OUT = "taken_out"


@dataclass(frozen=True, slots=True)
class SourceRow:
    """The state of one folder. Times are seconds since 1970."""

    id: int
    path: str
    state: str
    reason: str | None
    detail: str | None
    last_scan_at: float | None
    last_scan_seconds: float | None
    files_seen: int


def ensure(connection: apsw.Connection, path: str, now: float) -> int:
    """Return the row id of a configured folder, inserted where it is new, revived where it was taken out."""
    raw = os.fsencode(path)
    connection.execute("INSERT INTO sources (path, added_at) VALUES (?, ?) ON CONFLICT (path) DO NOTHING", (raw, now))
    connection.execute(
        "UPDATE sources SET state = 'watching', reason = NULL, detail = NULL WHERE path = ? AND reason = ?",
        (raw, TAKEN_OUT),
    )
    return int(connection.execute("SELECT id FROM sources WHERE path = ?", (raw,)).get)


def listed(connection: apsw.Connection) -> list[SourceRow]:
    """Return every folder, by path."""
    rows = connection.execute(
        "SELECT id, path, state, reason, detail, last_scan_at, last_scan_seconds, files_seen FROM sources "
        "WHERE reason IS NOT ? ORDER BY path",
        (TAKEN_OUT,),
    )
    return [SourceRow(row[0], os.fsdecode(row[1]), *row[2:]) for row in rows]


def exists(connection: apsw.Connection, source_id: int) -> bool:
    """Return whether a folder is (still) configured."""
    return bool(
        connection.execute("SELECT 1 FROM sources WHERE id = ? AND reason IS NOT ?", (source_id, TAKEN_OUT)).get
    )


def take_out(connection: apsw.Connection, source_id: int) -> None:
    """Keep the row of a folder that is configured no more, for what hangs on it; it is listed no more."""
    connection.execute("UPDATE sources SET state = 'paused', reason = ? WHERE id = ?", (TAKEN_OUT, source_id))


def set_state(
    connection: apsw.Connection, source_id: int, state: str, reason: str | None = None, detail: str | None = None
) -> None:
    """Say how a folder is doing."""
    connection.execute(
        "UPDATE sources SET state = ?, reason = ?, detail = ? WHERE id = ? AND reason IS NOT ?",
        (state, reason, detail, source_id, TAKEN_OUT),
    )


def set_scan(connection: apsw.Connection, source_id: int, begun_at: float, seconds: float, files_seen: int) -> None:
    """Record a complete walk."""
    connection.execute(
        "UPDATE sources SET last_scan_at = ?, last_scan_seconds = ?, files_seen = ? WHERE id = ?",
        (begun_at, seconds, files_seen, source_id),
    )


def delete(connection: apsw.Connection, source_id: int) -> None:
    """Delete a folder's row. Its files, jobs and origins must be dealt with already."""
    connection.execute("DELETE FROM sources WHERE id = ?", (source_id,))
