"""`kbsync` alone: three lines that say what to do next, by what is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kbsync.config.locations import locate
from kbsync.daemon.lock import DataLock
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


@pytest.mark.parametrize("has_manager", [True, False])
def test_with_folders_and_no_daemon_it_leads_to_what_runs_it(tmp_path: Path, has_manager: bool) -> None:
    (tmp_path / "config.toml").write_text("[[sources]]\npath = '/a'\n[[sources]]\npath = '/b'\n")
    if has_manager:
        manager = tmp_path / "systemctl"
        manager.write_text("#!/bin/sh\n")
        manager.chmod(0o755)
    told = alone(tmp_path, str(tmp_path))
    assert "2 folders are configured" in told[0]
    assert any(step.endswith("kbsync run") for step in told)
    assert any(step.endswith("kbsync service install") for step in told) is has_manager


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
