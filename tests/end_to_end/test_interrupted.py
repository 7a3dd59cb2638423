"""A first scan that is told to stop, then killed, then finished: all is indexed, nothing twice, nothing left over."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kbsync.store.connection import Connection
from kbsync.store.writer import Readers
from tests.end_to_end.program import PATIENCE_S, Daemon, Program, Record
from tests.fakes.eventually import eventually

FILES = 90
pytestmark = pytest.mark.timeout(400)

Rows = list[tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Stopped:
    """How a daemon ended in the middle of the scan, and what `status` says then."""

    code: int
    seconds: float
    children_left: list[int]
    indexed_before: int
    status: Record
    messages: str


@dataclass(frozen=True, slots=True)
class Story:
    """The same data folder all along: SIGTERM, SIGKILL, a run to the end, a run with nothing to do."""

    program: Program
    folder: Path
    terminated: Stopped
    killed: Stopped
    finished: dict[str, Rows]
    idle: dict[str, Rows]


def indexed(daemon: Daemon) -> int:
    return int(daemon.client.get("status")["files"]["states"].get("indexed", 0))


def stopped(program: Program, number: signal.Signals, after: int) -> Stopped:
    """Start the daemon and signal it when so many files are indexed."""
    with program.daemon() as daemon:
        eventually(lambda: indexed(daemon) >= after, within_s=PATIENCE_S, every_s=0.05)
        before, begun = indexed(daemon), time.monotonic()
        daemon.signal(number)
        code = daemon.ended(within_s=30)
        seconds = time.monotonic() - begun
        children = daemon.children_left()
        return Stopped(code, seconds, children, before, program.json("status", code=4), daemon.messages)


@contextmanager
def opened(program: Program) -> Iterator[Readers]:
    readers = Readers(program.places.database)
    try:
        yield readers
    finally:
        readers.close()


def content(program: Program) -> dict[str, Rows]:
    """Return what the database holds that a start with nothing to do must leave alone."""

    def read(connection: Connection) -> dict[str, Rows]:
        (live,) = connection.execute("SELECT id FROM embedders").fetchone() or (None,)
        queries = {
            "documents": "SELECT id, content_hash, updated_at FROM documents ORDER BY id",
            "chunks": "SELECT id, document_id, enriched_text FROM chunks ORDER BY id",
            "fts": "SELECT id FROM chunks_fts_docsize ORDER BY id",
            "vectors": f"SELECT chunk_id, embedding FROM vectors_{live} ORDER BY chunk_id",
            "jobs": "SELECT id, state, path FROM jobs ORDER BY id",
            "origins": "SELECT path, document_id FROM origins WHERE live = 1 ORDER BY path",
        }
        return {name: list(connection.execute(query)) for name, query in queries.items()}

    with opened(program) as readers:
        return readers.read(read)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    base = tmp_path_factory.mktemp("interrupted").resolve()
    program, folder = Program(base / "home"), base / "folder"
    folder.mkdir()
    for number in range(FILES):
        text = " ".join(f"thing {number} has the property {word}," for word in range(25))
        (folder / f"file-{number:03}.md").write_text(f"# File {number}\n\n{text}\n")
    program.configure(folder)
    terminated = stopped(program, signal.SIGTERM, after=8)
    killed = stopped(program, signal.SIGKILL, after=terminated.indexed_before + 15)
    program.run("run", "--once")
    finished = content(program)
    program.run("run", "--once")
    return Story(program, folder, terminated, killed, finished, content(program))


def test_sigterm_ends_within_ten_seconds_with_exit_code_0_and_no_child(story: Story) -> None:
    """P04: with the real model and the real children."""
    assert story.terminated.code == 0, story.terminated.messages
    assert story.terminated.seconds < 10
    assert story.terminated.children_left == []
    assert "Traceback" not in story.terminated.messages


def test_sigterm_puts_what_was_being_read_back_into_the_queue(story: Story) -> None:
    """P04: uncounted."""
    status = story.terminated.status
    states = status["files"]["states"]
    assert status["queue"]["processing"] == 0
    assert status["queue"]["queued"] == states["waiting"] > 0
    assert states["indexed"] >= story.terminated.indexed_before
    assert states["indexed"] + states["waiting"] == FILES


def test_sigkill_loses_nothing_that_was_indexed(story: Story) -> None:
    assert story.killed.code == -signal.SIGKILL
    assert story.killed.children_left == []
    assert FILES > story.killed.status["files"]["states"]["indexed"] >= story.killed.indexed_before


def test_after_all_that_everything_is_indexed_once(story: Story) -> None:
    paths = sorted(os.fsencode(path) for path in story.folder.iterdir())
    assert [path for path, _document in story.finished["origins"]] == paths
    assert len({document for _path, document in story.finished["origins"]}) == FILES
    assert len(story.finished["documents"]) == FILES
    assert len({text for _id, _document, text in story.finished["chunks"]}) == len(story.finished["chunks"])
    assert {state for _id, state, _path in story.finished["jobs"]} == {"done"}


def test_after_all_that_chunks_full_text_and_vectors_agree(story: Story) -> None:
    ids = [row[0] for row in story.finished["chunks"]]
    assert len(ids) >= FILES
    assert [row[0] for row in story.finished["fts"]] == ids
    assert [row[0] for row in story.finished["vectors"]] == ids
    assert story.program.json("check") == {"ok": True, "problems": [], "notices": [], "unread": None}


def test_after_all_that_nothing_is_staged_or_left_of_the_socket(story: Story) -> None:
    assert os.listdir(story.program.places.staging_dir) == []
    assert os.listdir(story.program.places.documents_dir) == []
    assert not os.path.exists(story.program.places.socket_path())


def test_a_start_with_nothing_changed_does_nothing(story: Story) -> None:
    assert story.idle == story.finished
