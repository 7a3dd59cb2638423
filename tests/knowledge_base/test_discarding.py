"""Stored copies of deleted documents go with them, also where the process ends in between, and no copy of another's."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kbsync import failpoints
from kbsync.errors import RetryLater, StorageUnavailable
from kbsync.knowledge_base.discarding import discard_promised
from kbsync.model import IngestOptions
from kbsync.reasons import Reason
from kbsync.store import discards
from kbsync.store.stored_files import StoredFiles
from tests.fakes.simulated_engine import SimulatedEngine

PATH = "/simulated/elsewhere/letter.md"


class Ended(BaseException):
    """The process ends here."""


@contextmanager
def listening(listener: Callable[[str], None]) -> Iterator[None]:
    failpoints.listen(listener)
    try:
        yield
    finally:
        failpoints.listen(None)


def added(engine: SimulatedEngine) -> int:
    engine.fs.write(PATH, b"# Letter\n\nDear gardener.")
    number = engine.add(PATH).document_id
    assert number is not None
    return number


def copies(engine: SimulatedEngine) -> list[str]:
    return os.listdir(engine.world.locations.documents_dir)


def test_a_copy_whose_removal_was_promised_goes_at_the_next_start(started: Callable[[], SimulatedEngine]) -> None:
    """Else it would look like the only copy of something, and be taken in again."""
    engine = started()
    number = added(engine)

    def end(name: str) -> None:
        if name == "removal.committed":
            raise Ended

    with listening(end), pytest.raises(Ended):
        engine.kb.remove_document(number)
    assert len(copies(engine)) == 1
    engine = started()
    assert copies(engine) == []
    assert engine.engine.readers.read(discards.pending) == []
    assert engine.kb.check() == []


def test_a_copy_that_came_again_meanwhile_stays(engine: SimulatedEngine) -> None:
    added(engine)
    engine.engine.writer.run(lambda connection: discards.promise(connection, copies(engine)[0]))
    discard_promised(engine.engine.writer, engine.engine.readers, engine.engine.stored)
    assert len(copies(engine)) == 1
    assert engine.engine.readers.read(discards.pending) == []


def test_a_disk_that_cannot_be_written_keeps_the_promise_for_later(engine: SimulatedEngine) -> None:
    number = added(engine)
    locations = engine.world.locations

    class ReadOnly(StoredFiles):
        def discard(self, path: str) -> None:
            raise StorageUnavailable(Reason.IO, f"{path} cannot be removed.")

    engine.engine.writer.run(lambda connection: discards.promise(connection, "nobody.md"))
    discard_promised(
        engine.engine.writer, engine.engine.readers, ReadOnly(locations.staging_dir, locations.documents_dir)
    )
    assert engine.engine.readers.read(discards.pending) == ["nobody.md"]
    engine.kb.remove_document(number)
    assert engine.engine.readers.read(discards.pending) == []
    assert copies(engine) == []


def test_a_staged_copy_does_not_stay_where_its_job_cannot_be_queued(engine: SimulatedEngine) -> None:
    engine.fs.write(PATH, b"# Letter\n\nDear gardener.")

    def refuse(name: str) -> None:
        if name == "adding.staged":
            raise RetryLater(Reason.IO, "The database cannot be read now.")

    with listening(refuse), pytest.raises(RetryLater):
        engine.add(PATH)
    assert os.listdir(engine.world.locations.staging_dir) == []


@pytest.mark.parametrize("is_note", [True, False])
def test_what_was_sent_and_whose_copy_is_gone_has_failed_with_a_word_what_to_do(
    engine: SimulatedEngine, is_note: bool
) -> None:
    engine.fs.write(PATH, b"# Letter\n\nDear gardener.")
    adding = engine.kb.adding
    if is_note:
        job_id = adding.add_note("It gets lost.", None)
    else:
        job_id = adding.add_upload("a.md", 5, [b"plums"], IngestOptions())
    for name in os.listdir(engine.world.locations.staging_dir):
        os.unlink(os.path.join(engine.world.locations.staging_dir, name))
    engine.settle()
    job = engine.job(job_id)
    assert job.state == "failed"
    assert "Send it again." in (job.error or "")


def test_what_was_sent_waits_while_the_folder_of_its_copy_is_away(engine: SimulatedEngine) -> None:
    """As where the data folder is moved while kbsync runs: the copy is not lost, it cannot be looked at."""
    staging = engine.world.locations.staging_dir
    job_id = engine.kb.adding.add_note("The quince ripens late.", None)
    os.rename(staging, staging + "-away")
    with pytest.raises(StorageUnavailable):
        engine.loops.workers[0].step()
    assert (engine.job(job_id).state, engine.job(job_id).attempts) == ("queued", 0)
    os.rename(staging + "-away", staging)
    engine.clock.advance(60)
    engine.settle()
    assert engine.job(job_id).state == "done"
    assert engine.found("quince") == [None]
