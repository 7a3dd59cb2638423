"""A watcher proves that events arrive, and watches what walks show to be needed: no more and no less."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbsync.model import Source
from kbsync.sources.coverage import WalkedFolders
from kbsync.sources.watcher import NativeWatcher
from tests.fakes.eventually import eventually
from tests.sources.watch_reports import Reports

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these are inotify's events")


@pytest.fixture
def beating(root: Path, reports: Reports, tmp_path: Path) -> Iterator[NativeWatcher]:
    """Return a watcher that has started and listens to a heartbeat."""
    watcher = NativeWatcher(
        Source(7, str(root)), reports.sink, reports.note_dirty, heartbeat=str(tmp_path / "state" / "heartbeat")
    )
    watcher.start()
    yield watcher
    watcher.stop()


def walked(root: Path, *left_out: str) -> WalkedFolders:
    """Return what a walk over the root sees that enters every folder but these."""
    out = frozenset(str(root / name) for name in left_out)
    entered = {}
    for folder, names, _ in os.walk(root):
        names[:] = [name for name in names if os.path.join(folder, name) not in out]
        entered[folder] = os.lstat(folder).st_ino
    return WalkedFolders(entered, out)


def test_a_beat_comes_back_as_an_event_and_nothing_is_written_in_the_source(
    beating: NativeWatcher, root: Path, reports: Reports
) -> None:
    assert beating.folders == 1
    beating.beat()
    eventually(lambda: beating.pulse > 0)
    assert os.listdir(root) == []
    assert reports.changes == set()


def test_a_beat_whose_events_do_not_arrive_leaves_the_pulse_as_it_was(beating: NativeWatcher) -> None:
    observer = beating._observer
    assert observer is not None
    observer.stop()
    observer.join()
    beating.beat()
    assert beating.pulse == 0


def test_without_a_folder_for_it_a_beat_proves_nothing_and_counts(watcher: NativeWatcher) -> None:
    watcher.start()
    watcher.beat()
    assert watcher.pulse == 1


def test_a_heartbeat_folder_that_was_removed_is_made_anew_with_the_next_watcher(
    beating: NativeWatcher, tmp_path: Path
) -> None:
    (tmp_path / "state" / "heartbeat").rmdir()
    eventually(lambda: not beating.healthy())
    beating.stop()
    beating.start()
    assert beating.healthy()
    beating.beat()
    eventually(lambda: beating.pulse > 0)


def test_a_watch_that_the_kernel_dropped_is_taken_again_after_a_walk(
    watcher: NativeWatcher, root: Path, reports: Reports
) -> None:
    from watchdog.observers.inotify_c import inotify_rm_watch

    (root / "sub").mkdir()
    watcher.start()
    watches = watcher._watches()
    assert watches is not None
    fd, descriptor = watches._inotify_fd, watches._active_callbacks_by_path[os.fsencode(root / "sub")]
    inotify_rm_watch(fd._inotify_fd, descriptor)
    watcher.follow(walked(root))
    reports.wait_for_dirty("watched late")
    (root / "sub" / "a.md").write_text("hello")
    reports.wait_for_change(root / "sub" / "a.md", closed=True)


def test_a_watch_that_watchdog_lost_is_taken_again_after_a_walk(
    watcher: NativeWatcher, root: Path, reports: Reports
) -> None:
    (root / "sub").mkdir()
    watcher.start()
    watches = watcher._watches()
    assert watches is not None
    with watches._lock:
        watches._remove_callbacks([watches._active_callbacks_by_path[os.fsencode(root / "sub")]])
    assert watcher.folders == 1
    watcher.follow(walked(root))
    assert watcher.folders == 2
    reports.wait_for_dirty("watched late")


def test_a_walk_that_finds_every_folder_watched_changes_nothing(
    watcher: NativeWatcher, root: Path, reports: Reports
) -> None:
    (root / "a" / "b").mkdir(parents=True)
    watcher.start()
    watcher.follow(walked(root))
    assert watcher.folders == 3
    assert reports.dirty == []


def test_w16_folders_that_rules_leave_out_have_no_watch_and_no_events_any_more(
    watcher: NativeWatcher, root: Path, reports: Reports
) -> None:
    """W16: after the first walk nothing below `target` costs anything, though only .gitignore names it."""
    (root / "target" / "debug").mkdir(parents=True)
    watcher.start()
    assert watcher.folders == 3
    watcher.follow(walked(root, "target"))
    assert watcher.folders == 1
    for number in range(50):
        (root / "target" / "debug" / f"{number}.md").write_text("hello")
        (root / "target" / f"new{number}").mkdir()
    (root / "target2").mkdir()
    (root / "barrier.md").write_text("1")
    reports.wait_for_change(root / "barrier.md", closed=True)
    assert reports.paths() == {str(root / "barrier.md")}
    assert reports.dirty == [(7, "folder created")], "target2 alone"
    assert watcher.folders == 2


def test_noise_that_a_rule_takes_back_in_is_watched_after_a_walk(
    watcher: NativeWatcher, root: Path, reports: Reports
) -> None:
    (root / ".notes").mkdir()
    watcher.start()
    assert watcher.folders == 1
    for _ in range(3):
        watcher.follow(walked(root))
        assert watcher.folders == 2
    (root / ".notes" / "a.md").write_text("hello")
    reports.wait_for_change(root / ".notes" / "a.md", closed=True)
    (root / ".notes" / ".git" / "deep").mkdir(parents=True)
    (root / ".notes" / "sub").mkdir()
    reports.wait_for_dirty("folder created")
    (root / ".notes" / "sub" / "b.md").write_text("hello")
    reports.wait_for_change(root / ".notes" / "sub" / "b.md", closed=True)
    assert watcher.folders == 3


def test_a_tree_that_was_moved_out_is_not_taken_for_the_one_that_came_in_its_place(
    watcher: NativeWatcher, root: Path, reports: Reports, tmp_path: Path
) -> None:
    (root / "sub").mkdir()
    watcher.start()
    (root / "sub").rename(tmp_path / "outside")
    (root / "sub").mkdir()
    (root / "barrier.md").write_text("1")
    reports.wait_for_change(root / "barrier.md", closed=True)
    watcher.follow(walked(root))
    (root / "sub" / "a.md").write_text("hello")
    reports.wait_for_change(root / "sub" / "a.md", closed=True)


def test_a_folder_that_is_removed_and_made_anew_again_and_again_does_not_end_the_reader(
    watcher: NativeWatcher, root: Path, reports: Reports
) -> None:
    watcher.start()
    for _ in range(200):
        (root / "sub").mkdir()
        (root / "sub").rmdir()
    (root / "barrier.md").write_text("1")
    reports.wait_for_change(root / "barrier.md", closed=True)
    assert watcher.healthy()
    assert watcher.folders == 1
