"""The rules of the queue: who goes first, one live job a path, no work lost, none repeated for ever."""

from __future__ import annotations

import os

import apsw
import pytest

from kbsync.filesystem import Stat
from kbsync.model import IngestOptions, Job, Priority
from kbsync.queue import backoff, job_queue
from kbsync.reasons import FileState, Reason
from kbsync.store import files, jobs, sources
from kbsync.store.files import FileRow
from kbsync.store.jobs import JobRow

NOW = 1_000_000.0


def enqueue(
    connection: apsw.Connection,
    source_id: int,
    path: str,
    *,
    size: int = 10,
    priority: Priority = Priority.SCAN,
    now: float = NOW,
) -> int:
    """Queue a path as reconcile does: accounted for as waiting, then put into the queue."""
    stat = Stat("file", size, 1, 1, 1, 1)
    files.account(connection, source_id, path, stat, FileState.WAITING, Reason.QUEUED, "r", now)
    return job_queue.enqueue_path(connection, source_id, path, size, priority, now)


def claimed(connection: apsw.Connection, now: float = NOW, worst: Priority = Priority.LOW) -> Job:
    job = job_queue.claim(connection, "text", worst, now)
    assert job is not None
    return job


def claimed_paths(connection: apsw.Connection, worst: Priority = Priority.LOW) -> list[str]:
    paths = []
    while (job := job_queue.claim(connection, "text", worst, NOW)) is not None:
        paths.append(job.path)
    return paths


def row_of(connection: apsw.Connection, job_id: int) -> JobRow:
    row = jobs.by_id(connection, job_id)
    assert row is not None
    return row


def file_of(connection: apsw.Connection, path: str) -> FileRow:
    row = files.by_path(connection, path)
    assert row is not None
    return row


def test_what_is_fresh_goes_first_and_newest_first(connection: apsw.Connection, source_id: int) -> None:
    enqueue(connection, source_id, "/notes/scanned", size=1)
    enqueue(connection, source_id, "/notes/older", priority=Priority.EVENT, now=NOW - 5)
    enqueue(connection, source_id, "/notes/newer", priority=Priority.EVENT, now=NOW - 1)
    job_queue.enqueue_staged(connection, "/home/me/added", "/staging/x", 10, IngestOptions(), NOW)
    enqueue(connection, source_id, "/notes/low", priority=Priority.LOW, size=1)
    assert claimed_paths(connection) == [
        "/home/me/added",
        "/notes/newer",
        "/notes/older",
        "/notes/scanned",
        "/notes/low",
    ]


def test_what_a_scan_found_goes_small_before_large(connection: apsw.Connection, source_id: int) -> None:
    for size in (500, 3, 70):
        enqueue(connection, source_id, f"/notes/{size}", size=size)
    assert claimed_paths(connection) == ["/notes/3", "/notes/70", "/notes/500"]


def test_a_worker_kept_free_takes_no_bulk_work(connection: apsw.Connection, source_id: int) -> None:
    enqueue(connection, source_id, "/notes/scanned")
    enqueue(connection, source_id, "/notes/event", priority=Priority.EVENT)
    assert claimed_paths(connection, Priority.EVENT) == ["/notes/event"]
    assert claimed_paths(connection) == ["/notes/scanned"]


def test_a_path_has_one_live_job(connection: apsw.Connection, source_id: int) -> None:
    path = os.fsdecode(b"/notes/caf\xe9")
    job_id = enqueue(connection, source_id, path)
    assert enqueue(connection, source_id, path, priority=Priority.EVENT) == job_id
    assert claimed_paths(connection) == [path]
    other = sources.ensure(connection, "/other", NOW)
    assert enqueue(connection, other, path) != job_id  # the same path of another source is another's business


def test_a_queued_job_that_is_wanted_again_takes_the_better_place(connection: apsw.Connection, source_id: int) -> None:
    enqueue(connection, source_id, "/notes/first", priority=Priority.EVENT, now=NOW - 9)
    enqueue(connection, source_id, "/notes/risen", size=1)
    enqueue(connection, source_id, "/notes/risen", priority=Priority.EVENT, now=NOW)
    enqueue(connection, source_id, "/notes/risen", size=1)  # a scan takes nothing from it
    assert claimed_paths(connection) == ["/notes/risen", "/notes/first"]


def test_a_change_while_the_file_is_read_makes_the_answer_count_no_more(
    connection: apsw.Connection, source_id: int
) -> None:
    """P10: by the job's generation."""
    job_id = enqueue(connection, source_id, "/notes/a")
    job = claimed(connection)
    assert job_queue.is_current(connection, job)
    assert enqueue(connection, source_id, "/notes/a", priority=Priority.EVENT) == job_id
    assert not job_queue.is_current(connection, job)
    job_queue.run_again(connection, job, NOW)
    again = claimed(connection)
    assert (again.id, again.generation, again.attempts) == (job_id, job.generation + 1, 1)
    assert job_queue.is_current(connection, again)


def test_a_file_that_changed_while_it_was_read_goes_back_before_what_a_scan_found(
    connection: apsw.Connection, source_id: int
) -> None:
    enqueue(connection, source_id, "/notes/large", size=9_000)
    job = claimed(connection)
    enqueue(connection, source_id, "/notes/small", size=1)
    enqueue(connection, source_id, "/notes/large", size=9_000, priority=Priority.EVENT)
    job_queue.run_again(connection, job, NOW)
    assert claimed_paths(connection, Priority.EVENT) == ["/notes/large"]


def test_the_attempt_is_counted_before_the_work(connection: apsw.Connection, source_id: int) -> None:
    """P08: so that a process which dies over it knows at its next start."""
    job_id = enqueue(connection, source_id, "/notes/a")
    assert claimed(connection).attempts == 1
    assert row_of(connection, job_id).attempts == 1
    assert file_of(connection, "/notes/a").reason is Reason.PROCESSING


def test_a_job_whose_lease_ran_out_is_put_back_and_no_other(connection: apsw.Connection, source_id: int) -> None:
    lost = enqueue(connection, source_id, "/notes/lost", size=1)
    held = enqueue(connection, source_id, "/notes/held", size=2)
    claimed(connection)
    claimed(connection)
    job_queue.extend(connection, [held], NOW + 300)
    later = NOW + job_queue.LEASE_S + 1
    assert job_queue.recover(connection, later, all_leases=False) == []
    assert [row_of(connection, job_id).state for job_id in (lost, held)] == ["queued", "processing"]
    assert file_of(connection, "/notes/lost").reason is Reason.QUEUED
    assert claimed(connection, later).attempts == 2


def test_at_the_start_every_lease_is_a_dead_processs(connection: apsw.Connection, source_id: int) -> None:
    enqueue(connection, source_id, "/notes/a")
    first = claimed(connection)
    assert job_queue.recover(connection, NOW, all_leases=True) == []
    assert not job_queue.is_current(connection, first)
    assert claimed(connection).id == first.id


def test_a_job_that_ends_the_process_again_and_again_is_given_up(connection: apsw.Connection, source_id: int) -> None:
    """P08: after six deaths, of whatever kind."""
    job_id = enqueue(connection, source_id, "/notes/poison")
    for _ in range(backoff.MAX_ATTEMPTS - 1):
        claimed(connection)
        assert job_queue.recover(connection, NOW, all_leases=True) == []
    claimed(connection)
    assert job_queue.recover(connection, NOW, all_leases=True) == [(source_id, "/notes/poison", job_id)]


def test_what_stood_beside_a_deadly_file_twice_is_tried_alone(connection: apsw.Connection, source_id: int) -> None:
    """P08: the neighbours of a file that ends the process are not given up with it."""
    for name in ("a", "poison", "z"):
        enqueue(connection, source_id, f"/notes/{name}")
    for _ in range(2):
        for _ in range(3):
            claimed(connection)
        assert job_queue.recover(connection, NOW, all_leases=True) == []
    now, deaths, done = NOW, 2, 0
    buried: list[tuple[int | None, str, int]] = []
    while done < 2 or not buried:
        job = job_queue.claim(connection, "text", Priority.LOW, now)
        if job is None:
            now += 1.0
            continue
        beside = job_queue.claim(connection, "text", Priority.LOW, now)
        assert beside is None, "the suspects run one after the other"
        if job.path == "/notes/poison":
            deaths += 1
            buried += job_queue.recover(connection, now, all_leases=True)
        else:
            jobs.end(connection, job.id, "done", now)
            done += 1
    assert [path for _, path, _ in buried] == ["/notes/poison"]
    assert deaths == backoff.MAX_ATTEMPTS


def test_what_a_process_puts_back_at_its_own_end_counts_no_attempt(connection: apsw.Connection, source_id: int) -> None:
    enqueue(connection, source_id, "/notes/a")
    for _ in range(2 * backoff.MAX_ATTEMPTS):
        assert claimed(connection).attempts == 1
        job_queue.put_back(connection, NOW)
    assert file_of(connection, "/notes/a").reason is Reason.QUEUED


def test_a_passing_error_waits_ever_longer_until_its_attempts_end(connection: apsw.Connection, source_id: int) -> None:
    job_id = enqueue(connection, source_id, "/notes/a")
    now, waits = NOW, []
    while True:
        job = claimed(connection, now)
        if not job_queue.retry(connection, job, Reason.IO, "broken", now):
            break
        waits.append(row_of(connection, job_id).not_before - now)
        assert job_queue.claim(connection, "text", Priority.LOW, now + waits[-1] - 0.1) is None
        now += waits[-1]
    assert waits == [5, 20, 80, 320, 900]
    assert row_of(connection, job_id).state == "processing"  # the caller buries it


def test_what_it_waits_for_is_told(connection: apsw.Connection, source_id: int) -> None:
    job_id = enqueue(connection, source_id, "/notes/a")
    job_queue.retry(connection, claimed(connection), Reason.IO, "broken", NOW)
    assert (row_of(connection, job_id).reason, row_of(connection, job_id).error) == ("retry", "io: broken")
    file = file_of(connection, "/notes/a")
    assert (file.state, file.reason, file.detail) == (FileState.WAITING, Reason.RETRY, "io: broken")


@pytest.mark.parametrize("delay", [0.0, 0.5])
def test_running_again_counts_no_attempt(connection: apsw.Connection, source_id: int, delay: float) -> None:
    job_id = enqueue(connection, source_id, "/notes/a")
    for _ in range(20):
        job_queue.run_again(connection, claimed(connection, NOW + delay), NOW, delay)
    row = row_of(connection, job_id)
    assert (row.state, row.attempts, row.not_before) == ("queued", 0, NOW + delay)


def test_news_of_a_path_end_its_waiting_and_its_count(connection: apsw.Connection, source_id: int) -> None:
    enqueue(connection, source_id, "/notes/a")
    job_queue.retry(connection, claimed(connection), Reason.IO, "broken", NOW)
    assert job_queue.claim(connection, "text", Priority.LOW, NOW) is None
    enqueue(connection, source_id, "/notes/a", priority=Priority.EVENT)
    assert claimed(connection).attempts == 1


def test_a_job_that_ended_is_followed_by_a_new_one(connection: apsw.Connection, source_id: int) -> None:
    first = enqueue(connection, source_id, "/notes/a")
    job = claimed(connection)
    jobs.end(connection, job.id, "done", NOW)
    assert not job_queue.is_current(connection, job)
    assert enqueue(connection, source_id, "/notes/a") > first


def test_notes_and_staged_files_are_never_taken_for_one_another(connection: apsw.Connection) -> None:
    options = IngestOptions(title="Mine")
    ids = [job_queue.enqueue_note(connection, f"/staging/{n}.txt", 1, options, NOW) for n in range(2)]
    ids += [job_queue.enqueue_staged(connection, "/home/me/a", f"/staging/{n}.md", 2, options, NOW) for n in range(2)]
    taken = [claimed(connection) for _ in ids]
    assert [job.id for job in taken] == ids
    assert [(job.kind, job.path, job.source_id) for job in taken[1:3]] == [
        ("note", "", None),
        ("staged", "/home/me/a", None),
    ]
    assert len({job.staged_path for job in taken}) == 4
