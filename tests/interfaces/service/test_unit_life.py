"""The unit under a real systemd user manager, from its installation to its end, through all that may befall it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.service.tools import needed
from tests.meta.checkout import ROOT

_MANAGER = "/lib/systemd/systemd"
_PREFLIGHT = (
    "mount -t tmpfs tmpfs /run && umount -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && mkdir {0}"
)
_LINGER = (
    "It stops when you log out and starts at the next login: `sudo loginctl enable-linger me` has it run all the time."
)


def _require_a_manager() -> None:
    needed("systemctl", "systemd-analyze", "setpriv", "unshare")
    if os.geteuid() != 0 or not os.access(_MANAGER, os.X_OK):
        pytest.skip("a user manager of one's own takes root and Debian's package systemd")
    group = f"/sys/fs/cgroup/kbsync-test-{os.getpid()}"
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--cgroup", "--mount-proc", "--propagation", "private"]
    tried = subprocess.run(
        [*namespaces, "sh", "-c", f"{_PREFLIGHT.format(group)} && rmdir {group}"], capture_output=True
    )
    if tried.returncode:
        pytest.skip(f"this machine gives no namespaces or control groups: {tried.stderr.decode().strip()}")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    _require_a_manager()
    home = tmp_path_factory.mktemp("unit") / "my home"
    home.mkdir()
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("KBSYNC_", "XDG_"))}
    done = subprocess.run(
        [
            *("bash", str(Path(__file__).with_name("user_manager.sh")), str(home)),
            *(sys.executable, "-m", "tests.interfaces.service.unit_life"),
        ],
        cwd=ROOT,
        env={**environ, "USER": "me", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    told = [line for line in done.stdout.splitlines() if line.startswith("SEEN ")]
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(told[0].removeprefix("SEEN "))
    assert isinstance(answer, dict)
    return answer


@pytest.mark.timeout(300)
def test_an_installed_unit_is_ready_when_its_socket_answers(seen: dict[str, Any], told: Callable[[str], None]) -> None:
    """S04: with all its hardening."""
    wrote, at_login, drop_in, runs, linger = seen["installed"]
    assert re.fullmatch(r"Wrote .*/my home/\.config/systemd/user/kbsync\.service\.", wrote)
    assert at_login == "It starts at login."
    assert "shorter.conf hold too" in drop_in
    assert runs.startswith("The service runs (process ")
    assert linger == _LINGER
    assert seen["state"] == ["running", True, True, True]
    assert seen["ready with its socket"]
    assert seen["confined"]
    assert seen["enabled"] == ["kbsync.service"], "it starts once"
    assert seen["folder is private"] == "0o600"
    told(
        "unit under a real `systemd --user`: ready, reload, killed child, crash, watchdog, stop, 78, crash loop played"
    )


@pytest.mark.timeout(300)
def test_installed_twice_nothing_more_happens(seen: dict[str, Any]) -> None:
    assert seen["before"] == ["stopped", False, ["There is no service to remove."]]
    up_to_date, *told = seen["installed again"]
    assert up_to_date.endswith("kbsync.service is up to date.")
    assert told == [line for line in seen["installed"] if "hold" in line or "runs" in line or "log out" in line]
    code, out, err = seen["told"]
    assert (code, err) == (0, "")
    assert out.startswith("service    running (process ")


@pytest.mark.timeout(300)
def test_another_kbsync_takes_its_place(seen: dict[str, Any]) -> None:
    is_current, notice = seen["out of date"]
    assert not is_current
    assert "`kbsync service install` writes it anew" in notice
    assert seen["upgraded"][0].endswith("kbsync.service anew.")
    assert seen["upgraded to another process"]


@pytest.mark.timeout(300)
def test_any_name_reaches_the_program_as_it_is(seen: dict[str, Any]) -> None:
    """S02: spaces, quotes, per cent, dollars, backslashes."""
    assert seen["odd names"]


@pytest.mark.timeout(300)
def test_a_reload_changes_the_folders_and_not_the_process(seen: dict[str, Any]) -> None:
    assert seen["reloaded"] == [True, "0", "watching 2 folders"]


@pytest.mark.timeout(300)
def test_a_killed_child_leaves_the_unit_up_and_none_speaks_for_it(seen: dict[str, Any]) -> None:
    """S04: as where memory runs out."""
    assert seen["after a killed child"] == ["active", True, "0"]
    assert seen["children know the manager"] == []


@pytest.mark.timeout(300)
def test_what_crashed_or_hung_is_started_again(seen: dict[str, Any]) -> None:
    assert seen["after a crash"] == [True, "1"]
    assert seen["after it hung"] == ["2", True], "and the messages tell where"


@pytest.mark.timeout(300)
def test_told_to_stop_it_ends_in_order(seen: dict[str, Any]) -> None:
    assert seen["stopped in time"]
    assert seen["ended"] == ["success", "0", "stopped"]
    assert seen["early ends forgotten"]


@pytest.mark.timeout(300)
def test_beside_a_daemon_that_was_started_by_hand_it_waits_and_comes_after_it(seen: dict[str, Any]) -> None:
    state, text = seen["beside another"]
    assert state == "activating"
    assert text.startswith("waiting for another kbsync to end: The daemon (process PID) works on ")
    assert seen["told beside another"].startswith("The service is starting: waiting for another kbsync to end")
    assert seen["after another"] == [True, "0"]


@pytest.mark.timeout(300)
def test_a_bad_configuration_is_not_started_again(seen: dict[str, Any]) -> None:
    """S03: exit code 78."""
    assert "It ended with exit code 78 and is not started again by itself." in seen["bad configuration"]
    assert seen["not started again"] == ["failed", "78", "0"]


@pytest.mark.timeout(300)
def test_starts_that_soon_end_wait_longer(seen: dict[str, Any]) -> None:
    """S03: the third one, and it says so."""
    state, text, restarts = seen["crash loop"]
    assert (state, restarts) == ("activating", "2")
    assert re.fullmatch(r"waiting \d+ seconds: the last 2 starts soon ended, the log tells why", text)


@pytest.mark.timeout(300)
def test_uninstalled_all_of_ours_is_gone_and_nothing_else(seen: dict[str, Any]) -> None:
    assert seen["uninstalled"][0].startswith("Removed ")
    assert seen["uninstalled again"] == ["There is no service to remove."]
    assert seen["left"] == ["kbsync.service.d", "shorter.conf"], "what the user wrote"
    assert seen["at the end"] == [False, "stopped"]
