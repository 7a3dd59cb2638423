"""packaging/uninstall.sh --purge deletes kbsync's own things by their names, asks before, and touches nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kbsync.config.locations import locate
from tests.meta.checkout import ROOT

LISTED = "These are deleted for good:"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home with a space in it, in which kbsync has been, and where other things lie beside its own."""
    home = tmp_path / "ann's home"
    for name in (
        ".local/share/kbsync/kb.sqlite3",
        ".local/share/kbsync/kb.sqlite3-wal",
        ".local/share/kbsync/kb.sqlite3.damaged-20260101-000000",
        ".local/share/kbsync/documents/hash.md",
        ".local/share/other/letter.txt",
        ".local/state/kbsync/token",
        ".local/state/kbsync/log/kbsync.log.1",
        ".config/kbsync/config.toml",
        ".kb/ingest-errors.log",
        "Documents/letter.txt",
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(name)
    return home


def uninstall(home: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    outcome = subprocess.run(
        [ROOT / "packaging" / "uninstall.sh", *arguments],
        env={"PATH": os.environ["PATH"], "HOME": str(home)} | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not outcome.stdout
    return outcome.returncode, outcome.stderr


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}


def test_nothing_is_deleted_without_a_question_and_data_stay_without_purge(home: Path) -> None:
    before = files(home)
    code, said = uninstall(home, "--purge")
    assert (code, files(home)) == (5, before)
    assert LISTED in said
    code, said = uninstall(home)
    assert (code, files(home)) == (0, before)
    assert f"the data in {home}/.local/share/kbsync" in said


def test_where_nothing_was_installed_that_is_said(home: Path) -> None:
    code, said = uninstall(home)
    assert code == 0
    assert f"There is no kbsync in {home}/.local/share/kbsync/venv" in said
    assert "is removed" not in said
    program = home / ".local" / "bin" / "kbsync"
    program.parent.mkdir()
    program.symlink_to(home / ".local/share/kbsync/venv/bin/kbsync")
    assert "kbsync is removed." in uninstall(home)[1]
    assert not program.is_symlink()


@pytest.mark.parametrize("arguments", [("--yes",), ("--all",), ("folder",)])
def test_wrong_usage_removes_nothing(home: Path, arguments: tuple[str, ...]) -> None:
    before = files(home)
    assert uninstall(home, *arguments)[0] == 2
    assert files(home) == before


def test_what_is_listed_is_what_is_deleted_and_empty_folders_go_too(home: Path) -> None:
    before = files(home)
    code, said = uninstall(home, "--purge", "--yes")
    assert code == 0
    listed = [line.strip().split(" (")[0] for line in said.partition(LISTED)[2].splitlines() if line.startswith("  ")]
    gone = before - files(home)
    assert files(home) == {".local/share/other/letter.txt", "Documents/letter.txt"}
    assert all(any(f"{home}/{name}".startswith(path) for path in listed) for name in gone)
    assert "(1 files that kbsync keeps" in said
    assert not any(
        (home / name).exists() for name in (".local/share/kbsync", ".local/state/kbsync", ".config/kbsync", ".kb")
    )


def test_what_kbsync_did_not_make_stays_in_its_folders_and_is_told(home: Path) -> None:
    mine = home / ".local" / "share" / "kbsync" / "mine.txt"
    mine.write_text("mine")
    code, said = uninstall(home, "--purge", "--yes")
    assert (code, mine.read_text()) == (0, "mine")
    assert f"{mine.parent} is kept: it holds other things." in said


def test_a_data_folder_behind_a_link_is_emptied_and_the_link_goes(home: Path, tmp_path: Path) -> None:
    disk = tmp_path / "other disk" / "kbsync"
    disk.parent.mkdir()
    shutil.move(home / ".local" / "share" / "kbsync", disk)
    (disk.parent / "letter.txt").write_text("not kbsync's")
    (home / ".local" / "share" / "kbsync").symlink_to(disk)
    code, said = uninstall(home, "--purge", "--yes")
    assert (code, files(disk.parent)) == (0, {"letter.txt"}), said
    assert not disk.exists()
    assert not (home / ".local" / "share" / "kbsync").is_symlink()


def test_what_a_link_within_the_data_leads_to_stays(home: Path, tmp_path: Path) -> None:
    documents, elsewhere = home / ".local" / "share" / "kbsync" / "documents", tmp_path / "my documents"
    shutil.move(documents, elsewhere)
    documents.symlink_to(elsewhere)
    code, said = uninstall(home, "--purge", "--yes")
    assert (code, files(elsewhere)) == (0, {"hash.md"})
    assert f"{documents} (a link; what it leads to stays)" in said
    assert not documents.is_symlink()


def test_below_kbsync_home_only_that_folder_is_emptied(home: Path, tmp_path: Path) -> None:
    before, portable = files(home), tmp_path / "portable"
    for name in ("data/kb.sqlite3", "state/token", "logs/kbsync.log", "config.toml", "ingest-errors.log", "my own.txt"):
        (portable / name).parent.mkdir(parents=True, exist_ok=True)
        (portable / name).write_text(name)
    code, said = uninstall(home, "--purge", "--yes", KBSYNC_HOME=str(portable))
    assert (code, files(portable), files(home)) == (0, {"my own.txt"}, before)
    assert said.count(f"{portable} is kept") == 1


def test_a_kbsync_home_where_kbsync_never_was_is_left_alone(home: Path) -> None:
    """Somebody's own home, say: `data/models` and `logs` are names that others give too."""
    for name in ("data/models/mine.bin", "data/documents/mine.txt", "logs/service.log", "state/token", "config.toml"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(name)
    before = files(home)
    code, said = uninstall(home, "--purge", "--yes", KBSYNC_HOME=str(home))
    assert (code, files(home)) == (0, before)
    assert "kbsync has never worked in" in said


def test_the_script_looks_where_the_program_keeps_its_things(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    for variables in (
        {},
        {name: str(home / name.casefold()) for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")},
    ):
        for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        places = locate(variables)
        own = [places.database, places.token_file, places.log_file, places.config_file, places.error_log]
        own += [places.models_dir, places.restoring_dir, places.opened_dir, places.early_ends_file, places.service_log]
        for path in own:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).touch()
        code, said = uninstall(home, "--purge", "--yes", **variables)
        assert (code, [path for path in own if Path(path).exists()]) == (0, []), said


def test_a_unit_that_leads_to_another_installation_stays_and_ours_goes_without_its_program(home: Path) -> None:
    tools = home / "tools"
    tools.mkdir()
    (tools / "systemctl").write_text(f'#!/bin/sh\necho "$*" >>"{home}/asked"\n')
    (tools / "systemctl").chmod(0o755)
    unit = home / ".config" / "systemd" / "user" / "kbsync.service"
    unit.parent.mkdir(parents=True)
    path = f"{tools}:{os.environ['PATH']}"
    unit.write_text("ExecStart=/usr/bin/kbsync run\n")
    assert uninstall(home, PATH=path)[0] == 0
    assert unit.exists()
    assert not (home / "asked").exists()
    unit.write_text(f'ExecStart="{home}/.local/share/kbsync/venv.a/bin/python" -m kbsync run\n')
    assert uninstall(home, PATH=path)[0] == 0
    assert not unit.exists()
    assert (home / "asked").read_text().splitlines() == ["--user disable --now kbsync.service", "--user daemon-reload"]
