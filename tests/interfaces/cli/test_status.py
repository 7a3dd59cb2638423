"""`status` without the daemon: what the database says, what needs a person, and that a reindex waits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from kbsync.interfaces.cli.app import app
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


def test_status_before_anything_was_indexed_has_every_field_of_the_answer(tmp_path: Path) -> None:
    found = status(tmp_path / "home")
    assert (found["sources"], found["notices"]) == ([], [])
