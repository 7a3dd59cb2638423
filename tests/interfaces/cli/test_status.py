"""`status` without the daemon: what the database says, what needs a person, and that a reindex waits."""

from __future__ import annotations

import json
import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kbsync.config.locations import locate
from kbsync.daemon.lock import DataLock
from kbsync.interfaces.cli import client
from kbsync.interfaces.cli.app import app
from kbsync.interfaces.service import early_ends
from kbsync.interfaces.service.early_ends import EarlyEnds
from kbsync.store import jobs, sources
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


def test_status_without_the_daemon_says_when_all_folders_were_looked_through(world: World) -> None:
    engine = SimulatedEngine(world)
    try:
        engine.rescan()
        walked = engine.engine.readers.read(sources.listed)[0].last_scan_at
    finally:
        engine.close()
    assert walked is not None
    answer = status(world.home)
    assert answer["schedule"][0]["last"] == answer["sources"][0]["last_scan_at"] is not None


def test_status_without_the_daemon_says_when_each_job_of_the_timetable_ran_last(world: World) -> None:
    engine = SimulatedEngine(world)
    try:
        engine.daemon.upkeep.ask("check")
        engine.daemon.upkeep.step()
        ran = datetime.fromtimestamp(engine.clock.now(), UTC)
    finally:
        engine.close()
    schedule = {job["name"]: job for job in status(world.home)["schedule"]}
    assert list(schedule) == ["rescan", "logs", "retry", "reindex", "retention", "compact", "check"]
    assert schedule["check"] == {
        "name": "check",
        "every": "24h",
        "last": ran.isoformat(timespec="seconds"),
        "next": None,
        "state": "stopped",
        "detail": None,
    }
    assert schedule["retry"]["last"] is None
    shown = CliRunner().invoke(app, ["status"], env={"KBSYNC_HOME": str(world.home)}).stdout
    assert f"check      24h    {ran.astimezone():%Y-%m-%d %H:%M}  -     stopped" in shown


@pytest.mark.parametrize("doing", [None, "filling the full-text index anew"])
def test_of_a_daemon_that_starts_it_is_told_at_once_what_it_does(tmp_path: Path, doing: str | None) -> None:
    lock = DataLock(locate({"KBSYNC_HOME": str(tmp_path)}).lock_file)
    lock.acquire("daemon")
    try:
        since = None if doing is None else 1e9
        lock.publish("daemon", None, doing, since)
        found = status(tmp_path)
        assert (found["running"], found["state"], found["since"]) == (False, "starting", since)
        assert found["doing"] == (doing or "getting ready")
        assert (found["database"], found["sources"], found["notices"]) == (None, [], [])
        answer = CliRunner().invoke(app, ["status"], env={"KBSYNC_HOME": str(tmp_path), "TZ": "UTC"})
        assert f"starting   {found['doing']}{'' if doing is None else ', since '}" in answer.stdout
        assert f"The daemon (process {os.getpid()}) is starting." in answer.stderr
    finally:
        lock.release()
    assert status(tmp_path)["state"] == "stopped"


def test_a_command_does_not_wait_for_a_daemon_that_somebody_must_help(tmp_path: Path) -> None:
    """D15: a full disk."""
    lock = DataLock(locate({"KBSYNC_HOME": str(tmp_path)}).lock_file)
    lock.acquire("daemon")
    try:
        lock.publish("daemon", None, "The disk is full. Free some space.", 1e9, is_held_up=True)
        answer = CliRunner().invoke(app, ["search", "quince"], env={"KBSYNC_HOME": str(tmp_path)})
        assert answer.exit_code == 4
        assert f"The daemon (process {os.getpid()}) is not ready: The disk is full. Free some space." in answer.stderr
    finally:
        lock.release()


def test_a_pipe_in_place_of_the_database_is_told_and_not_waited_for(tmp_path: Path) -> None:
    places = locate({"KBSYNC_HOME": str(tmp_path)})
    places.make_folders()
    os.mkfifo(places.database)
    answer = CliRunner().invoke(app, ["status"], env={"KBSYNC_HOME": str(tmp_path)})
    assert (answer.exit_code, f"{places.database} is no file" in answer.stderr) == (1, True)


def test_of_a_service_that_ends_again_and_again_that_is_told(tmp_path: Path) -> None:
    """S03: while it waits for its next start, nothing runs."""
    places = locate({"KBSYNC_HOME": str(tmp_path)})
    places.make_folders()
    early_ends.write(places.early_ends_file, EarlyEnds(1, 1e9))
    assert status(tmp_path)["notices"] == []
    early_ends.write(places.early_ends_file, EarlyEnds(4, 1e9))
    told = "The last 4 starts of the service soon ended; `kbsync service logs` tells why."
    assert status(tmp_path)["notices"] == [told]


@pytest.mark.parametrize("command", [["status"], ["search", "quince"], ["jobs", "list"], ["wait"]], ids=" ".join)
def test_a_daemon_that_hangs_is_told_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """It is stopped, or waits for a disk: its socket takes requests and nobody reads them."""
    monkeypatch.setattr(client, "_STATUS_S", 0.05)
    places = locate({"KBSYNC_HOME": str(tmp_path)})
    places.make_folders()
    lock = DataLock(places.lock_file)
    lock.acquire("daemon")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(places.socket_path())
        listening.listen()
        lock.publish("daemon", places.socket_path())
        answer = CliRunner().invoke(app, command, env={"KBSYNC_HOME": str(tmp_path)})
    lock.release()
    assert answer.exit_code == 4
    assert "it hangs" in answer.stderr
