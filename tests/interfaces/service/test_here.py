"""What a service is given of the shell that installs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kbsync.config.locations import locate
from kbsync.errors import ServiceFailed
from kbsync.interfaces.service.here import needed, program_here, service_here


def test_variables_that_say_where_everything_lies_go_with_it_and_no_others() -> None:
    """S02: nothing relies on the shell."""
    shell = {
        "PATH": "/home/me/bin:/usr/bin",
        "KBSYNC_HOME": "/home/me/kb",
        "KBSYNC_HTTP__PORT": "0",
        "KBSYNC_VENV": "/home/me/venv",
        "XDG_DATA_HOME": "/home/me/data",
        "XDG_STATE_HOME": "relative",
        "XDG_RUNTIME_DIR": "/run/user/1000",
        "XDG_SESSION_ID": "4",
        "PYTHONPATH": "/home/me/src",
        "NOTIFY_SOCKET": "/run/user/1000/notify",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    assert needed(shell) == {
        "KBSYNC_HOME": "/home/me/kb",
        "KBSYNC_HTTP__PORT": "0",
        "XDG_DATA_HOME": "/home/me/data",
        "PYTHONPATH": "/home/me/src",
    }


def test_a_relative_home_is_the_one_of_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert needed({"KBSYNC_HOME": "kb"}) == {"KBSYNC_HOME": str(tmp_path / "kb")}


def test_the_program_is_this_interpreter_by_its_whole_path(tmp_path: Path) -> None:
    places = locate({"KBSYNC_HOME": str(tmp_path)})
    program = program_here(places, {})
    assert program.command == (sys.executable, "-P", "-m", "kbsync", "run", "--service")
    assert program.log_file == places.log_file


def test_the_program_imports_nothing_from_the_folder_that_it_starts_in(tmp_path: Path) -> None:
    """S02: a `queue.py` lies in many a home; the same where the locale has it begin anew."""
    for name in ("queue.py", "kbsync.py"):
        (tmp_path / name).write_text("raise SystemExit('imported from the working folder')\n")
    command = [*program_here(locate({"KBSYNC_HOME": str(tmp_path)}), {}).command[:4], "--version"]
    bare = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "KBSYNC_HOME": str(tmp_path)}
    for environ in (dict(os.environ), bare):
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(sys.platform != "linux", reason="macOS has launchd")
def test_on_a_machine_without_a_service_manager_that_is_told(tmp_path: Path) -> None:
    with pytest.raises(ServiceFailed, match="neither systemd nor launchd"):
        service_here(locate({"KBSYNC_HOME": str(tmp_path)}), {"PATH": str(tmp_path)})
