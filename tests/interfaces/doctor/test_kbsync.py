"""What is judged of kbsync itself: daemon, port, service, configuration, database. Each line is a decision."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kbsync.daemon.lock import Owner
from kbsync.errors import ConfigurationError, DatabaseDamaged, StopEngine
from kbsync.interfaces.doctor import background, configuration, process, storage
from kbsync.interfaces.doctor.finding import Finding
from kbsync.interfaces.doctor.process import Port, Running
from kbsync.interfaces.doctor.storage import Database
from kbsync.interfaces.doctor.subject import DaemonSeen
from kbsync.interfaces.service.service import State


def told(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.state, finding.remedy) for finding in findings]


DAEMON = Owner(41, "daemon", "/s k/kbsync.sock")
ANSWERS: dict[str, Any] = {"version": "1.2"}
RUNS = Running(DaemonSeen(DAEMON, DAEMON, ANSWERS), True, None, None, None, "1.2", "/kb.lock")
NOBODY = replace(RUNS, seen=DaemonSeen(None, None), is_alive=False)
SILENT = replace(RUNS, seen=DaemonSeen(DAEMON, DAEMON, None, "connection refused"))


def starting(doing: str, *, is_held_up: bool = False) -> Running:
    owner = Owner(41, "daemon", None, doing, 1.0, is_held_up)
    return replace(RUNS, seen=DaemonSeen(owner, owner, None, "it has not opened its socket yet"))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (NOBODY, [("ok", "")]),
        (RUNS, [("ok", "")]),
        (replace(RUNS, service_pid=41), [("ok", "")]),
        (
            replace(NOBODY, seen=DaemonSeen(None, DAEMON), socket_left="/s k/kbsync.sock"),
            [("warning", "rm /kb.lock '/s k/kbsync.sock'")],
        ),
        (replace(NOBODY, seen=DaemonSeen(None, DAEMON)), [("warning", "rm /kb.lock")]),
        (replace(NOBODY, socket_left="/s k/kbsync.sock"), [("warning", "rm '/s k/kbsync.sock'")]),
        (replace(RUNS, is_alive=False), [("ok", "")]),  # it answers out of a container
        (replace(SILENT, is_alive=False, holder=77), [("problem", "kill 77")]),
        (
            replace(SILENT, is_alive=False),
            [("problem", "Restart the machine, or end the container that holds it.")],
        ),
        (replace(RUNS, seen=DaemonSeen(Owner(5, "command", None), None)), [("ok", "")]),
        (replace(SILENT, seen=DaemonSeen(Owner(0, "command", None), None), is_alive=False), [("ok", "")]),
        (starting("the database is migrated"), [("ok", "")]),
        (starting("the disk is full.", is_held_up=True), [("problem", "kbsync status")]),
        (SILENT, [("problem", "kill 41, then start it again.")]),
        (
            replace(SILENT, seen=replace(SILENT.seen, hangs=True)),
            [("problem", "kill -CONT 41; if it goes on hanging: kill -9 41, then start it again.")],
        ),
        (replace(SILENT, service_pid=41), [("problem", "kbsync service restart")]),
        (replace(RUNS, service_pid=50), [("warning", "kill 41")]),
        (replace(RUNS, installed="1.3"), [("warning", "kill 41, then start it again.")]),
        (replace(RUNS, installed="1.3", service_pid=41), [("warning", "kbsync service restart")]),
    ],
)
def test_daemon(found: Running, expected: list[tuple[str, str]]) -> None:
    assert told(process.judge(found)) == expected


def test_a_daemon_that_rests_says_so() -> None:
    resting = {**ANSWERS, "rest": {"why": "pause", "detail": "Paused until 12:00."}}
    (finding,) = process.judge(replace(RUNS, seen=DaemonSeen(DAEMON, DAEMON, resting)))
    assert (finding.state, "Paused until 12:00." in finding.detail) == ("ok", True)


def test_a_daemon_without_its_port_is_to_be_restarted_also_where_it_is_free_by_now() -> None:
    (finding,) = process.judge_port(replace(PORT, is_missed=True))
    assert (finding.state, "Restart the daemon" in finding.remedy) == ("warning", True)
    (finding,) = process.judge_port(replace(PORT, is_missed=True, holder=(3, "nginx")))
    assert "nginx (process 3)" in finding.detail


PORT = Port(8765, True, False, None, "/c.toml")


@pytest.mark.parametrize(
    ("port", "state", "words"),
    [
        (PORT, "ok", "free"),
        (replace(PORT, is_enabled=False, holder=(3, "nginx")), "ok", "as it is set"),
        (replace(PORT, is_ours=True), "ok", "has its port"),
        (replace(PORT, number=0), "ok", "any free port"),
        (replace(PORT, holder=(3, "nginx")), "warning", "nginx (process 3)"),
        (replace(PORT, holder=(0, "")), "warning", "another user's program"),
    ],
)
def test_port(port: Port, state: str, words: str) -> None:
    (finding,) = process.judge_port(port)
    assert finding.state == state
    assert words in finding.detail
    assert ("port = 0 under [http] in /c.toml" in finding.remedy) == (state == "warning")


SERVICE = State(True, True, "running", 41, "/u/kbsync.service")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (SERVICE, [("ok", "")]),
        (replace(SERVICE, running="stopped", pid=None), [("ok", "")]),
        (State(False, False, "stopped", None, "/u"), [("ok", "")]),
        # Without a service nothing is the worse for what would be said of one.
        (State(False, False, "stopped", None, "/u", ("No manager: `loginctl x`.",)), [("ok", "")]),
        (replace(SERVICE, is_current=False), [("warning", "kbsync service install")]),
        (
            replace(SERVICE, is_current=False, notices=("Out of date: `kbsync service install` writes it anew.",)),
            [("warning", "kbsync service install")],
        ),
        (
            replace(SERVICE, running="failed", pid=None, notices=("It ended: `kbsync service logs` tells why.",)),
            [("problem", "kbsync service restart")],
        ),
        (
            replace(SERVICE, notices=("It stops at logout: `sudo loginctl enable-linger ann` has it run on.",)),
            [("warning", "sudo loginctl enable-linger ann")],
        ),
        (replace(SERVICE, notices=("/u.d/own.conf changes the unit.",)), [("ok", "")]),
    ],
)
def test_service(state: State, expected: list[tuple[str, str]]) -> None:
    assert told(background.judge(state)) == expected


WRONG = ConfigurationError("No such pattern.", hint="Correct it.")
CORRECT = "Correct /c.toml; `kbsync config check` says when it is right."


@pytest.mark.parametrize(
    ("refused", "wrong", "closed", "expected"),
    [
        (None, [], [], [("ok", "")]),
        (WRONG, [], [], [("problem", CORRECT)]),
        (None, [WRONG], [], [("problem", "Correct it.")]),
        (None, [], ["/p w.txt"], [("warning", "chmod u+r '/p w.txt'")]),
    ],
)
def test_configuration(
    refused: ConfigurationError | None,
    wrong: list[ConfigurationError],
    closed: list[str],
    expected: list[tuple[str, str]],
) -> None:
    assert told(configuration.judge("/c.toml", refused, wrong, closed, is_there=True, count=1)) == expected


def test_variables_that_nobody_reads() -> None:
    assert told(configuration.judge_variables([])) == [("ok", "")]
    assert told(configuration.judge_variables([("KBSYNC_X", "No such one.")])) == [("warning", "unset KBSYNC_X")]


NOW = 1_800_000_000.0
BASE = Database("/kb.sqlite3", 1000, checked_at=NOW - 3600)
REPAIR = "kbsync check --repair"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (BASE, [("ok", "")]),
        (Database("/kb.sqlite3", None), [("ok", "")]),
        (replace(BASE, checked_at=None), [("ok", "")]),
        (replace(BASE, checked_at=NOW - 20 * 86400), [("warning", "kbsync check")]),
        (replace(BASE, wrong=("Vectors are missing.",)), [("problem", REPAIR)]),
        (replace(BASE, noted="malformed"), [("problem", REPAIR)]),
        (
            replace(BASE, refused=DatabaseDamaged("It is damaged.", hint="`kbsync check --repair` mends it.")),
            [("problem", REPAIR)],
        ),
        (
            replace(BASE, refused=StopEngine("It has schema 99.", hint="Install the newer kbsync.")),
            [("problem", "Install the newer kbsync.")],
        ),
        (replace(BASE, checked_at=None, is_busy=True), [("unknown", "Run `kbsync doctor` when it has ended.")]),
    ],
)
def test_database(found: Database, expected: list[tuple[str, str]]) -> None:
    assert told(storage.judge_database(found, NOW)) == expected


def test_a_disk_that_holds_up_the_settings_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings resolve every path, so they are not read either; and one whose answer is an error is not silent."""
    gone, forever = tmp_path / "gone", threading.Event()
    config = tmp_path / "config.toml"
    config.write_text(f"[[sources]]\npath = '{gone}'\n[[sources]]\npath = '{tmp_path}/absent'\n")
    lexists = os.path.lexists
    monkeypatch.setattr(
        os.path, "lexists", lambda path: bool(forever.wait()) if path.startswith(str(gone)) else lexists(path)
    )
    try:
        assert configuration.silent_among(configuration.folders_named(str(config)), 0.2) == [str(gone)]
    finally:
        forever.set()
    assert configuration.folders_named(str(tmp_path / "absent.toml")) == []
