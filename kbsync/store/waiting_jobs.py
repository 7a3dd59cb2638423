"""The queued jobs that wait for a reason of their own: how many they are, and that the reason is no more."""

from __future__ import annotations

import os
from typing import Any

import apsw

from kbsync.reasons import Reason


def waiting_for(connection: apsw.Connection, reason: Reason, now: float = 0.0) -> int:
    """Return how many queued jobs wait for this reason, and may not run at `now`."""
    return int(
        connection.execute(
            "SELECT count(*) FROM jobs WHERE state = 'queued' AND reason = ? AND not_before > ?", (reason, now)
        ).get
    )


def run_now(connection: apsw.Connection, reason: Reason, now: float) -> list[tuple[int, str]]:
    """Have the queued jobs that wait for this reason wait no longer; return (source, path) of those of sources."""
    rows: list[tuple[Any, ...]] = connection.execute(
        "UPDATE jobs SET not_before = 0, reason = NULL, error = NULL, updated_at = ? WHERE state = 'queued' "
        "AND reason = ? RETURNING source_id, path",
        (now, reason),
    ).fetchall()
    return [(int(source_id), os.fsdecode(path)) for source_id, path in rows if source_id is not None]
