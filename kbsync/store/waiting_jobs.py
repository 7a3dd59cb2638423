"""The jobs that are not done yet: how many, and of those that wait for a reason, that the reason is no more."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import apsw

from kbsync.reasons import Reason


@dataclass(frozen=True, slots=True)
class LiveJobs:
    """How many jobs are in one state (queued, processing), lane and priority, and when the oldest was made."""

    state: str
    lane: str
    priority: int
    count: int
    oldest_at: float


def by_lane(connection: apsw.Connection) -> tuple[LiveJobs, ...]:
    """Count the jobs that are not done yet. Times are seconds since 1970."""
    rows = connection.execute(
        "SELECT state, lane, priority, count(*), min(created_at) FROM jobs WHERE state IN ('queued', 'processing') "
        "GROUP BY state, lane, priority ORDER BY state, lane, priority"
    )
    return tuple(
        LiveJobs(str(state), str(lane), int(priority), int(count), float(oldest))
        for state, lane, priority, count, oldest in rows
    )


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
