"""F04, F30: what may not be read or written, tried by a process that has really left root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

import pytest

from tests.meta.checkout import ROOT

pytestmark = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root, to leave it")
INSIDE = "locked/inside.md"


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    # pytest's own folders are closed to other users
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o777)
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults.unprivileged", name],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "HOME": name},
        )
    assert done.returncode == 0, done.stderr
    outcome: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return outcome


def test_f04_what_is_closed_keeps_what_it_held_and_says_permission(told: dict[str, Any]) -> None:
    """F04: a file without read permission, a folder without any, a folder that may be listed and not entered."""
    assert set(told["before"]["found"].values()) == {True}
    assert set(told["closed"]["found"].values()) == {True}
    assert told["closed"]["current"] == 4
    states = told["closed"]["states"]
    assert states["closed.md"] == "failed permission"
    assert states["locked"] == "failed permission"
    assert states["open.md"] == "indexed None"
    assert told["closed"]["source"] == ["watching", "unreadable"]


def test_f04_what_is_opened_again_is_read_again(told: dict[str, Any]) -> None:
    """F04: a change of rights alone moves ctime, and is enough."""
    assert set(told["opened"]["found"].values()) == {True}
    files = {name: state for name, state in told["opened"]["states"].items() if name.endswith(".md")}
    assert set(files.values()) == {"indexed None"}
    assert told["opened"]["source"] == ["watching", None]


def test_f30_a_database_that_may_not_be_written_is_told_at_the_start_and_harmed_by_nothing(
    told: dict[str, Any],
) -> None:
    """F30: the message names the file or folder; with its rights back everything is there."""
    assert told["refused"].startswith(("StopEngine", "RetryLater", "ConfigurationError")), told["refused"]
    assert "/home/" in told["refused"]
    assert told["after"]["current"] == 4
