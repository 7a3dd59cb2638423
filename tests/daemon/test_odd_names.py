"""Names that are no UTF-8 get into messages too: no loop ends, no start fails, nothing is tried again and again."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial

from kbsync.model import IngestOptions, Priority
from kbsync.queue import backoff, job_queue
from kbsync.reasons import FileState, Reason
from tests.fakes.simulated_engine import NOTES, SimulatedEngine

ODD = f"{NOTES}/caf\udce9"


def test_a_folder_that_cannot_be_read_is_told(engine: SimulatedEngine) -> None:
    engine.fs.make_directory(ODD)
    engine.fs.fail(ODD, PermissionError(errno.EACCES, "Permission denied"))
    engine.rescan()
    assert engine.source_state() == ("watching", "unreadable")
    ((path, message),) = engine.kb.adding.expand(NOTES, recursive=True).failed
    assert path == ODD
    assert r"caf\xe9" in message


def test_a_file_that_kbsync_died_of_is_buried_at_the_next_start(
    engine: SimulatedEngine, started: Callable[[], SimulatedEngine]
) -> None:
    path = f"{ODD}.md"
    engine.write(path, "The quince ripens late.")
    for _ in range(3):  # until it is quiet and queued, and no further
        engine.loops.producer.step()
        engine.clock.advance(1.0)
    for _ in range(backoff.MAX_ATTEMPTS):
        job = engine.engine.writer.run(
            partial(job_queue.claim, lane="text", worst=Priority.LOW, now=engine.clock.now())
        )
        assert job is not None
        engine = started()
    assert engine.state(path) == (FileState.FAILED, Reason.CRASHED)
    assert r"caf\xe9.md was being read" in engine.read("SELECT error FROM jobs WHERE state = 'failed'")[0][0]
    assert "it was being read whenever kbsync died" in engine.why(path).detail


def test_known_content_that_is_added_gets_a_stored_copy_under_its_own_name(engine: SimulatedEngine) -> None:
    engine.write(f"{ODD}.md", "The quince ripens late.")
    engine.settle()
    job = engine.add(f"{ODD}.md", IngestOptions(title="caf\udce9"))
    assert (job.state, job.attempts) == ("done", 1)
    (row,) = engine.read("SELECT title, original_filename, stored_path IS NULL FROM documents")
    assert row[0] == "caf?"
    assert not row[2]


def test_known_content_that_is_added_again_is_skipped(engine: SimulatedEngine) -> None:
    engine.write(f"{ODD}.md", "The quince ripens late.")
    engine.settle()
    assert engine.add(f"{ODD}.md").reason == "already_indexed"
