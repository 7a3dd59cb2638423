"""A restore: folders follow the map, what is there is set aside whole, nothing is read into the index twice."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from kbsync import failpoints
from kbsync.filesystem import RealFileSystem
from kbsync.knowledge_base import restore
from kbsync.store import damage
from tests.fakes.backed_up import Dump, backed_up, disk_world, index_of, restored, tree, write_notes
from tests.fakes.simulated_engine import SimulatedEngine, World


def elsewhere(dump: Dump, old: Path, new: Path) -> Dump:
    """Return a dump as it would be with a folder at another place."""

    def moved(value: object) -> object:
        if isinstance(value, bytes) and value.startswith(os.fsencode(old)):
            return os.fsencode(new) + value[len(os.fsencode(old)) :]
        return value

    return {
        table: sorted((tuple(map(moved, row)) for row in rows), key=repr) if table in ("paths", "files") else rows
        for table, rows in dump.items()
    }


def kinds(engine: SimulatedEngine) -> list[str]:
    return [str(kind) for (kind,) in engine.read("SELECT kind FROM events ORDER BY id")]


# ---- another machine, other roots ----


def test_under_other_roots_nothing_is_embedded_converted_or_said(
    tmp_path: Path, folder: Path, disk: World, backup: Path
) -> None:
    """D12: on another machine, with the folder at another place and every inode another one."""
    before = index_of(disk)
    other = tmp_path / "elsewhere" / "notes"
    shutil.copytree(folder, other)
    shutil.rmtree(folder)
    new = disk_world(tmp_path / "home2")
    done = restored(new, backup, [f"{folder}={other}"])
    assert (done.moved, done.configuration.outcome, done.set_aside, done.backup.left_behind) == (9, "placed", None, 0)
    assert [(root.path, root.there) for root in done.backup.roots] == [(str(other), "here")]
    assert index_of(new) == elsewhere(before, folder, other)
    engine = SimulatedEngine(new)
    said = kinds(engine)
    engine.rescan()
    engine.rescan()
    assert (engine.embedded(), engine.cage.requests) == ([], [])
    assert kinds(engine) == said
    assert said[-1] == "restored"
    assert engine.source_state(str(other)) == ("watching", None)
    assert engine.found("quince") == [str(tmp_path / "brought.md")]
    assert str(other / "tree.pdf") in engine.found("hawthorn")
    # Learnt anew: from now on a look costs no reading.
    assert engine.read("SELECT count(*) FROM files WHERE inode IS NULL OR ctime_ns IS NULL") == [(0,)]
    engine.close()
    assert index_of(new) == elsewhere(before, folder, other)


def test_a_renamed_folder_on_the_same_disk_is_not_taken_for_one_whose_inodes_are_made_up(
    tmp_path: Path, folder: Path, disk: World, backup: Path
) -> None:
    write_notes(folder, 60)
    engine = SimulatedEngine(disk)
    engine.rescan()
    backed_up(engine, tmp_path / "larger")
    engine.close()
    folder.rename(tmp_path / "renamed")
    new = disk_world(tmp_path / "home2")
    restored(new, tmp_path / "larger", [f"{folder}={tmp_path / 'renamed'}"])
    engine = SimulatedEngine(new)
    engine.rescan()
    [row], _ = engine.kb.sources()
    engine.close()
    assert row.identity is not None
    assert row.identity.stable_inodes


def test_a_file_that_is_not_there_any_more_under_the_new_root_is_missed_as_ever(
    tmp_path: Path, folder: Path, backup: Path
) -> None:
    other = tmp_path / "elsewhere"
    shutil.copytree(folder, other)
    (other / "note-0000.md").unlink()
    (other / "deep" / "note-0001.md").rename(other / "renamed.md")
    (other / "note-0003.md").write_text("# Another\n\nIt was changed on the way.\n")
    new = disk_world(tmp_path / "home2")
    restored(new, backup, [f"{folder}={other}"])
    engine = SimulatedEngine(new)
    engine.rescan()
    engine.rescan()
    found = engine.index()
    assert engine.embedded() == ["Another\n\nIt was changed on the way."]
    engine.close()
    clean = SimulatedEngine(disk_world(tmp_path / "home3", other))
    clean.rescan()
    expected = clean.index()
    clean.close()
    assert found["files"] == expected["files"]


def test_without_a_map_sources_that_are_not_here_are_told_and_nothing_is_lost(
    tmp_path: Path, folder: Path, disk: World, backup: Path
) -> None:
    before = index_of(disk)
    shutil.rmtree(folder)
    new = disk_world(tmp_path / "home2")
    done = restored(new, backup)
    assert [(root.was, root.there) for root in done.backup.roots] == [(str(folder), "absent")]
    assert restore.hint_to_map(done.backup) == f"--map {folder}=NEW"
    engine = SimulatedEngine(new)
    engine.rescan()
    assert engine.source_state(str(folder)) == ("paused", "missing")
    engine.close()
    assert index_of(new) == before


def test_sources_below_another_home_are_told_with_the_map_of_the_homes(
    tmp_path: Path, folder: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = json.loads((backup / "manifest.json").read_text())
    (backup / "manifest.json").write_text(json.dumps(content | {"home": str(tmp_path)}))
    shutil.move(folder, tmp_path / "new home" / "notes")
    monkeypatch.setenv("HOME", str(tmp_path / "new home"))
    new = disk_world(tmp_path / "home2")
    found = restore.look(new.locations, str(backup), [], RealFileSystem())
    assert restore.hint_to_map(found) == f"--map {tmp_path}={tmp_path / 'new home'}"
    (tmp_path / "new home" / "notes").rename(tmp_path / "new home" / "other")
    assert restore.hint_to_map(found) == f"--map {folder}=NEW"  # not a folder that is not there
    (tmp_path / "new home" / "other").rename(tmp_path / "new home" / "notes")
    found = restore.look(new.locations, str(backup), ["~=~"], RealFileSystem())
    assert [(root.path, root.there) for root in found.roots] == [(str(tmp_path / "new home" / "notes"), "here")]
    assert restore.hint_to_map(found) == ""


def test_a_folder_that_does_not_look_like_the_one_of_the_backup_is_told_and_a_map_to_itself_says_it_is(
    tmp_path: Path, folder: Path, backup: Path
) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "stranger.md").write_text("another folder\n")
    new = disk_world(tmp_path / "home2")
    found = restore.look(new.locations, str(backup), [], RealFileSystem())
    assert [root.there for root in found.roots] == ["other"]
    found = restore.look(new.locations, str(backup), [f"{folder}={folder}"], RealFileSystem())
    assert [root.there for root in found.roots] == ["here"]


def test_a_link_that_is_named_as_the_new_place_is_followed(tmp_path: Path, folder: Path, backup: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    new = disk_world(tmp_path / "home2")
    found = restore.look(new.locations, str(backup), [f"{folder}={tmp_path / 'link'}"], RealFileSystem())
    assert [root.path for root in found.roots] == [str(folder)]


def test_a_file_that_is_named_as_the_new_place_of_a_folder_is_told(tmp_path: Path, folder: Path, backup: Path) -> None:
    (tmp_path / "file").write_text("no folder\n")
    new = disk_world(tmp_path / "home2")
    found = restore.look(new.locations, str(backup), [f"{folder}={tmp_path / 'file'}"], RealFileSystem())
    assert [root.there for root in found.roots] == ["absent"]


# ---- config.toml ----


@pytest.mark.parametrize("ending", ["", "\n# A person's own remark.\n"])
def test_a_configuration_that_came_from_the_backup_follows_a_map_that_is_given_later(
    tmp_path: Path, folder: Path, backup: Path, ending: str
) -> None:
    """First restored without a map, then with it: the folder is followed where it lies now."""
    new = disk_world(tmp_path / "home2")
    config = Path(new.locations.config_file)
    assert restored(new, backup).configuration.outcome == "placed"
    config.write_text(config.read_text() + ending)
    shutil.move(folder, tmp_path / "moved")
    done = restored(new, backup, [f"{folder}={tmp_path / 'moved'}"])
    assert (done.configuration.outcome, done.configuration.lacks) == ("mapped", "")
    assert config.read_text().endswith(ending)
    engine = SimulatedEngine(new)
    engine.rescan()
    assert engine.source_state(str(tmp_path / "moved")) == ("watching", None)
    assert (engine.embedded(), engine.cage.requests) == ([], [])
    engine.close()


def test_a_configuration_that_is_changed_before_a_restore_is_carried_through_stays(
    tmp_path: Path, folder: Path, backup: Path
) -> None:
    new = disk_world(tmp_path / "home2")
    restored(new, backup)
    shutil.move(folder, tmp_path / "moved")

    def die(place: str) -> None:
        if place == "restore.decided":
            raise KeyboardInterrupt

    failpoints.listen(die)
    try:
        with pytest.raises(KeyboardInterrupt):
            restored(new, backup, [f"{folder}={tmp_path / 'moved'}"])
    finally:
        failpoints.listen(None)
    Path(new.locations.config_file).write_text("workers = 2\n")
    assert restore.carry_through(new.locations) is not None
    assert Path(new.locations.config_file).read_text() == "workers = 2\n"


# ---- over what is there ----


def test_an_older_backup_over_living_folders_becomes_what_a_clean_run_makes(
    tmp_path: Path, folder: Path, disk: World, backup: Path
) -> None:
    """D12: files came, changed, moved and went since; the first looks bring all of it in."""
    engine = SimulatedEngine(disk)
    write_notes(folder, 3, first=20)
    (folder / "note-0000.md").write_text("# Changed\n\nIt says something else now.\n")
    (folder / "deep" / "note-0001.md").rename(folder / "renamed.md")
    (folder / "deep" / "note-0002.md").unlink()
    engine.rescan()
    engine.close()
    done = restored(disk, backup)
    assert done.set_aside is not None
    assert (done.configuration.outcome, done.configuration.differences) == ("kept", ())
    engine = SimulatedEngine(disk)
    engine.rescan()
    engine.rescan()
    found = engine.index()
    engine.close()
    clean = SimulatedEngine(disk_world(tmp_path / "clean", folder))
    clean.rescan()
    (tmp_path / "brought.md").touch()
    clean.add(str(tmp_path / "brought.md"))
    clean.note("A note on medlars.", "Medlars")
    expected = clean.index()
    clean.close()
    assert found == expected


def test_what_was_there_is_set_aside_whole_and_opens(tmp_path: Path, folder: Path, disk: World, backup: Path) -> None:
    engine = SimulatedEngine(disk)
    (tmp_path / "later.md").write_text("# Later\n\nA sloe after the backup.\n")
    engine.add(str(tmp_path / "later.md"))
    engine.close()
    data = Path(disk.locations.data_dir)
    (data / "models").mkdir()
    (data / "models" / "mine").write_text("a model\n")
    kept = {name: content for name, content in tree(data).items() if not name.startswith(("kb.lock", "models/"))}
    done = restored(disk, backup)
    assert done.set_aside is not None
    assert Path(done.set_aside).parent == data
    aside = tree(Path(done.set_aside))
    assert {name for name in kept if name.startswith("documents/")} == {
        name for name in aside if name.startswith("documents/")
    }
    assert aside["kb.sqlite3"] == kept["kb.sqlite3"]
    assert (data / "models" / "mine").read_text() == "a model\n"
    assert done.backup.left_behind == 1
    assert not (data / "restoring").exists()
    assert stat.S_IMODE(os.stat(done.set_aside).st_mode) == 0o700
    # Put back by hand it is what it was.
    shutil.rmtree(data / "documents")
    for name in os.listdir(done.set_aside):
        target = data / name
        if target.is_dir():
            shutil.rmtree(target)
        os.replace(os.path.join(done.set_aside, name), target)
    engine = SimulatedEngine(disk)
    assert engine.found("sloe") == [str(tmp_path / "later.md")]
    assert engine.kb.check() == []
    engine.close()


def test_a_second_restore_in_the_same_second_sets_aside_under_another_name(disk: World, backup: Path) -> None:
    first, second = restored(disk, backup), restored(disk, backup)
    assert first.set_aside is not None
    assert second.set_aside == f"{first.set_aside}-2"


def test_a_log_that_a_kill_left_does_not_get_into_what_is_restored(disk: World, folder: Path, backup: Path) -> None:
    expected = index_of(disk)
    engine = SimulatedEngine(disk)
    write_notes(folder, 3, first=20)
    engine.rescan()
    database = disk.locations.database
    killed = {ending: Path(database + ending).read_bytes() for ending in ("", "-wal", "-shm")}
    engine.close()
    for ending, content in killed.items():
        Path(database + ending).write_bytes(content)
    done = restored(disk, backup)
    assert done.set_aside is not None
    assert Path(done.set_aside, "kb.sqlite3-wal").read_bytes() == killed["-wal"]
    assert index_of(disk) == expected


def test_a_database_that_cannot_be_opened_is_no_hindrance(disk: World, backup: Path) -> None:
    expected = index_of(disk)
    Path(disk.locations.database).write_bytes(b"no database at all\n" * 100)
    done = restored(disk, backup)
    assert done.set_aside is not None
    assert index_of(disk) == expected


def test_what_was_noted_of_the_database_of_before_says_nothing_of_the_restored_one(disk: World, backup: Path) -> None:
    database = disk.locations.database
    damage.suspect(database, "a page of it is damaged")
    damage.set_pending(database, {"what": "a rebuild that has not ended"})
    restored(disk, backup)
    assert (damage.noted(database), damage.pending(database)) == (None, None)
    index_of(disk)
