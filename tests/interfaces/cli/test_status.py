"""`status` without the daemon: what the database says, what needs a person, and that a reindex waits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from kbsync.daemon.lock import DataLock
from kbsync.interfaces.cli.app import app
from kbsync.store import jobs
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World


def status(home: Path) -> dict[str, Any]:
    answer = CliRunner().invoke(app, ["status", "--json"], env={"KBSYNC_HOME": str(home)})
    assert answer.exit_code == 4
    found = json.loads(answer.stdout)
    assert isinstance(found, dict)
    return found


def test_status_without_the_daemon_says_what_was_added_what_failed_and_that_a_reindex_waits(world: World) -> None:
    engine = SimulatedEngine(world)
    try:
        engine.fs.write(f"{NOTES}/quince.md", b"quince")
        engine.fs.write(f"{NOTES}/broken.pdf", b"corrupt")
        engine.fs.write(f"{NOTES}/locked.pdf", b"password 1234\nmedlar")
        engine.rescan()
        engine.note("a note of medlars")
    finally:
        engine.close()
    found = status(world.home)
    assert (found["running"], found["files"]["seen"], found["added"]["indexed"]) == (False, 3, 1)
    told = "\n".join(found["notices"])
    assert "1 file in /simulated/notes is protected by a password" in told
    assert "1 file in /simulated/notes is left alone" in told
    # The packaged model is configured, the vectors are those of the test's own.
    assert "Another model is configured: `kbsync run` makes the index anew" in told
    assert found["sources"][0]["files"]["seen"] == 3


def test_status_without_the_daemon_says_of_an_empty_database_that_it_is_built_anew(world: World) -> None:
    SimulatedEngine(world).close()
    Path(world.locations.database).write_bytes(b"")
    answer = CliRunner().invoke(app, ["status"], env={"KBSYNC_HOME": str(world.home)})
    assert "is empty or damaged" in answer.stderr
    assert "`kbsync run` builds it anew" in answer.stderr
    assert "schema" not in answer.stderr


def test_what_a_killed_process_was_reading_waits_and_is_not_being_read(world: World) -> None:
    engine = SimulatedEngine(world)
    try:
        engine.fs.write(f"{NOTES}/quince.md", b"quince")
        job = engine.kb.adding.add_note("a note of medlars", None)
        engine.engine.writer.run(lambda connection: jobs.begin(connection, job, 1e12, 0.0))
    finally:
        engine.engine.writer.close()  # no end that puts anything back
        engine.close()
    assert status(world.home)["queue"] == {"queued": 1, "processing": 0}
    lock = DataLock(world.locations.lock_file)
    lock.acquire("command")
    try:
        assert status(world.home)["queue"] == {"queued": 0, "processing": 1}, "another command reads"
    finally:
        lock.release()


def test_status_before_anything_was_indexed_has_every_field_of_the_answer(tmp_path: Path) -> None:
    found = status(tmp_path / "home")
    assert (found["sources"], found["notices"]) == ([], [])
