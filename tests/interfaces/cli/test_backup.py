"""`kbsync backup` and `kbsync restore`: with the daemon and without, what they say and how they end."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from kbsync import failpoints
from kbsync.daemon.lock import DataLock
from kbsync.interfaces.cli.app import app
from kbsync.knowledge_base import manifest
from tests.fakes.backed_up import backed_up, disk_world, index_of, restored, tree, write_notes
from tests.fakes.simulated_engine import SimulatedEngine, World
from tests.interfaces.conftest import Service


def command(world: World, *arguments: str, answer: str | None = None) -> Result:
    """Run a command in this process, over a world's home."""
    return CliRunner().invoke(app, list(arguments), env={"KBSYNC_HOME": str(world.home)}, input=answer)


@pytest.fixture
def disk(tmp_path: Path) -> World:
    write_notes(tmp_path / "notes", 3)
    return disk_world(tmp_path / "home", tmp_path / "notes")


@pytest.fixture
def backup(disk: World, tmp_path: Path) -> Path:
    engine = SimulatedEngine(disk)
    engine.rescan()
    backed_up(engine, tmp_path / "backup")
    engine.close()
    return tmp_path / "backup"


# ---- backup ----


def test_the_daemon_writes_a_backup_where_the_command_stands(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.write("plum.md", "# Plum\n\nA plum for the backup.\n")
    monkeypatch.chdir(tmp_path)
    result = service.command("backup", "mine")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"Wrote {tmp_path / 'mine'}: 1 document, 1 chunk, 0 stored files, ")
    manifest.verify(str(tmp_path / "mine"), manifest.read(str(tmp_path / "mine")))
    answer = json.loads(service.command("backup", "a folder of \N{SNOWMAN}s", "--json").stdout)
    assert answer["path"] == str(tmp_path / "a folder of \N{SNOWMAN}s")
    odd = service.command("backup", os.fsdecode(b"odd \xff name"))
    assert (odd.exit_code, "no UTF-8" in odd.stderr) == (2, True)
    again = service.command("backup", "mine")
    assert (again.exit_code, "not empty" in again.stderr) == (2, True)
    inside = service.command("backup", str(service.folder / "inside"))
    assert (inside.exit_code, "lies in the source" in inside.stderr) == (2, True)


def test_only_the_socket_has_the_route(service: Service, tmp_path: Path) -> None:
    headers = {**service.token, "Content-Type": "application/json"}
    body = json.dumps({"path": str(tmp_path / "mine")}).encode()
    assert service.ask_over_tcp("POST", "local/backup", body, headers).status == 404
    assert service.ask("POST", "local/backup", {"path": "relative"}).status == 400
    assert not (tmp_path / "mine").exists()


def test_a_restore_is_refused_while_the_daemon_runs(service: Service, tmp_path: Path) -> None:
    service.command("backup", str(tmp_path / "mine"))
    refused = service.command("restore", str(tmp_path / "mine"), "--yes")
    assert (refused.exit_code, f"The daemon (process {os.getpid()}) is running" in refused.stderr) == (1, True)


# ---- restore ----


def test_a_restore_asks_before_it_sets_anything_aside(disk: World, backup: Path) -> None:
    before = tree(Path(disk.locations.data_dir))
    unanswered = command(disk, "restore", str(backup))
    assert (unanswered.exit_code, "Say --yes" in unanswered.stderr) == (5, True)
    assert tree(Path(disk.locations.data_dir)) == before
    done = command(disk, "restore", str(backup), "--yes")
    assert done.exit_code == 0, done.output
    [aside] = Path(disk.locations.data_dir).glob("before-restore-*")
    assert done.stdout.splitlines()[0].startswith(f"Restored {backup}: 3 documents, 3 chunks, 0 stored files, ")
    assert f"What was here before lies in {aside}; delete it when you need it no more." in done.stdout
    assert done.stderr == ""


def test_on_a_new_machine_nothing_is_asked_and_the_json_says_what_was_done(
    disk: World, backup: Path, tmp_path: Path
) -> None:
    shutil.move(tmp_path / "notes", tmp_path / "garden")
    new = disk_world(tmp_path / "home2")
    result = command(new, "restore", str(backup), "--map", f"{tmp_path / 'notes'}={tmp_path / 'garden'}/", "--json")
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    assert answer.pop("seconds") >= 0
    assert answer.pop("made_at").startswith("20")
    assert answer == {
        "path": str(backup),
        "documents": 3,
        "chunks": 3,
        "stored_files": 0,
        "size_bytes": answer["size_bytes"],
        "problems": [],
        "sources": [{"was": str(tmp_path / "notes"), "path": str(tmp_path / "garden"), "there": "here"}],
        "moved": 3,
        "set_aside": None,
        "left_behind": 0,
        "config": "placed",
        "config_differs": [],
        "config_lacks": "",
        "config_error": None,
    }
    assert str(tmp_path / "garden") in Path(new.locations.config_file).read_text()


def test_folders_that_are_not_here_are_told_with_the_map_to_say(disk: World, backup: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "notes")
    result = command(disk_world(tmp_path / "home2"), "restore", str(backup))
    assert result.exit_code == 0
    assert f"There is no folder {tmp_path / 'notes'} here" in result.stderr
    assert f"--map {tmp_path / 'notes'}=NEW" in result.stderr


@pytest.mark.parametrize(
    ("maps", "said"),
    [
        (["--map", "/nowhere=/else"], "Its sources are: "),
        (["--map", "nowhere"], "no OLD=NEW"),
        (["--map", "/=/not/there"], "There is no /not/there here"),
    ],
)
def test_a_map_that_means_nothing_is_wrong_usage(disk: World, backup: Path, maps: list[str], said: str) -> None:
    before = tree(Path(disk.locations.data_dir))
    result = command(disk, "restore", str(backup), "--yes", *maps)
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
    assert tree(Path(disk.locations.data_dir)) == before


def test_what_is_no_backup_is_wrong_usage_and_makes_no_folder(tmp_path: Path) -> None:
    new = disk_world(tmp_path / "home2")
    (tmp_path / "empty").mkdir()
    for folder in ("empty", "absent"):
        result = command(new, "restore", str(tmp_path / folder), "--yes")
        assert (result.exit_code, result.stderr != "") == (2, True)
    assert list(new.home.iterdir()) == []


def test_a_restore_waits_for_another_command_and_tells_of_it(
    disk: World, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbsync.interfaces.cli.restore._LOCK_WAIT_S", 0.1)
    lock = DataLock(disk.locations.lock_file)
    lock.acquire("command")
    try:
        result = command(disk, "restore", str(backup), "--yes")
    finally:
        lock.release()
    assert (result.exit_code, "Another kbsync command" in result.stderr) == (1, True)


def test_a_configuration_that_stays_is_told(disk: World, backup: Path, tmp_path: Path) -> None:
    new = disk_world(tmp_path / "home2", tmp_path / "notes", text="workers = 2\n")
    result = command(new, "restore", str(backup), "--yes")
    assert result.exit_code == 0
    assert "the backup's differs in workers." in result.stderr
    assert "[[sources]]" not in result.stdout
    new = disk_world(tmp_path / "home3", tmp_path / "home", text="workers = 2\n")
    result = command(new, "restore", str(backup), "--yes")
    assert "write them into it to have them followed:" in result.stderr
    assert f'[[sources]]\npath = "{tmp_path / "notes"}"\n' in result.stdout


def test_a_configuration_that_says_what_the_backups_says_follows_a_later_map(
    disk: World, backup: Path, tmp_path: Path
) -> None:
    new = disk_world(tmp_path / "home2")
    assert command(new, "restore", str(backup), "--yes").exit_code == 0
    shutil.move(tmp_path / "notes", tmp_path / "garden")
    result = command(new, "restore", str(backup), "--yes", "--map", f"{tmp_path / 'notes'}={tmp_path / 'garden'}")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "names the folders now where they lie" in result.stdout
    assert str(tmp_path / "garden") in Path(new.locations.config_file).read_text()


@pytest.mark.parametrize("name", ["backup", "restore"])
def test_an_empty_name_is_not_the_current_folder(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    new = disk_world(tmp_path / "home")
    result = command(new, name, "")
    assert (result.exit_code, "DIR is empty" in result.stderr) == (2, True)
    assert [*new.home.iterdir(), *(tmp_path / "here").iterdir()] == []


def test_stored_files_that_the_backup_does_not_have_are_told(disk: World, backup: Path, tmp_path: Path) -> None:
    engine = SimulatedEngine(disk)
    (tmp_path / "later.md").write_text("# Later\n\nA sloe.\n")
    engine.add(str(tmp_path / "later.md"))
    engine.close()
    result = command(disk, "restore", str(backup), "--yes")
    [aside] = Path(disk.locations.data_dir).glob("before-restore-*")
    assert f"1 stored file of before are not in the backup; `kbsync add {aside}/documents`" in result.stderr


def test_an_interrupted_restore_is_told_by_status_and_ended_by_the_next_command(disk: World, backup: Path) -> None:
    expected = index_of(disk)

    def killed(place: str) -> None:
        if place == "restore.decided":
            raise KeyboardInterrupt

    failpoints.listen(killed)
    try:
        with pytest.raises(KeyboardInterrupt):
            restored(disk, backup)
    finally:
        failpoints.listen(None)
    told = command(disk, "status", "--json")
    assert told.exit_code == 4
    assert [notice for notice in json.loads(told.stdout)["notices"] if "restore was interrupted" in notice]
    done = command(disk, "restore", str(backup), "--yes")
    assert "A restore that was interrupted is finished now; what was there before lies in " in done.stderr
    assert index_of(disk) == expected
