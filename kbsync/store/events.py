"""The table `events`: a short history of what happened to paths and documents."""

from __future__ import annotations

import os

import apsw

# Older events go once there are this many.
KEPT = 20_000


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


def prune(connection: apsw.Connection) -> None:
    """Delete all but the newest `KEPT` events."""
    connection.execute("DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?", (KEPT,))
