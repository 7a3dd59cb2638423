"""The table `sources`: how each configured folder is doing. Which there are, config.toml says."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

import apsw

from kbsync.model import Held, RootIdentity

# The reason of a folder that is configured no more, but whose exclusions are kept.
TAKEN_OUT = "taken_out"
# The reason of a folder that a person paused.
BY_YOU = "by_you"


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
    # Since when it is in this state for this reason, and since when a person has it paused.
    since: float | None = None
    paused_at: float | None = None
    identity: RootIdentity | None = None
    held: Held | None = None
    # That many missing files a person said yes to.
    confirmed: int | None = None
    # Files gone before this time count no more when the brake looks at the last hour.
    counted_from: float = 0.0


_COLUMNS = (
    "id, path, state, reason, detail, last_scan_at, last_scan_seconds, files_seen, since, paused_at, identity, held, "
    "confirmed, counted_from"
)


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
    rows = connection.execute(f"SELECT {_COLUMNS} FROM sources WHERE reason IS NOT ? ORDER BY path", (TAKEN_OUT,))
    return [_row(row) for row in rows]


def by_id(connection: apsw.Connection, source_id: int) -> SourceRow | None:
    """Return a folder, None where it is not configured (any more)."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM sources WHERE id = ? AND reason IS NOT ?", (source_id, TAKEN_OUT)
    ).fetchone()
    return None if row is None else _row(row)


def paused(connection: apsw.Connection) -> dict[int, str | None]:
    """Return the folders of which nothing is read now, each with the reason."""
    return dict(connection.execute("SELECT id, reason FROM sources WHERE state = 'paused'"))


def all_walked(connection: apsw.Connection) -> bool:
    """Return whether every folder has been walked to its end once."""
    return not connection.execute(
        "SELECT EXISTS (SELECT 1 FROM sources WHERE reason IS NOT ? AND last_scan_at IS NULL)", (TAKEN_OUT,)
    ).get


def exists(connection: apsw.Connection, source_id: int) -> bool:
    """Return whether a folder is (still) configured."""
    return bool(
        connection.execute("SELECT 1 FROM sources WHERE id = ? AND reason IS NOT ?", (source_id, TAKEN_OUT)).get
    )


def take_out(connection: apsw.Connection, source_id: int) -> None:
    """Keep the row of a folder that is configured no more, for what hangs on it; it is listed no more."""
    connection.execute(
        "UPDATE sources SET state = 'paused', reason = ?, paused_at = NULL, identity = NULL, held = NULL, "
        "confirmed = NULL WHERE id = ?",
        (TAKEN_OUT, source_id),
    )


def set_state(
    connection: apsw.Connection,
    source_id: int,
    state: str,
    reason: str | None = None,
    detail: str | None = None,
    *,
    now: float | None = None,
) -> None:
    """Say how a folder is doing; `since` follows where state or reason are others. A person's pause is not undone."""
    connection.execute(
        "UPDATE sources SET since = CASE WHEN state = ?1 AND reason IS ?2 THEN since ELSE ?5 END, "
        "state = ?1, reason = ?2, detail = ?3 WHERE id = ?4 AND reason IS NOT ?6 AND paused_at IS NULL",
        (state, reason, detail, source_id, now, TAKEN_OUT),
    )


def pause(connection: apsw.Connection, source_id: int, now: float) -> None:
    """Write that a person paused a folder."""
    connection.execute(
        "UPDATE sources SET state = 'paused', reason = ?1, detail = NULL, since = ?2, paused_at = ?2 WHERE id = ?3",
        (BY_YOU, now, source_id),
    )


def resume(connection: apsw.Connection, source_id: int, now: float) -> None:
    """Undo a person's pause; the walk that follows says how the folder is doing."""
    connection.execute(
        "UPDATE sources SET state = 'watching', reason = NULL, detail = NULL, since = ?, paused_at = NULL WHERE id = ?",
        (now, source_id),
    )


def set_identity(connection: apsw.Connection, source_id: int, identity: RootIdentity | None) -> None:
    """Remember which folder it is. Where its disk has another number now, the files on that disk get it too."""
    row = by_id(connection, source_id)
    if identity is not None and row is not None and row.identity is not None:
        before, device = row.identity.device, identity.device
        if before != device:
            connection.execute(
                "UPDATE files SET device = ? WHERE source_id = ? AND device = ?", (device, source_id, before)
            )
    connection.execute("UPDATE sources SET identity = ? WHERE id = ?", (_written(identity), source_id))


def set_held(connection: apsw.Connection, source_id: int, held: Held | None) -> None:
    """Remember what the brake holds; None: nothing."""
    connection.execute("UPDATE sources SET held = ? WHERE id = ?", (_written(held), source_id))


def confirm(connection: apsw.Connection, source_id: int, missing: int) -> None:
    """Write that a person said yes to so many missing files."""
    connection.execute("UPDATE sources SET confirmed = ? WHERE id = ?", (missing, source_id))


def end_hold(connection: apsw.Connection, source_id: int, counted_from: float | None = None) -> None:
    """Forget what was held and what a person said to it. `counted_from`: what went until then counts no more."""
    connection.execute(
        "UPDATE sources SET held = NULL, confirmed = NULL, counted_from = coalesce(?, counted_from) WHERE id = ?",
        (counted_from, source_id),
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


def _written(value: RootIdentity | Held | None) -> str | None:
    # Names that are no UTF-8 are escaped, so this is text.
    return None if value is None else json.dumps(asdict(value))


def identity_of(written: str) -> RootIdentity:
    """Return what the column `identity` says. Raises ValueError, TypeError and KeyError for what is none."""
    read = json.loads(written)
    return RootIdentity(**{**read, "names": tuple(read["names"]), "mounts": tuple(read["mounts"])})


def _row(row: tuple[object, ...]) -> SourceRow:
    values = list(row)
    values[1] = os.fsdecode(values[1])  # type: ignore[arg-type]  # a BLOB
    if values[10] is not None:
        values[10] = identity_of(values[10])  # type: ignore[arg-type]  # TEXT
    if values[11] is not None:
        values[11] = Held(**json.loads(values[11]))  # type: ignore[arg-type]  # TEXT
    return SourceRow(*values)  # type: ignore[arg-type]  # the columns are in the order of the fields; STRICT checks types
