"""Real events of a real folder."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from kbsync.model import Change, Source
from kbsync.sources.watcher import NativeWatcher
from tests.sources.watch_reports import Reports

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these are inotify's events")


def test_a_new_file_is_told_closed(watcher: NativeWatcher, root: Path, reports: Reports) -> None:
    watcher.start()
    (root / "a.md").write_text("hello")
    reports.wait_for_change(root / "a.md", closed=True)
    assert reports.paths() == {str(root / "a.md")}
    assert reports.dirty == []


def test_an_append_is_told_while_the_file_is_still_open(watcher: NativeWatcher, root: Path, reports: Reports) -> None:
    (root / "a.log").write_text("one")
    watcher.start()
    with (root / "a.log").open("a") as file:
        file.write("two")
        file.flush()
        reports.wait_for_change(root / "a.log")
        assert Change(7, str(root / "a.log"), closed=True) not in reports.changes
    reports.wait_for_change(root / "a.log", closed=True)


def test_reading_makes_no_event(watcher: NativeWatcher, root: Path, reports: Reports) -> None:
    (root / "a.md").write_text("hello")
    watcher.start()
    (root / "a.md").read_text()
    os.listdir(root)
    (root / "barrier.md").write_text("1")
    reports.wait_for_change(root / "barrier.md", closed=True)
    assert reports.paths() == {str(root / "barrier.md")}


def test_a_rename_is_one_path_gone_and_one_whole(watcher: NativeWatcher, root: Path, reports: Reports) -> None:
    (root / "old.md").write_text("hello")
    watcher.start()
    (root / "old.md").rename(root / "new.md")
    reports.wait_for_change(root / "new.md", closed=True)
    reports.wait_for_change(root / "old.md", gone=True)


def test_an_atomic_save_is_told_as_the_final_name_whole(watcher: NativeWatcher, root: Path, reports: Reports) -> None:
    (root / "a.md").write_text("one")
    watcher.start()
    (root / "a.md.new").write_text("two")
    os.replace(root / "a.md.new", root / "a.md")
    reports.wait_for_change(root / "a.md", closed=True)


def test_a_deleted_file_is_gone(watcher: NativeWatcher, root: Path, reports: Reports) -> None:
    (root / "a.md").write_text("hello")
    watcher.start()
    (root / "a.md").unlink()
    reports.wait_for_change(root / "a.md", gone=True)


def test_a_file_moved_out_of_the_source_is_gone(
    watcher: NativeWatcher, root: Path, reports: Reports, tmp_path: Path
) -> None:
    (root / "a.md").write_text("hello")
    watcher.start()
    (root / "a.md").rename(tmp_path / "outside.md")
    reports.wait_for_change(root / "a.md", gone=True)


def test_no_file_is_missed_in_folders_made_a_moment_ago(watcher: NativeWatcher, root: Path, reports: Reports) -> None:
    watcher.start()
    wanted = set()
    for number in range(60):
        folder = root / f"top{number}" / "/".join("abcdef"[: number % 6 + 1])
        folder.mkdir(parents=True)
        (folder / "file.md").write_text("hello")
        wanted.add(str(folder / "file.md"))
    reports.wait(lambda: wanted <= reports.paths())
    reports.wait_for_dirty("folder created")


def test_files_of_a_tree_moved_in_are_told(
    watcher: NativeWatcher, root: Path, reports: Reports, tmp_path: Path
) -> None:
    (tmp_path / "outside" / "deep").mkdir(parents=True)
    (tmp_path / "outside" / "deep" / "a.md").write_text("hello")
    watcher.start()
    (tmp_path / "outside").rename(root / "inside")
    reports.wait_for_dirty("folder created")
    reports.wait_for_change(root / "inside" / "deep" / "a.md")
    (root / "inside" / "deep" / "b.md").write_text("later")
    reports.wait_for_change(root / "inside" / "deep" / "b.md", closed=True)


def test_a_tree_moved_out_makes_the_source_dirty(
    watcher: NativeWatcher, root: Path, reports: Reports, tmp_path: Path
) -> None:
    (root / "inside").mkdir()
    (root / "inside" / "a.md").write_text("hello")
    watcher.start()
    (root / "inside").rename(tmp_path / "outside")
    reports.wait_for_dirty("folder deleted")


def test_after_a_folder_was_renamed_events_carry_the_new_name(
    watcher: NativeWatcher, root: Path, reports: Reports
) -> None:
    (root / "old" / "deep").mkdir(parents=True)
    (root / "old" / "deep" / "a.md").write_text("hello")
    watcher.start()
    (root / "old").rename(root / "new")
    reports.wait_for_dirty("folder moved")
    reports.wait_for_change(root / "new" / "deep" / "a.md", closed=True)
    reports.wait_for_change(root / "old" / "deep" / "a.md", gone=True)
    (root / "new" / "deep" / "b.md").write_text("later")
    reports.wait_for_change(root / "new" / "deep" / "b.md", closed=True)
    assert str(root / "old" / "deep" / "b.md") not in reports.paths()


def test_a_removed_folder_makes_the_source_dirty(watcher: NativeWatcher, root: Path, reports: Reports) -> None:
    (root / "folder").mkdir()
    (root / "folder" / "a.md").write_text("hello")
    watcher.start()
    shutil.rmtree(root / "folder")
    reports.wait_for_dirty("folder deleted")
    reports.wait_for_change(root / "folder" / "a.md", gone=True)


@pytest.mark.parametrize("noise", [".git", "node_modules", "deep/.cache/inner"])
def test_noise_folders_have_no_watch_and_no_events(
    watcher: NativeWatcher, root: Path, reports: Reports, noise: str
) -> None:
    (root / noise).mkdir(parents=True)
    watcher.start()
    assert watcher.folders == len([part for part in Path(noise).parts if part == "deep"]) + 1
    (root / noise / "a.md").write_text("hello")
    (root / noise / "inner").mkdir()
    (root / ".new" / "inner").mkdir(parents=True)
    (root / ".new" / "inner" / "a.md").write_text("hello")
    (root / "barrier.md").write_text("1")
    reports.wait_for_change(root / "barrier.md", closed=True)
    assert reports.paths() == {str(root / "barrier.md")}
    assert reports.dirty == []


def test_a_file_that_leaves_a_noise_folder_is_told_at_its_new_name_only(
    watcher: NativeWatcher, root: Path, reports: Reports
) -> None:
    (root / ".staging").mkdir()
    (root / ".staging" / "a.md").write_text("hello")
    watcher.start()
    (root / ".staging" / "a.md").rename(root / "a.md")
    reports.wait(lambda: str(root / "a.md") in reports.paths())
    assert reports.paths() == {str(root / "a.md")}


def test_a_source_that_is_not_recursive_is_watched_at_its_root_only(root: Path, reports: Reports) -> None:
    (root / "sub").mkdir()
    watcher = NativeWatcher(Source(7, str(root), recursive=False), reports.sink, reports.note_dirty)
    watcher.start()
    try:
        (root / "sub" / "a.md").write_text("hello")
        (root / "other").mkdir()
        (root / "barrier.md").write_text("1")
        reports.wait_for_change(root / "barrier.md", closed=True)
        assert reports.paths() == {str(root / "barrier.md")}
        assert reports.dirty == []
    finally:
        watcher.stop()


def test_names_that_are_no_utf8_come_through(watcher: NativeWatcher, root: Path, reports: Reports) -> None:
    watcher.start()
    path = os.fsdecode(os.fsencode(root) + b"/caf\xe9\n\x1b.md")
    with open(path, "w") as file:
        file.write("hello")
    reports.wait_for_change(path, closed=True)


def test_the_folders_are_counted_also_new_ones(watcher: NativeWatcher, root: Path, reports: Reports) -> None:
    assert watcher.folders == 0
    (root / "a" / "b").mkdir(parents=True)
    watcher.start()
    assert watcher.folders == 3
    (root / "a" / "c").mkdir()
    reports.wait_for_dirty("folder created")
    assert watcher.folders == 4
    watcher.stop()
    assert watcher.folders == 0
