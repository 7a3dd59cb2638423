"""The table `events`: a short history of what happened to paths and documents."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apsw

# Older events go once there are this many.
KEPT = 20_000


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. `path` of a source itself where no file is meant; `at` in seconds since 1970."""

    id: int
    at: float
    kind: str
    source: str | None
    path: str | None
    document_id: int | None
    detail: str | None


def record(
    connection: apsw.Connection,
    kind: str,
    now: float,
    *,
    source_id: int | None = None,
    path: str | None = None,
    document_id: int | None = None,
    detail: str | None = None,
) -> None:
    """Add one event."""
    connection.execute(
        "INSERT INTO events (at, kind, source_id, path, document_id, detail) VALUES (?, ?, ?, ?, ?, ?)",
        (now, kind, source_id, None if path is None else os.fsencode(path), document_id, detail),
    )


def listed(connection: apsw.Connection, places: Sequence[str] | None, limit: int) -> tuple[list[Event], int]:
    """Return (newest events, how many there are in all) of paths at or below `places`; None: of everything."""
    where, bindings = "1", []
    if places is not None:
        raw = [os.fsencode(place) for place in places]
        where = " OR ".join(["(place = ? OR (place > ? AND place < ?))"] * len(raw)) or "0"
        bindings = [bound for place in raw for bound in (place, place.rstrip(b"/") + b"/", place.rstrip(b"/") + b"0")]
    found = (
        "SELECT events.id, at, kind, sources.path AS source, coalesce(events.path, sources.path) AS place, "
        "document_id, events.detail FROM events LEFT JOIN sources ON sources.id = events.source_id"
    )
    total = connection.execute(f"SELECT count(*) FROM ({found}) WHERE {where}", bindings).get
    rows = connection.execute(f"SELECT * FROM ({found}) WHERE {where} ORDER BY id DESC LIMIT ?", (*bindings, limit))
    return [
        Event(
            int(number),
            float(at),
            str(kind),
            None if source is None else os.fsdecode(source),
            None if place is None else os.fsdecode(place),
            document_id,
            detail,
        )
        for number, at, kind, source, place, document_id, detail in rows
    ], int(total)


@dataclass(frozen=True, slots=True)
class WayIn:
    """How a document came in that lies in no folder: taken from an inbox (`source_id`), or brought by hand."""

    path: str
    source_id: int | None
    is_inbox: bool


def way_in(connection: apsw.Connection, document_id: int) -> WayIn | None:
    """Return how a document came in last, by hand or through an inbox; None where history does not know."""
    row = connection.execute(
        "SELECT kind, source_id, path FROM events WHERE document_id = ? AND path IS NOT NULL "
        "AND (kind = 'taken_in' OR (kind IN ('indexed', 'found') AND source_id IS NULL)) "
        "ORDER BY kind = 'taken_in' DESC, id DESC LIMIT 1",
        (document_id,),
    ).fetchone()
    return None if row is None else WayIn(os.fsdecode(row[2]), row[1], row[0] == "taken_in")


def last_place(connection: apsw.Connection, document_id: int) -> tuple[int, bytes] | None:
    """Return (source, path) of the file in a followed folder that a document was read from last, as history knows."""
    row = connection.execute(
        "SELECT source_id, path FROM events WHERE document_id = ? AND path IS NOT NULL AND source_id IS NOT NULL "
        "AND kind IN ('indexed', 'found') ORDER BY id DESC LIMIT 1",
        (document_id,),
    ).fetchone()
    return None if row is None else (int(row[0]), row[1])


# Paths that a person took out of a followed folder, of which the ledger knows nothing and nothing happened since.
FORGOTTEN_REMOVALS = (
    "SELECT removal.source_id AS source_id, removal.path AS path, removal.at AS at FROM events AS removal "
    "WHERE removal.kind = 'removed' AND removal.source_id IN (SELECT id FROM sources) "
    "AND NOT EXISTS (SELECT 1 FROM files WHERE path = removal.path) AND NOT EXISTS (SELECT 1 FROM events AS later "
    "WHERE later.path = removal.path AND later.id > removal.id AND later.kind <> 'gone')"
)


def forgotten_removals(connection: apsw.Connection) -> list[tuple[int, str, float]]:
    """Return (source, path, when) of what a person took out of a followed folder, and the ledger has forgotten.

    A history that is damaged tells of nothing; the check names that, and no start fails for it.
    """
    try:
        rows: list[Any] = connection.execute(FORGOTTEN_REMOVALS).fetchall()
    except apsw.CorruptError:
        return []
    return sorted((int(source_id), os.fsdecode(path), float(at)) for source_id, path, at in rows)


def forget_details(connection: apsw.Connection, document_ids: Sequence[int]) -> None:
    """Take out what events say of these documents, and of those that were removed by hand: it may be their titles."""
    connection.executemany(
        "UPDATE events SET detail = NULL WHERE document_id = ?", ((number,) for number in document_ids)
    )
    connection.execute("UPDATE events SET detail = NULL WHERE kind = 'removed'")


def prune(connection: apsw.Connection) -> None:
    """Delete all but the newest `KEPT` events."""
    connection.execute("DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?", (KEPT,))
