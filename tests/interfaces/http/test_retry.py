"""`POST jobs/{id}/retry`: a failed file of a folder is read again, everything else says what to do instead."""

from __future__ import annotations

import pytest

from kbsync.errors import NotFound, UsageError
from kbsync.interfaces.operations import Operations
from kbsync.reasons import FileState
from tests.fakes.simulated_engine import NOTES, SimulatedEngine
from tests.interfaces.conftest import Service

PAPER = f"{NOTES}/paper.pdf"


@pytest.fixture
def operations(engine: SimulatedEngine) -> Operations:
    return Operations(engine.engine, engine.daemon)


def newest(operations: Operations, state: str) -> int:
    return int(operations.jobs(state)["jobs"][0]["id"])


def test_a_file_that_failed_is_read_again(engine: SimulatedEngine, operations: Operations) -> None:
    engine.write(PAPER, b"password 1234\nquince")
    engine.settle()
    failed = newest(operations, "failed")
    engine.cage.requests.clear()
    again = operations.retry_job(failed)["job"]
    assert (again["state"], again["path"], engine.state(PAPER)) == ("queued", PAPER, (FileState.WAITING, "queued"))
    engine.settle()
    assert len(engine.cage.requests) == 1
    assert engine.job(again["id"]).state == "failed"


def test_a_file_that_waits_for_its_next_attempt_is_read_now(engine: SimulatedEngine, operations: Operations) -> None:
    engine.write(PAPER, b"crash")
    while not (waiting := [job for job in operations.jobs("queued")["jobs"] if job["not_before"]]):
        engine.turn()
        engine.clock.advance(0.5)
    engine.cage.requests.clear()
    again = operations.retry_job(waiting[0]["id"])["job"]
    assert (again["id"], again["not_before"], again["attempts"]) == (waiting[0]["id"], None, 0)
    engine.turn()
    assert len(engine.cage.requests) == 1


@pytest.mark.parametrize("kind", ["note", "upload"])
def test_what_was_sent_and_is_gone_is_to_be_sent_again(
    engine: SimulatedEngine, operations: Operations, kind: str
) -> None:
    if kind == "note":
        job_id = operations.note("The fig.", None)["job_id"]
        engine.engine.writer.run(
            lambda connection: connection.execute("UPDATE jobs SET state = 'failed', staged_path = NULL")
        )
    else:
        job_id = operations.upload("fig.pdf", 7, [b"corrupt"])["job_id"]
        engine.settle()
    with pytest.raises(UsageError, match="Send it again"):
        operations.retry_job(job_id)


def test_what_ended_well_is_not_done_twice(engine: SimulatedEngine, operations: Operations) -> None:
    engine.write(f"{NOTES}/a.md", "# A\n\nThe medlar.\n")
    engine.settle()
    with pytest.raises(UsageError, match="nothing to retry"):
        operations.retry_job(newest(operations, "done"))


def test_a_document_that_was_removed_does_not_come_back(engine: SimulatedEngine, operations: Operations) -> None:
    engine.write(PAPER, b"corrupt")
    engine.settle()
    failed = newest(operations, "failed")
    engine.write(PAPER, b"quince")
    engine.settle()
    operations.remove_document(operations.documents("current", None, 1, 0)["documents"][0]["id"])
    with pytest.raises(UsageError, match="not followed any more"):
        operations.retry_job(failed)


def test_a_job_that_never_was_is_not_found(operations: Operations) -> None:
    for ask in (operations.retry_job, operations.job):
        with pytest.raises(NotFound):
            ask(77)


@pytest.mark.parametrize(
    ("method", "route", "status"),
    [
        ("POST", "jobs/99999/retry", 404),
        ("GET", "jobs/99999", 404),
        ("POST", "jobs/-1/retry", 422),
        ("POST", "jobs/one/retry", 422),
        ("POST", f"jobs/{10**30}/retry", 422),
        ("GET", "jobs/..%2f..%2fetc", 404),
    ],
)
def test_what_is_no_job_is_refused_and_not_repeated(service: Service, method: str, route: str, status: int) -> None:
    reply = service.ask_over_tcp(method, route, headers=service.token)
    assert reply.status == status
    assert b"etc" not in reply.body
