"""The queue's rows: what is found through an index, what is kept and what is forgotten."""

from __future__ import annotations

import os
from typing import Any

import apsw
import pytest

from kbsync.model import IngestOptions, Priority
from kbsync.queue import job_queue
from kbsync.reasons import Reason
from kbsync.store import events, jobs, maintenance, sources
from tests.store.made_documents import NOW, count

DAY = 86400.0


def insert(
    connection: apsw.Connection,
    path: str = "/notes/a.md",
    *,
    source_id: int | None = None,
    priority: Priority = Priority.SCAN,
    sequence: float = 1.0,
    staged_path: str | None = None,
    now: float = NOW,
) -> int:
    return jobs.insert(
        connection,
        "path" if staged_path is None else "staged",
        path,
        source_id=source_id,
        lane="text",
        priority=priority,
        sequence=sequence,
        staged_path=staged_path,
        options=IngestOptions(title="Mine", language="go"),
        now=now,
    )


def test_a_claimed_job_is_what_was_queued(connection: apsw.Connection) -> None:
    path = os.fsdecode(b"/home/me/caf\xe9.md")
    job_id = insert(connection, path, staged_path="/staging/x.md", priority=Priority.ADDED)
    job = jobs.begin(connection, job_id, NOW + 600, NOW + 1)
    assert (job.kind, job.path, job.staged_path, job.priority) == ("staged", path, "/staging/x.md", Priority.ADDED)
    assert (job.generation, job.attempts) == (1, 1)
    assert job.options == IngestOptions(title="Mine", language="go")
    assert jobs.staged_paths(connection) == {"/staging/x.md"}
    jobs.end(connection, job_id, "done", NOW + 2)
    assert jobs.staged_paths(connection) == set()
    row = jobs.newest_of_path(connection, path)
    assert row is not None
    assert (row.state, row.path, row.updated_at) == ("done", path, NOW + 2)


def test_the_database_itself_refuses_a_second_live_job_of_a_path(connection: apsw.Connection) -> None:
    source_id = sources.ensure(connection, "/notes", NOW)
    job_id = insert(connection, source_id=source_id)
    with pytest.raises(apsw.ConstraintError):
        insert(connection, source_id=source_id)
    jobs.begin(connection, job_id, NOW, NOW)
    with pytest.raises(apsw.ConstraintError):
        insert(connection, source_id=source_id)
    jobs.end(connection, job_id, "done", NOW)
    insert(connection, source_id=source_id)
    assert jobs.live_paths(connection, source_id) == {"/notes/a.md"}


def test_only_a_processing_job_goes_back(connection: apsw.Connection) -> None:
    job_id = insert(connection)
    jobs.begin(connection, job_id, NOW, NOW)
    jobs.end(connection, job_id, "failed", NOW, reason="corrupt", error="damaged")
    jobs.requeue(connection, job_id, NOW, not_before=0, attempts=0, reason=None, error=None)
    row = jobs.by_id(connection, job_id)
    assert row is not None
    assert (row.state, row.reason, row.error) == ("failed", "corrupt", "damaged")
    assert jobs.generation(connection, job_id) is None


def test_what_a_job_waited_for_is_over_once_it_is_worked_on(connection: apsw.Connection) -> None:
    job_id = insert(connection)
    jobs.begin(connection, job_id, NOW, NOW)
    jobs.requeue(connection, job_id, NOW, not_before=0, attempts=0, reason=Reason.NO_SPACE, error="The disk is full.")
    jobs.begin(connection, job_id, NOW, NOW)
    row = jobs.by_id(connection, job_id)
    assert row is not None
    assert (row.state, row.reason, row.error) == ("processing", None, None)


def test_the_next_time_to_look_counts_only_what_this_worker_may_take(connection: apsw.Connection) -> None:
    assert jobs.next_not_before(connection, "text", Priority.LOW) is None
    insert(connection, "/notes/scan.md")
    event = insert(connection, "/notes/event.md", priority=Priority.EVENT)
    connection.execute("UPDATE jobs SET not_before = 77.0 WHERE id = ?", (event,))
    assert jobs.next_not_before(connection, "text", Priority.LOW) == 0.0
    assert jobs.next_not_before(connection, "text", Priority.EVENT) == 77.0
    assert jobs.next_not_before(connection, "text", Priority.ADDED) is None


def test_jobs_are_listed_newest_first_and_counted(connection: apsw.Connection) -> None:
    ids = [insert(connection, f"/notes/{number}.md") for number in range(4)]
    jobs.begin(connection, ids[0], NOW, NOW)
    jobs.begin(connection, ids[1], NOW, NOW)
    jobs.end(connection, ids[1], "skipped", NOW)
    found, total = jobs.listed(connection, None, 2)
    assert ([job.id for job in found], total) == ([ids[3], ids[2]], 4)
    found, total = jobs.listed(connection, "skipped", 9)
    assert ([job.id for job in found], total) == ([ids[1]], 1)
    assert jobs.counts(connection) == {"queued": 2, "processing": 1}
    assert [job.id for job in jobs.by_ids(connection, [ids[2], 99, ids[0]])] == [ids[0], ids[2]]


def test_only_ended_jobs_that_are_old_or_too_many_are_forgotten(connection: apsw.Connection) -> None:
    old, fresh, waiting, running = (insert(connection, f"/notes/{name}.md") for name in "abcd")
    jobs.begin(connection, running, NOW, NOW)
    jobs.end(connection, old, "done", NOW)
    jobs.end(connection, fresh, "done", NOW + 2 * DAY)
    maintenance.prune(connection, NOW + 15 * DAY)
    assert {row[0] for row in connection.execute("SELECT id FROM jobs")} == {fresh, waiting, running}
    connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'jobs'", (jobs.KEPT_ROWS + fresh,))
    newest = insert(connection, "/notes/e.md")
    jobs.prune(connection, NOW + 15 * DAY)
    assert {row[0] for row in connection.execute("SELECT id FROM jobs")} == {waiting, running, newest}


def test_only_the_newest_events_are_kept(connection: apsw.Connection) -> None:
    events.record(connection, "indexed", NOW, path=os.fsdecode(b"/notes/\xff"))
    events.record(connection, "removed", NOW)
    connection.execute("UPDATE events SET id = ? WHERE kind = 'removed'", (events.KEPT + 1,))
    events.prune(connection)
    assert [row[0] for row in connection.execute("SELECT kind FROM events")] == ["removed"]
    assert count(connection, "events") == 1


def plan(connection: apsw.Connection, capture: list[tuple[str, Any]]) -> list[str]:
    steps = []
    for statement, bindings in capture:
        steps += [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", bindings)]
    return steps


@pytest.mark.parametrize(
    ("ask", "index"),
    [
        (lambda connection: jobs.next_queued(connection, "text", Priority.LOW, NOW), "jobs_next"),
        (lambda connection: jobs.next_not_before(connection, "text", Priority.LOW), "jobs_next"),
        (lambda connection: jobs.live_of_path(connection, 1, "/a"), "jobs_live_path"),
        (lambda connection: jobs.live_paths(connection, 1), "jobs_live_path"),
        (lambda connection: jobs.processing(connection, NOW), "jobs_ended"),
        (lambda connection: jobs.counts(connection), "jobs_ended"),
    ],
    ids=["next_queued", "next_not_before", "live_of_path", "live_paths", "processing", "counts"],
)
def test_what_is_asked_often_uses_its_index_and_sorts_nothing(
    connection: apsw.Connection, ask: Any, index: str
) -> None:
    asked: list[tuple[str, Any]] = []

    def trace(_cursor: apsw.Cursor, statement: str, bindings: Any) -> bool:
        asked.append((statement, bindings))
        return True

    connection.exec_trace = trace
    ask(connection)
    connection.exec_trace = None
    steps = plan(connection, asked)
    assert any(f"INDEX {index} " in step for step in steps), steps
    assert not any(step.startswith("SCAN") or "TEMP B-TREE" in step for step in steps), steps


def test_jobs_of_a_paused_source_are_passed_over_and_nobody_waits_for_them(connection: apsw.Connection) -> None:
    paused, other = (sources.ensure(connection, path, NOW) for path in ("/paused", "/other"))
    for source_id, path in ((paused, "/paused/a.md"), (other, "/other/b.md")):
        job_queue.enqueue_path(connection, source_id, path, 1, Priority.LOW, NOW)
    sources.pause(connection, paused, NOW)
    taken = jobs.next_queued(connection, "text", Priority.LOW, NOW)
    assert taken is not None
    assert (jobs.unsettled(connection), jobs.low_due(connection, NOW)) == (1, 1)
    assert jobs.begin(connection, taken, NOW, NOW).path == "/other/b.md"
    assert jobs.next_queued(connection, "text", Priority.LOW, NOW) is None
    assert jobs.next_not_before(connection, "text", Priority.LOW) is None
    sources.resume(connection, paused, NOW)
    assert jobs.next_queued(connection, "text", Priority.LOW, NOW) is not None
    assert jobs.unsettled(connection) == 2


def test_a_job_that_is_hastened_runs_first_and_never_later_than_it_would(connection: apsw.Connection) -> None:
    source_id = sources.ensure(connection, "/notes", NOW)
    low, scanned, fresh = (
        job_queue.enqueue_path(connection, source_id, path, 1, priority, NOW + 5)
        for path, priority in (("/a", Priority.LOW), ("/b", Priority.SCAN), ("/c", Priority.EVENT))
    )
    jobs.hasten(connection, [(source_id, "/a"), (source_id, "/c")], Priority.EVENT, NOW + 9)
    order = []
    while (job_id := jobs.next_queued(connection, "text", Priority.LOW, NOW + 9)) is not None:
        order.append(jobs.begin(connection, job_id, NOW, NOW).id)
    assert order == [low, fresh, scanned]
