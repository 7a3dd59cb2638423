"""The table `jobs`: the queue's rows. What a state change means is decided in queue/job_queue; here it is written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import apsw

from kbsync.model import IngestOptions, Job, JobKind, Lane, Priority
from kbsync.reasons import Reason

JobState = Literal["queued", "processing", "done", "failed", "skipped"]

# Ended jobs older than this many seconds, or beyond this many, go.
KEPT_SECONDS, KEPT_ROWS = 14 * 86400.0, 20_000


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as people see it."""

    id: int
    state: JobState
    kind: JobKind
    source_id: int | None
    path: str
    attempts: int
    not_before: float
    reason: str | None
    error: str | None
    document_id: int | None
    chunk_count: int | None
    created_at: float
    updated_at: float
    # Of the document that came of it; None where it has no pages.
    page_count: int | None


# No job waits for longer: what is to wait for more was put back while the clock was ahead, and may run now.
LONGEST_WAIT_S = 3600.0
_DUE = f"(not_before <= ?1 OR not_before > ?1 + {LONGEST_WAIT_S})"

# Nothing of a paused folder is read: its jobs stay queued, and nobody waits for them.
_NOT_PAUSED = "NOT EXISTS (SELECT 1 FROM sources WHERE sources.id = jobs.source_id AND sources.state = 'paused')"

_COLUMNS = (
    "id, state, kind, source_id, path, attempts, not_before, reason, error, document_id, chunk_count, created_at, "
    "updated_at, (SELECT page_count FROM documents WHERE documents.id = jobs.document_id)"
)


def live_of_path(connection: apsw.Connection, source_id: int, path: str) -> tuple[int, JobState] | None:
    """Return (id, state) of the one job that is queued or processing for a source's path."""
    row = connection.execute(
        "SELECT id, state FROM jobs WHERE source_id = ? AND path = ? AND kind = 'path' "
        "AND state IN ('queued', 'processing')",
        (source_id, os.fsencode(path)),
    ).fetchone()
    return None if row is None else (row[0], row[1])


def live_paths(connection: apsw.Connection, source_id: int) -> set[str]:
    """Return the paths of a source that have a queued or processing job."""
    rows = connection.execute(
        "SELECT path FROM jobs WHERE source_id = ? AND kind = 'path' AND state IN ('queued', 'processing')",
        (source_id,),
    )
    return {os.fsdecode(path) for (path,) in rows}


def insert(
    connection: apsw.Connection,
    kind: JobKind,
    path: str,
    *,
    source_id: int | None,
    lane: Lane,
    priority: Priority,
    sequence: float,
    staged_path: str | None,
    options: IngestOptions,
    now: float,
) -> int:
    """Insert a queued job and return its id."""
    connection.execute(
        "INSERT INTO jobs (state, kind, source_id, path, lane, priority, sequence, staged_path, options, created_at, "
        "updated_at) VALUES ('queued', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            kind,
            source_id,
            os.fsencode(path),
            lane,
            int(priority),
            sequence,
            staged_path,
            _written(options),
            now,
            now,
        ),
    )
    return connection.last_insert_rowid()


def renew(connection: apsw.Connection, job_id: int, priority: Priority, sequence: float, now: float) -> None:
    """A queued job is wanted again: it takes the better place of the two, and waits no longer for a retry."""
    connection.execute(
        "UPDATE jobs SET priority = min(priority, ?1), sequence = CASE WHEN ?1 <= priority THEN ?2 ELSE sequence END, "
        "generation = generation + 1, attempts = 0, not_before = 0, updated_at = ?3 WHERE id = ?4",
        (int(priority), sequence, now, job_id),
    )


def raise_generation(connection: apsw.Connection, job_id: int, priority: Priority, sequence: float, now: float) -> None:
    """A processing job's file changed: its answer will be dropped and the job runs again, at the better place."""
    connection.execute(
        "UPDATE jobs SET priority = min(priority, ?1), sequence = CASE WHEN ?1 <= priority THEN ?2 ELSE sequence END, "
        "generation = generation + 1, updated_at = ?3 WHERE id = ?4",
        (int(priority), sequence, now, job_id),
    )


def next_queued(connection: apsw.Connection, lane: Lane, worst: Priority, now: float) -> int | None:
    """Return the id of the lane's job to run now, no worse than `worst`, None where there is none."""
    value = connection.execute(
        # The planner would take the index of ended jobs and sort the whole queue for each claim.
        "SELECT id FROM jobs INDEXED BY jobs_next WHERE state = 'queued' AND lane = ?2 AND priority <= ?3 "
        f"AND {_DUE} AND {_NOT_PAUSED} ORDER BY priority, sequence, id LIMIT 1",
        (now, lane, int(worst)),
    ).get
    return None if value is None else int(value)


def begin(connection: apsw.Connection, job_id: int, lease_until: float, now: float) -> Job:
    """Mark a job as processing, the attempt counted, and return it. What it waited for is over."""
    row: tuple[Any, ...] = connection.execute(
        "UPDATE jobs SET state = 'processing', attempts = attempts + 1, lease_until = ?, reason = NULL, error = NULL, "
        "updated_at = ? WHERE id = ? "
        "RETURNING id, kind, path, source_id, priority, generation, attempts, staged_path, options, lane",
        (lease_until, now, job_id),
    ).fetchall()[0]
    return Job(
        row[0],
        row[1],
        os.fsdecode(row[2]),
        row[3],
        Priority(row[4]),
        row[5],
        row[6],
        row[7],
        IngestOptions(**json.loads(row[8])),
        row[9],
    )


def generation(connection: apsw.Connection, job_id: int) -> int | None:
    """Return the generation of a processing job, None where it is not processing any more."""
    value = connection.execute("SELECT generation FROM jobs WHERE id = ? AND state = 'processing'", (job_id,)).get
    return None if value is None else int(value)


def end(
    connection: apsw.Connection,
    job_id: int,
    state: JobState,
    now: float,
    *,
    reason: str | None = None,
    error: str | None = None,
    document_id: int | None = None,
    chunk_count: int | None = None,
) -> None:
    """Close a job as done, failed or skipped."""
    connection.execute(
        "UPDATE jobs SET state = ?, reason = ?, error = ?, document_id = ?, chunk_count = ?, lease_until = NULL, "
        "staged_path = NULL, updated_at = ? WHERE id = ?",
        (state, reason, error, document_id, chunk_count, now, job_id),
    )


def requeue(
    connection: apsw.Connection,
    job_id: int,
    now: float,
    *,
    not_before: float,
    attempts: int,
    reason: Reason | None,
    error: str | None,
) -> None:
    """Put a processing job back into the queue."""
    connection.execute(
        "UPDATE jobs SET state = 'queued', not_before = ?, attempts = ?, reason = ?, error = ?, lease_until = NULL, "
        "updated_at = ? WHERE id = ? AND state = 'processing'",
        (not_before, attempts, reason, error, now, job_id),
    )


def created_at(connection: apsw.Connection, job_id: int) -> float:
    """Return when a job was queued first, in seconds since 1970."""
    return float(connection.execute("SELECT created_at FROM jobs WHERE id = ?", (job_id,)).get)


def set_lane(connection: apsw.Connection, job_id: int, lane: Lane) -> None:
    """Have other workers take a job from now on."""
    connection.execute("UPDATE jobs SET lane = ? WHERE id = ?", (lane, job_id))


def extend(connection: apsw.Connection, job_ids: Sequence[int], lease_until: float) -> None:
    """Prolong the leases of jobs that are being worked on."""
    connection.execute(
        "UPDATE jobs SET lease_until = ? WHERE state = 'processing' AND id IN (SELECT value FROM json_each(?))",
        (lease_until, json.dumps(list(job_ids))),
    )


def processing(connection: apsw.Connection, lease_before: float) -> list[tuple[int, int, int | None, str]]:
    """Return (id, attempts, source id, path) of processing jobs whose lease ended before a time."""
    rows = connection.execute(
        "SELECT id, attempts, source_id, path FROM jobs WHERE state = 'processing' AND coalesce(lease_until, 0) < ?",
        (lease_before,),
    )
    return [(row[0], row[1], row[2], os.fsdecode(row[3])) for row in rows]


def by_id(connection: apsw.Connection, job_id: int) -> JobRow | None:
    """Return a job, None where there is none."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM jobs WHERE id = ?", (job_id,)).fetchone()
    return None if row is None else _job(row)


def by_ids(connection: apsw.Connection, job_ids: Sequence[int]) -> list[JobRow]:
    """Return the jobs that exist among the ids."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM jobs WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id",
        (json.dumps(list(job_ids)),),
    )
    return [_job(row) for row in rows]


def newest_of_path(connection: apsw.Connection, path: str) -> JobRow | None:
    """Return the last job of a path, None where there was none."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM jobs WHERE path = ? ORDER BY id DESC LIMIT 1", (os.fsencode(path),)
    ).fetchone()
    return None if row is None else _job(row)


def listed(connection: apsw.Connection, state: str | None, limit: int) -> tuple[list[JobRow], int]:
    """Return (newest jobs, how many there are in all); None filters nothing."""
    total = connection.execute("SELECT count(*) FROM jobs WHERE ?1 IS NULL OR state = ?1", (state,)).get
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM jobs WHERE ?1 IS NULL OR state = ?1 ORDER BY id DESC LIMIT ?2", (state, limit)
    )
    return [_job(row) for row in rows], int(total)


def counts(connection: apsw.Connection) -> dict[str, int]:
    """Return how many jobs are queued and processing."""
    found = {"queued": 0, "processing": 0}
    for state, count in connection.execute(
        "SELECT state, count(*) FROM jobs WHERE state IN ('queued', 'processing') GROUP BY state"
    ):
        found[str(state)] = int(count)
    return found


def any_live(connection: apsw.Connection) -> bool:
    """Return whether any job is queued or processing, of a paused folder too."""
    return bool(connection.execute("SELECT EXISTS (SELECT 1 FROM jobs WHERE state IN ('queued', 'processing'))").get)


def unsettled(connection: apsw.Connection) -> int:
    """Return how many jobs are processing, or queued and not of a paused folder."""
    return int(
        connection.execute(
            f"SELECT count(*) FROM jobs WHERE state = 'processing' OR (state = 'queued' AND {_NOT_PAUSED})"
        ).get
    )


def to_be_read(connection: apsw.Connection) -> tuple[int, int]:
    """Return (how many files, how many notes) are queued or processing, those of paused folders left out."""
    rows = connection.execute(
        "SELECT kind = 'note', count(*) FROM jobs "
        f"WHERE state = 'processing' OR (state = 'queued' AND {_NOT_PAUSED}) GROUP BY 1"
    )
    found = {bool(is_note): int(count) for is_note, count in rows}
    return found.get(False, 0), found.get(True, 0)


def hasten(connection: apsw.Connection, paths: Iterable[tuple[int, str]], priority: Priority, now: float) -> None:
    """Have queued jobs of (source, path) that would come later run at this priority."""
    connection.executemany(
        "UPDATE jobs SET priority = ?1, sequence = ?2 WHERE source_id = ?3 AND path = ?4 AND kind = 'path' "
        "AND state = 'queued' AND priority > ?1",
        ((int(priority), -now, source_id, os.fsencode(path)) for source_id, path in paths),
    )


def low_due(connection: apsw.Connection, now: float) -> int:
    """Return how many jobs of low priority run or may run now: what is looked at again without any hurry."""
    return int(
        connection.execute(
            f"SELECT count(*) FROM jobs WHERE state IN ('queued', 'processing') AND priority = ?2 AND {_DUE} "
            f"AND {_NOT_PAUSED}",
            (now, int(Priority.LOW)),
        ).get
    )


def next_not_before(connection: apsw.Connection, lane: Lane, worst: Priority) -> float | None:
    """Return the earliest time at which a lane's job no worse than `worst` may run, None where none is queued."""
    value = connection.execute(
        "SELECT min(not_before) FROM jobs INDEXED BY jobs_next WHERE state = 'queued' AND lane = ? AND priority <= ? "
        f"AND {_NOT_PAUSED}",
        (lane, int(worst)),
    ).get
    return None if value is None else float(value)


def staged_copies(
    connection: apsw.Connection, path: str, lane: Lane, priority: Priority, sequence: float, options: IngestOptions
) -> list[tuple[int, str]]:
    """Return (job, staged file) of the queued jobs at this place of the queue for this path, with these options."""
    rows = connection.execute(
        "SELECT id, staged_path FROM jobs INDEXED BY jobs_next WHERE state = 'queued' AND lane = ? AND priority = ? "
        "AND sequence = ? AND path = ? AND options = ? AND kind = 'staged' AND staged_path IS NOT NULL ORDER BY id",
        (lane, int(priority), sequence, os.fsencode(path), _written(options)),
    )
    return [(int(job_id), str(staged_path)) for job_id, staged_path in rows]


def staged_paths(connection: apsw.Connection) -> set[str]:
    """Return the staged files that a job still needs."""
    return {
        str(path)
        for (path,) in connection.execute(
            "SELECT staged_path FROM jobs WHERE staged_path IS NOT NULL AND state IN ('queued', 'processing')"
        )
    }


def waiting_for_copies(connection: apsw.Connection) -> list[tuple[int, str, str | None]]:
    """Return (job, path, staged file) of the jobs that are to read a staged file."""
    rows = connection.execute(
        "SELECT id, path, staged_path FROM jobs WHERE kind <> 'path' AND state IN ('queued', 'processing') ORDER BY id"
    )
    return [(int(job_id), os.fsdecode(path), staged_path) for job_id, path, staged_path in rows]


def staged_names(connection: apsw.Connection) -> set[str]:
    """Return the paths and names of what waits to be read from a staged file."""
    return {path for _job_id, path, _staged_path in waiting_for_copies(connection)}


def was_refused(connection: apsw.Connection, path: str) -> str | None:
    """Return why the last staged file of this path was not taken in; None where it was, or was never tried."""
    row = connection.execute(
        "SELECT state, reason, error FROM jobs WHERE path = ? AND kind = 'staged' ORDER BY id DESC LIMIT 1",
        (os.fsencode(path),),
    ).fetchone()
    if row is None or row[0] not in ("failed", "skipped") or row[1] == "already_indexed":
        return None
    return str(row[2] or row[1])


def move_staged(connection: apsw.Connection, old: str, new: str) -> None:
    """Write where a staged file lies now."""
    connection.execute("UPDATE jobs SET staged_path = ? WHERE staged_path = ?", (new, old))


def delete_of_source(connection: apsw.Connection, source_id: int) -> None:
    """Delete the jobs of a source that was taken out of the configuration."""
    connection.execute("DELETE FROM jobs WHERE source_id = ?", (source_id,))


def prune(connection: apsw.Connection, now: float) -> None:
    """Delete ended jobs that are old or too many."""
    connection.execute(
        "DELETE FROM jobs WHERE state IN ('done', 'failed', 'skipped') AND (updated_at < ?1 "
        "OR id <= (SELECT max(id) FROM jobs) - ?2)",
        (now - KEPT_SECONDS, KEPT_ROWS),
    )


def _written(options: IngestOptions) -> str:
    return json.dumps({key: value for key, value in asdict(options).items() if value is not None})


def _job(row: tuple[object, ...]) -> JobRow:
    values = list(row)
    values[4] = os.fsdecode(values[4])  # type: ignore[arg-type]  # a BLOB
    return JobRow(*values)  # type: ignore[arg-type]  # the columns are in the order of the fields; STRICT checks types
