"""`kbsync service` tells what was done and how the service is, in words and as JSON, with its exit codes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kbsync.config.locations import locate
from kbsync.errors import ServiceFailed
from kbsync.interfaces.cli.app import app
from kbsync.interfaces.service import early_ends, here
from kbsync.interfaces.service.early_ends import EarlyEnds
from kbsync.interfaces.service.service import State

FILE = "/home/me/.config/systemd/user/kbsync.service"


class Installed:
    """A service that does what it is told and says so."""

    def __init__(self) -> None:
        self.now = State(True, True, "running", 42, FILE)
        self.log: Sequence[str] = ("echo", "the quince ripens late")

    def install(self, *, start: bool) -> list[str]:
        return [f"Installed, {'started' if start else 'not started'}."]

    def uninstall(self) -> list[str]:
        return ["Removed.", "Nothing else went."]

    def start(self) -> list[str]:
        return ["Started."]

    def stop(self) -> list[str]:
        raise ServiceFailed("The manager refused.", hint="Ask it why.")

    def restart(self) -> list[str]:
        return ["Restarted."]

    def state(self) -> State:
        return self.now

    def log_command(self, lines: int, *, follow: bool) -> Sequence[str]:
        return (*self.log, str(lines), str(follow))


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Installed:
    found = Installed()
    monkeypatch.setattr(here, "service_here", lambda _places, _environ: found)
    monkeypatch.setenv("KBSYNC_HOME", str(tmp_path))
    return found


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("install", "Installed, started.\n"),
        ("install --no-start", "Installed, not started.\n"),
        ("uninstall", "Removed.\nNothing else went.\n"),
        ("start", "Started.\n"),
        ("restart", "Restarted.\n"),
    ],
)
def test_what_was_done_is_told_a_line_each(service: Installed, words: str, told: str) -> None:
    answer = CliRunner().invoke(app, ["service", *words.split()])
    assert (answer.exit_code, answer.stdout) == (0, told)


def test_what_was_refused_is_told_with_what_to_do(service: Installed) -> None:
    answer = CliRunner().invoke(app, ["service", "stop"])
    assert (answer.exit_code, answer.stderr) == (1, "kbsync: The manager refused. Ask it why.\n")


def test_state_is_told_as_json(service: Installed) -> None:
    answer = CliRunner().invoke(app, ["service", "status", "--json"])
    assert answer.exit_code == 0
    assert json.loads(answer.stdout) == {
        "installed": True,
        "is_current": True,
        "state": "running",
        "pid": 42,
        "file": FILE,
        "notices": [],
    }


@pytest.mark.parametrize(
    ("state", "lines", "code"),
    [
        (State(True, True, "running", 42, FILE), ["service    running (process 42)", f"file       {FILE}"], 0),
        (
            State(True, False, "stopped", None, FILE, ("It stops when you log out.",)),
            ["service    stopped", f"file       {FILE} (out of date)", "! It stops when you log out."],
            4,
        ),
        (State(False, False, "stopped", None, FILE), ["service    not installed"], 4),
        (State(True, True, "starting", 42, FILE), ["service    starting (process 42)", f"file       {FILE}"], 4),
    ],
)
def test_state_is_told_in_lines_and_by_the_exit_code(
    service: Installed, state: State, lines: list[str], code: int
) -> None:
    service.now = state
    answer = CliRunner().invoke(app, ["service", "status"])
    assert (answer.exit_code, answer.stdout.splitlines()) == (code, lines)


def test_the_log_is_shown_by_the_program_that_keeps_it(service: Installed, capfd: pytest.CaptureFixture[str]) -> None:
    assert CliRunner().invoke(app, ["service", "logs", "-n", "7", "--follow"]).exit_code == 0
    assert capfd.readouterr().out == "the quince ripens late 7 True\n"
    service.log = ("false",)
    assert CliRunner().invoke(app, ["service", "logs"]).exit_code == 1
    service.log = ("/nowhere/journalctl",)
    assert CliRunner().invoke(app, ["service", "logs"]).exit_code == 1


def test_where_nothing_was_said_yet_that_is_told(service: Installed, tmp_path: Path) -> None:
    service.log = ("tail", str(tmp_path / "kbsync.log"))
    service.log_command = lambda lines, *, follow: service.log  # type: ignore[method-assign]
    answer = CliRunner().invoke(app, ["service", "logs"])
    assert (answer.exit_code, answer.stdout) == (3, "")
    assert "There is no log yet" in answer.stderr


@pytest.mark.parametrize("verb", ["install", "start", "restart"])
def test_whoever_asks_for_a_start_need_not_wait_for_those_that_failed(
    service: Installed, tmp_path: Path, verb: str
) -> None:
    """S03: the waits are for what nobody looks after."""
    places = locate({"KBSYNC_HOME": str(tmp_path)})
    places.make_folders()
    early_ends.write(places.early_ends_file, EarlyEnds(9, 1e9))
    CliRunner().invoke(app, ["service", verb])
    assert early_ends.read(places.early_ends_file) == EarlyEnds()
