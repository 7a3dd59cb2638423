"""The rules of the queue: one live job a path, newest events first, small before large, leases, generations, back-off.

Every function takes the writing connection: a claim, an acknowledgement and what belongs to it are one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbsync.errors import NotFound, UsageError
from kbsync.failpoints import failpoint
from kbsync.file_types import CONVERTED_TYPES, type_of
from kbsync.model import IngestOptions, Job, Lane, Priority
from kbsync.queue import backoff
from kbsync.reasons import FileState, Reason
from kbsync.store import files, jobs, ledger, waiting_jobs
from kbsync.store.connection import Connection

# A worker extends its lease long before this; only a worker that is dead or hangs lets it run out.
LEASE_S = 600.0
# A file that changed while it was read is looked at again after this long; it is no attempt that failed.
CHANGED_DELAY_S = 0.5

# What did not fit on our disk is tried again after a quarter of the time that it waits already, within these bounds, or
# as soon as there is more room. Until then smaller files go on.
STORAGE_DELAYS_S = (2.0, 60.0)
# What the engine lacks may be back after this long; until then no job of it is tried again.
UNREADY_DELAY_S = 5.0


def enqueue_path(connection: Connection, source_id: int, path: str, size: int, priority: Priority, now: float) -> int:
    """Queue a source's path and return the job's id; a live job of the same path is renewed instead.

    Events go newest first, what a scan found small before large.
    """
    sequence = -now if priority <= Priority.EVENT else float(size)
    live = jobs.live_of_path(connection, source_id, path)
    failpoint("queue.asked")
    if live is None:
        inserted = jobs.insert(
            connection,
            "path",
            path,
            source_id=source_id,
            lane=_lane_of(path, IngestOptions()),
            priority=priority,
            sequence=sequence,
            staged_path=None,
            options=IngestOptions(),
            now=now,
        )
        failpoint("queue.inserted")
        return inserted
    job_id, state = live
    if state == "processing":
        jobs.raise_generation(connection, job_id, priority, sequence, now)
    else:
        jobs.renew(connection, job_id, priority, sequence, now)
    failpoint("queue.renewed")
    return job_id


def enqueue_staged(
    connection: Connection, path: str, staged_path: str, size: int, options: IngestOptions, now: float
) -> int:
    """Queue a staged copy of a file that was added by hand; `path` is where the user has it."""
    return jobs.insert(
        connection,
        "staged",
        path,
        source_id=None,
        lane=_lane_of(path, options),
        priority=Priority.ADDED,
        sequence=float(size),
        staged_path=staged_path,
        options=options,
        now=now,
    )


def staged_already(connection: Connection, path: str, size: int, options: IngestOptions) -> list[tuple[int, str]]:
    """Return (job, staged file) of the jobs that wait for the same path with as many bytes and the same options."""
    return jobs.staged_copies(connection, path, _lane_of(path, options), Priority.ADDED, float(size), options)


def enqueue_note(connection: Connection, staged_path: str, size: int, options: IngestOptions, now: float) -> int:
    """Queue a note whose text lies in a staged file. It has no path of its own."""
    return jobs.insert(
        connection,
        "note",
        "",
        source_id=None,
        lane="text",
        priority=Priority.ADDED,
        sequence=float(size),
        staged_path=staged_path,
        options=options,
        now=now,
    )


def claim(connection: Connection, lane: Lane, worst: Priority, now: float) -> Job | None:
    """Take the lane's next job that may run, no worse than `worst`; its attempt is counted before any work begins."""
    job_id = jobs.next_queued(connection, lane, worst, now)
    if job_id is None:
        return None
    job = jobs.begin(connection, job_id, now + LEASE_S, now)
    failpoint("queue.leased")
    if job.source_id is not None:
        files.set_reason(connection, job.source_id, job.path, Reason.PROCESSING, None)
    return job


def extend(connection: Connection, held: Sequence[int], now: float) -> None:
    """Prolong the leases of the jobs that are being worked on."""
    jobs.extend(connection, held, now + LEASE_S)


def overtake(connection: Connection, source_id: int, path: str, now: float) -> None:
    """A path was judged anew without a job: what a job that runs for it right now will answer is dropped."""
    live = jobs.live_of_path(connection, source_id, path)
    if live is not None and live[1] == "processing":
        jobs.raise_generation(connection, live[0], Priority.LOW, 0.0, now)


def is_current(connection: Connection, job: Job) -> bool:
    """Return whether the job's answer still counts: nobody else has it and its file did not change meanwhile."""
    return jobs.generation(connection, job.id) == job.generation


def run_again(connection: Connection, job: Job, now: float, delay: float = 0.0) -> None:
    """Drop the answer and put the job back; the attempt does not count."""
    _wait(connection, job, now, now + delay, job.attempts - 1, Reason.QUEUED, None)


def wait_until_quiet(connection: Connection, job: Job, why: str, now: float, delay: float) -> None:
    """Put the job back for `delay` seconds: its file is not finished. The attempt does not count."""
    _wait(connection, job, now, now + delay, job.attempts - 1, Reason.SETTLING, why)


def wait_for_engine(connection: Connection, job: Job, why: str, now: float) -> None:
    """Put the job back: what it needs is not there now, which is not its file's doing. The attempt does not count."""
    _wait(connection, job, now, now + UNREADY_DELAY_S, job.attempts - 1, Reason.RETRY, why)


def wait_for_storage(connection: Connection, job: Job, why: str, now: float) -> None:
    """Put the job back: our own disk could not be written. The attempt does not count."""
    shortest, longest = STORAGE_DELAYS_S
    waited = now - jobs.created_at(connection, job.id)
    jobs.requeue(
        connection,
        job.id,
        now,
        not_before=now + min(max(shortest, waited / 4), longest),
        attempts=max(job.attempts - 1, 0),
        reason=Reason.NO_SPACE,
        error=why,
    )
    if job.source_id is not None:
        files.set_reason(connection, job.source_id, job.path, Reason.RETRY, why)


def storage_is_back(connection: Connection, now: float) -> None:
    """Have what waits for our own disk run now."""
    for source_id, path in waiting_jobs.run_now(connection, Reason.NO_SPACE, now):
        files.set_reason(connection, source_id, path, Reason.QUEUED, None)


def to_documents(connection: Connection, job: Job, now: float) -> None:
    """Put a job of the text lane back for the workers of documents: its content is one, whatever its name says."""
    jobs.set_lane(connection, job.id, "document")
    run_again(connection, job, now)


def retry(connection: Connection, job: Job, reason: Reason, error: str, now: float) -> bool:
    """Put the job back with a growing delay and return True; False when its attempts are used up: then bury it."""
    delay = backoff.delay(job.attempts, reason)
    if delay is None:
        return False
    _wait(connection, job, now, now + delay, job.attempts, Reason.RETRY, f"{reason}: {error}")
    return True


def retry_by_hand(connection: Connection, job_id: int, now: float) -> int:
    """Have a failed job, or one that waits for its next attempt, run now; return the id of the job that does.

    Raises NotFound, and UsageError where there is nothing to retry: the job ended well, or its staged copy is gone.
    """
    job = jobs.by_id(connection, job_id)
    if job is None:
        raise NotFound(f"There is no job {job_id}.", hint="`kbsync jobs list` shows them.")
    if job.state == "processing":
        return job_id
    if job.state == "queued":
        jobs.renew(connection, job_id, Priority.ADDED, -now, now)
        return job_id
    if job.state != "failed":
        raise UsageError(f"Job {job_id} is {job.state}: there is nothing to retry.")
    if job.kind != "path" or job.source_id is None:
        raise UsageError(f"The copy of what job {job_id} was to read went when it failed.", hint="Send it again.")
    known = files.known(connection, job.source_id, job.path)
    if known is None or known.reason is Reason.REMOVED_BY_YOU:
        raise UsageError(
            f"The file of job {job_id} is not followed any more.", hint="`kbsync add` with its path takes it in again."
        )
    if known.state is FileState.FAILED:
        files.account(connection, job.source_id, job.path, None, FileState.WAITING, Reason.QUEUED, "", now)
    return enqueue_path(connection, job.source_id, job.path, 0, Priority.ADDED, now)


def retry_all_failed(connection: Connection, now: float) -> tuple[list[int], int]:
    """Have every file of a source that failed be read again; return (jobs, how many failed that have no file)."""
    queued = []
    for source_id, path in ledger.failed_paths(connection):
        files.account(connection, source_id, path, None, FileState.WAITING, Reason.QUEUED, "", now)
        queued.append(enqueue_path(connection, source_id, path, 0, Priority.SCAN, now))
    return queued, ledger.by_hand(connection)[FileState.FAILED]


def retry_failed(
    connection: Connection, failed: Sequence[tuple[int, str]], reasons: Sequence[Reason], now: float
) -> int:
    """Have files (source, path) that still are failed for one of these reasons be read again, after all others.

    Return how many those are.
    """
    queued = 0
    for source_id, path in failed:
        known = files.known(connection, source_id, path)
        if known is None or known.state is not FileState.FAILED or known.reason not in reasons:
            continue
        files.account(connection, source_id, path, None, FileState.WAITING, Reason.QUEUED, "", now)
        enqueue_path(connection, source_id, path, 0, Priority.LOW, now)
        queued += 1
    return queued


def recover(connection: Connection, now: float, *, all_leases: bool) -> list[tuple[int | None, str, int]]:
    """Put jobs back whose worker is gone; return (source, path, job) of those that ended it too often: bury them.

    `all_leases`: at the start of the process that holds the lock, nobody else can be working on anything.
    """
    dead = []
    suspects = 0
    for job_id, attempts, source_id, path in jobs.processing(connection, float("inf") if all_leases else now):
        if attempts >= backoff.MAX_ATTEMPTS:
            dead.append((source_id, path, job_id))
            continue
        # What was worked on at a second death may be its cause, or has only stood beside it both times: from now on one
        # of them is tried after the other, each longer after, so that a file takes none of its neighbours along.
        not_before = now + suspects * (backoff.delay(attempts, Reason.RETRY) or 0.0) if attempts > 1 else 0.0
        suspects += attempts > 1
        jobs.requeue(connection, job_id, now, not_before=not_before, attempts=attempts, reason=None, error=None)
        failpoint("queue.recovered")
        if source_id is not None:
            files.set_reason(connection, source_id, path, Reason.QUEUED, None)
    return dead


def put_back(connection: Connection, now: float) -> None:
    """Put every job back that is being worked on, for a process that ends as it was told: no attempt counts."""
    for job_id, attempts, source_id, path in jobs.processing(connection, float("inf")):
        jobs.requeue(connection, job_id, now, not_before=0, attempts=attempts - 1, reason=None, error=None)
        if source_id is not None:
            files.set_reason(connection, source_id, path, Reason.QUEUED, None)


def _lane_of(path: str, options: IngestOptions) -> Lane:
    return "document" if (options.type or type_of(path)) in CONVERTED_TYPES else "text"


def _wait(
    connection: Connection,
    job: Job,
    now: float,
    not_before: float,
    attempts: int,
    reason: Reason,
    error: str | None,
) -> None:
    jobs.requeue(connection, job.id, now, not_before=not_before, attempts=max(attempts, 0), reason=reason, error=error)
    if job.source_id is not None:
        known = files.known(connection, job.source_id, job.path)
        if known is not None and known.state is FileState.WAITING:
            files.set_reason(connection, job.source_id, job.path, reason, error)
