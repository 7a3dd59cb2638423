"""One process works on a data folder at a time; what a dead one left behind is no hindrance."""

from __future__ import annotations

import os
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbsync.daemon.lock import DataLock, owner_of
from tests.end_to_end.conftest import Road
from tests.end_to_end.program import Program


def test_a_second_daemon_ends_with_1_and_names_the_first(road: Road) -> None:
    """P14: one daemon works on a data folder."""
    answer = road.program.run("run", code=1)
    assert f"process {road.daemon.process.pid})" in answer.stderr
    assert road.program.json("status")["pid"] == road.daemon.process.pid


def test_without_a_daemon_status_says_what_the_database_knows_and_ends_with_4(tmp_path: Path) -> None:
    program = Program(tmp_path)
    empty = program.json("status", code=4)
    assert (empty["running"], empty["database"]) == (False, None)
    assert "kbsync run" in program.run("wait", code=4).stderr
    program.run("check")
    known = program.json("status", code=4)
    assert (known["running"], known["database"]["total_chunks"]) == (False, 0)
    assert known["queue"] == {"queued": 0, "processing": 0}


def test_add_and_search_work_without_a_daemon_under_the_same_lock(tmp_path: Path) -> None:
    """P14: a command waits for the other one."""
    program, path = Program(tmp_path / "home"), tmp_path / "report.md"
    path.write_text("# Report\n\nThe barometer fell all night.\n")
    lock = DataLock(program.places.lock_file)
    lock.acquire("command")
    waited: list[bool] = []

    def let_go() -> None:
        waited.append(True)
        lock.release()

    # The command must still wait when the lock is let go: it needs about a second to begin.
    release = threading.Timer(3.0, let_go)
    release.start()
    assert program.run("add", str(path), "--title", "Weather").stdout == "Added: report.md (1 chunk)\n"
    assert waited, "it did not wait for the lock"
    release.join()
    assert program.run("add", str(path)).stdout == "Skipped: report.md (already indexed)\n"
    answer = program.json("search", "barometer")
    assert (answer["mode"], answer["hits"][0]["title"]) == ("lexical", "Weather")
    assert "daemon is not running" in answer["notice"]
    assert owner_of(program.places.lock_file) is None


def test_what_a_killed_daemon_left_is_no_hindrance(tmp_path: Path) -> None:
    """P14: a lock file and a socket of a process that is dead."""
    program = Program(tmp_path)
    with program.daemon() as daemon:
        socket = Path(program.places.socket_path())
        daemon.signal(signal.SIGKILL)
        assert daemon.ended(within_s=10) == -signal.SIGKILL
        assert daemon.children_left() == []
        assert stat.S_ISSOCK(socket.stat().st_mode), "it had no time to clean up"
        assert program.json("status", code=4)["running"] is False
    with program.daemon() as again:
        status = program.json("status")
        assert (status["running"], status["pid"]) == (True, again.process.pid)
        # SIGINT while the model loads: an end in good order all the same.
        again.signal(signal.SIGINT)
        assert again.ended(within_s=10) == 0, again.messages
        assert again.children_left() == []
    assert not socket.exists()
    assert "Traceback" not in again.messages


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Return an empty folder whose name is so short that a socket has room in it; a test's own may be too long."""
    with tempfile.TemporaryDirectory(prefix="kb") as folder:
        yield Path(folder)


@pytest.mark.parametrize("name", ["a home with spaces", "long " + "x" * 120])
def test_any_home_will_do_and_a_long_one_moves_the_socket(short_path: Path, name: str) -> None:
    program = Program(short_path / name)
    with program.daemon() as daemon:
        owner = owner_of(program.places.lock_file)
        assert owner is not None
        assert owner.socket is not None
        socket = Path(owner.socket)
        assert len(os.fsencode(socket)) <= 103
        assert stat.S_IMODE(socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
        assert socket.is_relative_to(tempfile.gettempdir() if name.startswith("long") else program.home)
        assert program.json("status")["running"] is True
        daemon.signal(signal.SIGTERM)
        assert daemon.ended(within_s=10) == 0, daemon.messages
    assert not socket.exists()
    if name.startswith("long"):
        assert not socket.parent.exists(), "a folder of every start would be left in the temporary folder"
