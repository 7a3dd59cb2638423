"""What a watcher does when events are lost, the root goes, the system's limits are reached, and at its end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from watchdog.observers.inotify_c import InotifyConstants, InotifyEvent, WatchDescriptor

from kbsync.errors import RetryLater
from kbsync.model import Change, Source
from kbsync.reasons import Reason
from kbsync.sources.watcher import NativeWatcher
from tests.sources.watch_reports import PATIENCE_S, Reports

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these are inotify's events")


def overflow(watcher: NativeWatcher) -> None:
    """Have a watcher hear from the kernel that its queue overflowed."""
    watcher._observer._inotify_fd.handle_event(  # type: ignore[union-attr]
        InotifyEvent(WatchDescriptor(-1), InotifyConstants.IN_Q_OVERFLOW, 0, b"")
    )


def test_a_lost_event_is_told_and_the_new_observer_still_sees(
    watcher: NativeWatcher, root: Path, reports: Reports
) -> None:
    (root / "sub").mkdir()
    watcher.start()
    overflow(watcher)
    reports.wait_for_dirty("overflow")
    assert watcher.healthy()
    assert watcher.folders == 2
    (root / "sub" / "a.md").write_text("hello")
    reports.wait_for_change(root / "sub" / "a.md", closed=True)


def test_a_queue_that_really_overflows_is_noticed(watcher: NativeWatcher, root: Path, reports: Reports) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 20_000:
        pytest.skip(f"overflowing a queue of {limit} events takes too long")
    watcher.start()
    # The reader waits for this lock, so the kernel's queue fills up as it does while a process is stopped; half as
    # much again, because one read of some thousand events gets through before.
    with watcher._observer._inotify_fd._lock:  # type: ignore[union-attr]
        for number in range(limit * 3 // 2):
            # Two files in turn: the kernel folds equal events in a row into one.
            os.close(os.open(root / f"{number % 2}.md", os.O_WRONLY | os.O_CREAT))
    reports.wait_for_dirty("overflow")
    (root / "after.md").write_text("hello")
    reports.wait_for_change(root / "after.md", closed=True)


def test_an_overflow_is_told_by_the_watcher_whose_queue_it_was_and_by_no_other(
    watcher: NativeWatcher, reports: Reports, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    others = Reports()
    other = NativeWatcher(Source(8, str(tmp_path / "other")), others.sink, others.note_dirty)
    watcher.start()
    other.start()
    try:
        overflow(watcher)
        reports.wait_for_dirty("overflow")
        (tmp_path / "other" / "barrier.md").write_text("1")
        others.wait(lambda: bool(others.changes))
        assert others.dirty == []
    finally:
        other.stop()


def test_an_error_in_the_sink_is_logged_and_the_watcher_goes_on(root: Path, reports: Reports) -> None:
    """W07"""

    def sink(change: Change) -> None:
        if change.path.endswith("bad.md"):
            raise ValueError("planted")
        reports.sink(change)

    with capture_logs() as logged:
        watcher = NativeWatcher(Source(7, str(root)), sink, reports.note_dirty)
        watcher.start()
        try:
            (root / "bad.md").write_text("1")
            reports.wait_for_dirty("error")
            (root / "good.md").write_text("1")
            reports.wait_for_change(root / "good.md", closed=True)
            assert watcher.healthy()
        finally:
            watcher.stop()
    failed = [entry for entry in logged if entry["event"] == "watcher_event_failed"]
    assert failed
    assert all(entry["log_level"] == "error" and "bad.md" in entry["watch_event"] for entry in failed)


def test_a_removed_root_is_noticed(watcher: NativeWatcher, root: Path, reports: Reports) -> None:
    watcher.start()
    assert watcher.healthy()
    root.rmdir()
    reports.wait_for_dirty("root gone")
    assert not watcher.healthy()


def test_another_folder_in_the_roots_place_is_noticed(watcher: NativeWatcher, root: Path, tmp_path: Path) -> None:
    watcher.start()
    root.rename(tmp_path / "elsewhere")
    assert not watcher.healthy()
    root.mkdir()
    assert not watcher.healthy()
    watcher.stop()
    watcher.start()
    assert watcher.healthy()


def test_a_dead_reader_is_noticed(watcher: NativeWatcher, root: Path) -> None:
    watcher.start()
    reader = watcher._observer._inotify_fd  # type: ignore[union-attr]
    reader.stop()
    reader.join()
    assert not watcher.healthy()


def test_stop_ends_all_threads_and_may_be_called_twice(root: Path, reports: Reports) -> None:
    before = set(threading.enumerate())
    watcher = NativeWatcher(Source(7, str(root)), reports.sink, reports.note_dirty)
    watcher.stop()
    watcher.start()
    watcher.start()
    assert set(threading.enumerate()) - before
    watcher.stop()
    watcher.stop()
    assert set(threading.enumerate()) - before == set()
    assert not watcher.healthy()
    (root / "a.md").write_text("hello")
    assert reports.changes == set()


def test_a_missing_root_is_to_be_tried_later_and_leaves_no_thread(tmp_path: Path, reports: Reports) -> None:
    before = set(threading.enumerate())
    watcher = NativeWatcher(Source(7, str(tmp_path / "missing")), reports.sink, reports.note_dirty)
    with pytest.raises(RetryLater, match="missing") as caught:
        watcher.start()
    assert caught.value.reason is Reason.IO
    assert set(threading.enumerate()) - before == set()
    (tmp_path / "missing").mkdir()
    watcher.start()
    assert watcher.healthy()
    watcher.stop()


_UNDER_A_LIMIT = """
import sys
from kbsync.errors import RetryLater
from kbsync.model import Source
from kbsync.sources.watcher import NativeWatcher
dirty = []
watcher = NativeWatcher(Source(7, sys.argv[1]), lambda change: None, lambda source_id, why: dirty.append(why))
try:
    watcher.start()
except RetryLater as error:
    print(error)
else:
    print(watcher.folders, watcher.unwatched, dirty)
watcher.stop()
"""


def _under_a_limit(limit: int, root: Path) -> str:
    """Run a watcher on `root` where the kernel grants `limit` watches only."""
    shell = f'echo {limit} >/proc/sys/user/max_inotify_watches && exec "$@"'
    command = ["unshare", "-Ur", "sh", "-c", shell, "sh", sys.executable, "-c", _UNDER_A_LIMIT, str(root)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    if "unshare" in done.stderr or "cannot create" in done.stderr:
        pytest.skip(f"no user namespaces here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_folders_beyond_the_limit_of_watches_are_counted(root: Path) -> None:
    for number in range(30):
        (root / str(number)).mkdir()
    assert _under_a_limit(10, root) == "10 21 ['unwatched']"


def test_no_watch_at_all_names_the_setting_to_raise(root: Path) -> None:
    assert "sysctl fs.inotify.max_user_watches" in _under_a_limit(0, root)


def test_stop_while_events_pour_in_returns(watcher: NativeWatcher, root: Path) -> None:
    watcher.start()
    enough = threading.Event()

    def pour() -> None:
        while not enough.is_set():
            (root / "a.md").write_text("hello")

    pouring = threading.Thread(target=pour)
    pouring.start()
    try:
        begun = time.monotonic()
        watcher.stop()
        assert time.monotonic() - begun < PATIENCE_S
    finally:
        enough.set()
        pouring.join()
