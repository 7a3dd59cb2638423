"""What is restored is looked at first: what is refused touches nothing, a configuration that is here stays."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kbsync.errors import UsageError
from kbsync.filesystem import RealFileSystem
from kbsync.knowledge_base import manifest, restore
from kbsync.store import copies, migrations, origins, relocation
from kbsync.store.connection import connect_writer
from kbsync.store.writer import Readers
from tests.fakes.backed_up import backed_up, disk_world, restored, tree, write_notes
from tests.fakes.simulated_engine import SimulatedEngine, World

# ---- what is refused ----


@pytest.mark.parametrize("name", ["kb.sqlite3", "manifest.json", "documents", "conversions"])
def test_a_damaged_backup_is_refused_and_nothing_is_touched(disk: World, backup: Path, name: str) -> None:
    data = Path(disk.locations.data_dir)
    path = backup / name
    path = next(path.iterdir()) if path.is_dir() else path
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    before = tree(data)
    with pytest.raises(UsageError):
        restored(disk, backup)
    assert tree(data) == before


def test_a_backup_that_changes_after_it_was_looked_at_is_refused_and_nothing_is_touched(
    disk: World, backup: Path
) -> None:
    data = Path(disk.locations.data_dir)
    before = tree(data)
    found = restore.look(disk.locations, str(backup), [], RealFileSystem())
    next((backup / "documents").iterdir()).write_text("changed at the last moment")
    with pytest.raises(UsageError, match="holds other bytes"):
        restore.restore(disk.locations, found, disk.clock)
    assert tree(data) == before


def test_folders_that_would_come_to_the_same_place_are_refused_and_nothing_is_touched(
    tmp_path: Path, folder: Path, disk: World
) -> None:
    second = tmp_path / "second"
    write_notes(second, 2, first=50)
    disk.configure(str(folder), str(second))
    engine = SimulatedEngine(disk)
    engine.rescan()
    backed_up(engine, tmp_path / "both")
    engine.close()
    before = tree(Path(disk.locations.data_dir))
    with pytest.raises(UsageError, match="same place"):
        restored(disk, tmp_path / "both", [f"{folder}={second}"])
    assert tree(Path(disk.locations.data_dir)) == before


def test_a_map_to_what_is_not_there_is_refused_and_nothing_is_touched(
    tmp_path: Path, folder: Path, disk: World, backup: Path
) -> None:
    before = tree(Path(disk.locations.data_dir))
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for new in (tmp_path / "typo", tmp_path / "link"):
        with pytest.raises(UsageError, match=f"There is no {new} here") as refused:
            restored(disk, backup, [f"{folder}={new}"])
        assert "plug its disk in" in str(refused.value)
    assert tree(Path(disk.locations.data_dir)) == before


def test_what_is_no_backup_is_refused(disk: World, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path, said in ((tmp_path / "empty", "no backup"), (tmp_path / "absent", "There is no folder")):
        with pytest.raises(UsageError, match=said):
            restored(disk, path)


def test_a_backup_is_only_read(disk: World, backup: Path) -> None:
    for path, folders, names in os.walk(backup):
        for name in names:
            os.chmod(os.path.join(path, name), 0o400)
        assert folders is not None
        os.chmod(path, 0o500)
    before = tree(backup)
    restored(disk, backup)
    assert tree(backup) == before


# ---- config.toml ----


def test_a_configuration_that_is_here_stays_and_what_differs_is_told(
    tmp_path: Path, folder: Path, disk: World, backup: Path
) -> None:
    new = disk_world(tmp_path / "home2", tmp_path, text="workers = 2\n")
    text = Path(new.locations.config_file).read_text()
    done = restored(new, backup)
    assert (done.configuration.outcome, done.configuration.differences) == ("kept", ("sources", "workers"))
    assert done.configuration.lacks.startswith(f'[[sources]]\npath = "{folder}"\n')
    assert Path(new.locations.config_file).read_text() == text


def test_a_configuration_that_cannot_be_used_here_is_told_and_the_data_are_restored(
    tmp_path: Path, folder: Path, disk: World
) -> None:
    second = tmp_path / "second"
    write_notes(second, 2, first=50)
    disk.configure(str(folder), str(second))
    engine = SimulatedEngine(disk)
    engine.rescan()
    backed_up(engine, tmp_path / "both")
    engine.close()
    new = disk_world(tmp_path / "home2")
    shutil.copytree(second, folder / "second")
    done = restored(new, tmp_path / "both", [f"{second}={folder}/second"])
    assert done.configuration.outcome == "unusable"
    assert done.configuration.error is not None
    assert "lies inside" in done.configuration.error
    assert not Path(new.locations.config_file).exists()
    reader = Readers(new.locations.database)
    try:
        assert reader.read(lambda connection: origins.count_of_source(connection, 2)) == 2
    finally:
        reader.close()


def test_a_backup_without_a_configuration_places_none(tmp_path: Path) -> None:
    disk = disk_world(tmp_path / "home")
    engine = SimulatedEngine(disk)
    engine.note("A note on medlars.")
    backed_up(engine, tmp_path / "backup")
    engine.close()
    new = disk_world(tmp_path / "home2")
    assert restored(new, tmp_path / "backup").configuration.outcome == "none"
    assert not Path(new.locations.config_file).exists()


def test_a_backup_of_an_older_kbsync_is_brought_up_to_date(tmp_path: Path, folder: Path) -> None:
    for schema in range(1, migrations.migrations()[-1][0]):
        backup, other = tmp_path / f"backup {schema}", tmp_path / f"other {schema}"
        write_older_backup(backup, schema, folder)
        shutil.copytree(folder, other)
        new = disk_world(tmp_path / f"home {schema}", other)
        assert restored(new, backup, [f"{folder}={other}"]).moved == 1
        reader = Readers(new.locations.database)
        try:
            assert reader.read(migrations.accept) == migrations.migrations()[-1][0]
            assert reader.read(relocation.known_paths) == {os.fsencode(other), os.fsencode(other / "note-0000.md")}
        finally:
            reader.close()


def write_older_backup(backup: Path, schema: int, folder: Path) -> None:
    """Write what a kbsync of that schema would have: a source and a file in it that was left out."""
    backup.mkdir()
    database = str(backup / "kb.sqlite3")
    connection = connect_writer(database, migrations.accept)
    for number, _, sql in migrations.migrations():
        if number <= schema:
            connection.execute(sql)
    connection.pragma("application_id", migrations.APPLICATION_ID)
    connection.pragma("user_version", schema)
    connection.execute("INSERT INTO sources (path, added_at) VALUES (?, 0)", (os.fsencode(folder),))
    connection.execute(
        "INSERT INTO files (source_id, path, path_nfc, state, rules, last_seen_at) VALUES (1, ?, '', 'skipped', '', 0)",
        (os.fsencode(folder / "note-0000.md"),),
    )
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    files = {"kb.sqlite3": copies.hash_file(database)}
    found = manifest.Manifest("0.0.1", schema, 1.0, "/home/ann", {}, 0, 0, 0, files)
    (backup / "manifest.json").write_bytes(manifest.written(found))
