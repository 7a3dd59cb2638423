"""The kernel's limit of watches, in a user namespace of its own: told, polled, and taken up again when it is raised."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these are inotify's limits")

CHECKOUT = Path(__file__).parent.parent.parent
LIMIT = 11


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what a child saw that may take so many watches: one of them is its heartbeat's."""
    base = tmp_path_factory.mktemp("limits").resolve()
    (base / "root").mkdir()
    shell = f'echo {LIMIT} >/proc/sys/user/max_inotify_watches && exec "$@"'
    child = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tests.faults.limited_watches",
        str(base / "home"),
        str(base / "root"),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", shell, "sh", *child],
        capture_output=True,
        text=True,
        timeout=100,
        env=environment,
        cwd=CHECKOUT,
        check=False,
    )
    if "unshare" in done.stderr or "cannot create" in done.stderr:
        pytest.skip(f"no user namespaces here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("SEEN ")]
    found: dict[str, Any] = json.loads(line.removeprefix("SEEN "))
    return found


def test_w03_folders_beyond_the_limit_are_counted_and_the_notice_names_the_command(seen: dict[str, Any]) -> None:
    """W03: ten of 31 folders are watched, the rest is said to be polled."""
    start = seen["start"]
    assert (start["mode"], start["folders"], start["unwatched"]) == ("native", 10, 21)
    assert "21 folders" in start["notice"]
    assert "sudo sysctl fs.inotify.max_user_watches=" in start["notice"]


def test_w03_a_change_in_an_unwatched_folder_is_found_by_the_poll(seen: dict[str, Any]) -> None:
    """W03: within half a minute, though no event came."""
    assert seen["before_the_poll"] == []
    assert [os.path.basename(path) for path in seen["after_the_poll"]] == ["a.md"]


def test_w04_a_limit_that_a_burst_of_folders_reaches_is_told_and_all_are_found(seen: dict[str, Any]) -> None:
    """W04: within a minute."""
    assert seen["after_the_burst"]["unwatched"] == 21 + 80
    assert seen["burst"] == 40


def test_w04_a_raised_limit_is_taken_up_without_a_restart(seen: dict[str, Any]) -> None:
    """W04: and then events are told at once again."""
    assert (seen["raised"]["folders"], seen["raised"]["unwatched"], seen["raised"]["notice"]) == (111, 0, None)
    assert seen["told"] == ["c.md"]
