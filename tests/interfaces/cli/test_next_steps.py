"""`kbsync` alone: three lines that say what to do next, by what is there."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kbsync.config.locations import locate
from kbsync.daemon.lock import DataLock
from kbsync.interfaces.cli import next_steps
from kbsync.interfaces.cli.app import app
from tests.interfaces.conftest import Service


def alone(home: Path, path: str = "/nowhere", **variables: str) -> list[str]:
    answer = CliRunner().invoke(app, [], env={"KBSYNC_HOME": str(home), "PATH": path, **variables})
    assert (answer.exit_code, answer.stderr) == (0, "")
    lines = answer.stdout.splitlines()
    assert len(lines) == 3
    return lines


@pytest.mark.parametrize("text", [None, ""])
def test_without_a_configuration_it_leads_to_init(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "config.toml").write_text(text)
    told = alone(tmp_path)
    assert "not set up" in told[0]
    assert told[1].endswith("kbsync init")
    assert not (tmp_path / "data").exists(), "it only looks"


def test_without_a_folder_it_leads_to_init(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("workers = 2\n")
    told = alone(tmp_path)
    assert "No folder is followed" in told[0]
    assert told[1].endswith("kbsync init")


def test_a_file_with_a_mistake_leads_to_its_check(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("workers = \n")
    assert alone(tmp_path)[1].endswith("kbsync config check")


@pytest.mark.parametrize("text", ["workers = 0\n", "[[sources]]\npath = '/a'\nmode = 'x'\n"])
def test_a_file_that_is_no_configuration_leads_to_its_check(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    told = alone(tmp_path)
    assert "cannot run" in told[0]
    assert told[1].endswith("kbsync config check")


def manager(folder: Path, *, version: str = "257", load: str = "not-found", active: str = "inactive") -> None:
    """Put a `systemctl` there that answers so; without a version none does."""
    shown = f"LoadState={load}\\nActiveState={active}\\nUnitFileState=enabled\\nMainPID=0\\n"
    program = folder / "systemctl"
    program.write_text(
        f"#!/bin/sh\ncase \"$*\" in *=Version*) echo {version};; *UnitPath*) ;; *) printf '{shown}';; esac\n"
    )
    program.chmod(0o755)


@pytest.mark.parametrize("has_manager", [True, False])
def test_with_folders_and_no_daemon_it_leads_to_what_runs_it(tmp_path: Path, has_manager: bool) -> None:
    (tmp_path / "config.toml").write_text("[[sources]]\npath = '/a'\n[[sources]]\npath = '/b'\n")
    manager(tmp_path, version="257" if has_manager else "")
    told = alone(tmp_path, str(tmp_path), HOME=str(tmp_path))
    assert "2 folders are configured" in told[0]
    assert any(step.endswith("kbsync run") for step in told)
    assert any(step.endswith("kbsync service install") for step in told) is has_manager


@pytest.mark.parametrize("active", ["inactive", "failed"])
def test_a_service_that_is_installed_is_to_be_started(tmp_path: Path, active: str) -> None:
    (tmp_path / "config.toml").write_text("[[sources]]\npath = '/a'\n")
    manager(tmp_path, load="loaded", active=active)
    told = alone(tmp_path, str(tmp_path), HOME=str(tmp_path))
    assert told[1].endswith("kbsync service start")
    assert ("has failed" in told[0], "service logs" in told[2]) == ((active == "failed"),) * 2


@pytest.mark.parametrize("installed", [True, False])
def test_a_daemon_that_hangs_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    monkeypatch.setattr(next_steps, "_STATUS_S", 0.05)
    places = locate({"KBSYNC_HOME": str(tmp_path)})
    places.make_folders()
    manager(tmp_path, load="loaded" if installed else "not-found")
    lock = DataLock(places.lock_file)
    lock.acquire("daemon")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(places.socket_path())
        listening.listen()
        lock.publish("daemon", places.socket_path())
        told = alone(tmp_path, str(tmp_path), HOME=str(tmp_path))
    lock.release()
    assert "it hangs" in told[0]
    assert told[1].endswith("kbsync service restart" if installed else "kbsync doctor")
    assert not any("service logs" in step for step in told)


def test_folders_of_a_variable_are_folders_too(tmp_path: Path) -> None:
    assert "does not run" in alone(tmp_path, KBSYNC_SOURCES='[{"path": "/a"}]')[0]


def test_a_daemon_that_is_starting_is_told_without_waiting(tmp_path: Path) -> None:
    places = locate({"KBSYNC_HOME": str(tmp_path)})
    places.make_folders()
    lock = DataLock(places.lock_file)
    lock.acquire("daemon")
    lock.publish("daemon", None, "migrating the database")
    try:
        told = alone(tmp_path)
    finally:
        lock.release()
    assert told[0] == "kbsync is starting: migrating the database."
    assert told[1].endswith("kbsync status")


def test_a_running_daemon_tells_how_much_there_is_to_find(service: Service) -> None:
    service.write("quince.md", "quince")
    told = alone(service.home)
    assert told[0].startswith("kbsync runs: 1 document from 1 folder")
    assert 'kbsync search "' in told[1]


def test_a_pipe_in_place_of_the_configuration_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.toml")
    assert "config.toml cannot be read" in alone(tmp_path)[0]
