"""The files of one `kbsync add` without the daemon: worked here, interrupted by Ctrl+C, taken up again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from kbsync.compose import Engine, open_engine
from kbsync.config.locations import locate
from kbsync.config.settings import Settings
from kbsync.daemon.worker import Worker
from kbsync.errors import StopEngine
from kbsync.interfaces.cli.batch import Batch, Choices
from kbsync.interfaces.cli.local_work import LocalWorkers
from kbsync.interfaces.cli.outcome import Outcome
from kbsync.interfaces.operations import Operations
from tests.fakes.hash_embedder import HashDevice
from tests.fakes.hashed_seams import hashed_seams

Open = Callable[..., Engine]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Return a function that opens the same knowledge base, the one before closed like a command closes it."""
    engines: list[Engine] = []

    def open_again(workers: int = 2) -> Engine:
        for engine in engines:
            engine.close()
        places = locate({"KBSYNC_HOME": str(tmp_path / "home")})
        engines.append(open_engine(places, Settings(workers=workers), hashed_seams(HashDevice())))
        return engines[-1]

    yield open_again
    for engine in engines:
        engine.close()


def written(folder: Path, count: int) -> list[str]:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        (folder / f"{number:02}.md").write_text(f"# Part {number}\n\nThe {number}th word about medlars.\n")
    return [str(path) for path in sorted(folder.iterdir())]


def worked(engine: Engine, files: list[str], outcome: Outcome) -> Batch:
    """Add files to the end, as the command does it."""
    workers = LocalWorkers(engine)
    batch = Batch(Operations(engine, None), outcome, Choices(), check=workers.check)
    batch.take(files, named=False)
    workers.start()
    try:
        batch.run()
    finally:
        workers.stop()
    return batch


def current(engine: Engine) -> int:
    return engine.kb.documents()[1]


@pytest.mark.parametrize("workers", [1, 3])
def test_all_files_are_worked_and_told(
    opened: Open, tmp_path: Path, workers: int, capsys: pytest.CaptureFixture[str]
) -> None:
    files = written(tmp_path / "docs", 25)
    engine, outcome = opened(workers), Outcome(quiet=False)
    batch = worked(engine, files, outcome)
    assert (batch.done, batch.total, batch.queued) == (25, 25, 0)
    assert outcome.summary() == "Added 25 documents. 0 failed. 0 skipped (already indexed)."
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Added: ")]
    assert sorted(told) == [f"Added: {number:02}.md (1 chunk)" for number in range(25)]
    assert current(engine) == 25


@pytest.mark.parametrize("limit", [{"at_once": 1}, {"bytes_at_once": 60}, {"bytes_at_once": 1}], ids=str)
def test_no_more_than_at_once_are_in_the_queue(opened: Open, tmp_path: Path, limit: dict[str, int]) -> None:
    files = written(tmp_path / "docs", 12)
    engine, most = opened(), 0

    class Watched(Operations):
        def jobs_by_id(self, job_ids: object) -> dict[str, object]:
            nonlocal most
            most = max(most, engine.kb.unsettled())
            return super().jobs_by_id(job_ids)  # type: ignore[arg-type]

    workers = LocalWorkers(engine)
    batch = Batch(Watched(engine, None), Outcome(quiet=True), Choices(), check=workers.check, **limit)  # type: ignore[arg-type]
    batch.take(files, named=False)
    workers.start()
    try:
        batch.run()
    finally:
        workers.stop()
    assert current(engine) == 12
    assert most <= 1


def test_ctrl_c_leaves_a_state_from_which_the_same_files_go_on(opened: Open, tmp_path: Path) -> None:
    files = written(tmp_path / "docs", 40)
    engine, outcome = opened(), Outcome(quiet=True)
    workers = LocalWorkers(engine)

    def interrupted() -> None:
        if len(outcome.added) >= 5:
            raise KeyboardInterrupt

    batch = Batch(Operations(engine, None), outcome, Choices(), at_once=8, check=interrupted)
    batch.take(files, named=False)
    workers.start()
    with pytest.raises(KeyboardInterrupt):
        batch.run()
    workers.stop()
    queue = engine.kb.statistics()["queue"]
    assert queue["processing"] == 0  # type: ignore[index]
    indexed = current(engine)
    assert 5 <= indexed < 40
    left = set(os.listdir(engine.stored.staging_dir))

    engine, again = opened(), Outcome(quiet=True)
    worked(engine, files, again)
    assert len(again.added) + len(again.skipped) == 40
    # What waited in the queue is worked at once: it is indexed by the time its file is looked at, or its job is met.
    assert indexed <= len(again.skipped) <= indexed + queue["queued"]  # type: ignore[index]
    assert current(engine) == 40
    assert os.listdir(engine.stored.staging_dir) == [], f"{left} were left by the first"
    assert opened().kb.check() == [], "one that is to end would not look through all of it"


class Damaged(Engine):
    """An engine whose database cannot be used any more."""

    def worker(self, *_: object) -> Worker:
        raise StopEngine("The database is damaged.")


def test_a_failure_of_a_worker_is_raised_where_the_files_are_waited_for(opened: Open, tmp_path: Path) -> None:
    engine = opened(1)
    damaged = Damaged(**{field.name: getattr(engine, field.name) for field in fields(engine)})
    with pytest.raises(StopEngine):
        worked(damaged, written(tmp_path / "docs", 1), Outcome(quiet=True))


def test_a_file_that_is_named_twice_is_added_once(opened: Open, tmp_path: Path) -> None:
    (path,) = written(tmp_path / "docs", 1)
    outcome = Outcome(quiet=True)
    batch = worked(opened(), [path, path], outcome)
    assert batch.total == 1
    assert outcome.summary() == "Added 1 documents. 0 failed. 0 skipped (already indexed)."


def test_more_files_than_fit_at_once_are_queued_without_waiting(opened: Open, tmp_path: Path) -> None:
    engine, outcome = opened(), Outcome(quiet=True)
    batch = Batch(Operations(engine, None), outcome, Choices(), at_once=5)
    batch.take(written(tmp_path / "docs", 23), named=False)
    batch.queue()
    assert len({queued["job_id"] for queued in outcome.queued}) == 23
    assert engine.kb.unsettled() == 23
