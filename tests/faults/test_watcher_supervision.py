"""Watchers that lose events, their threads or their folder, on a real disk."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.eventually import eventually
from tests.fakes.watched_disk import WatchedDisk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these are inotify's events")

CHECKOUT = Path(__file__).parent.parent.parent
FILES, NOTES = 12_000, 50


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "notes"
    root.mkdir()
    (root / "quince.md").write_text("quince ripens late\n")
    return root


@pytest.fixture
def disk(home: Path, root: Path) -> Iterator[WatchedDisk]:
    disk = WatchedDisk(home, [root])
    disk.rescan()
    yield disk
    disk.close()


@pytest.mark.timeout(300)
def test_w01_what_happened_while_the_process_was_stopped_is_found_and_the_loss_is_counted(
    home: Path, root: Path
) -> None:
    """W01: 12,000 files in one folder overflow the queue of a stopped process; no timer's rescan helps."""
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 3 * FILES:
        pytest.skip(f"{FILES} files do not overflow a queue of {limit} events")
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.faults.stopped_watcher", str(home), str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=CHECKOUT,
    )
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            assert any(line == "READY\n" for line in child.stdout)
            child.send_signal(signal.SIGSTOP)
            for number in range(FILES):
                # Nearly all of a type that is not read: their places in the ledger are what counts here.
                (root / f"{number}.{'bin' if number < FILES - NOTES else 'md'}").write_text(f"number {number}\n")
            child.send_signal(signal.SIGCONT)
            child.stdin.write("go\n")
            child.stdin.flush()
            (line,) = [line for line in child.stdout if line.startswith("SEEN ")]
        finally:
            child.kill()
    seen = json.loads(line.removeprefix("SEEN "))
    assert seen["told"] < FILES, "some events were really lost"
    assert seen["status"]["events_lost"] == 1
    assert seen["seen"] == FILES + 2, "the first file and the cookie too"
    assert seen["indexed"] == NOTES + 2


def test_w05_a_root_that_goes_is_noticed_and_watched_again_when_it_is_back(
    disk: WatchedDisk, root: Path, tmp_path: Path
) -> None:
    """W05: within five seconds each; what was in it stays searchable."""
    root.rename(tmp_path / "unplugged")
    disk.supervise(4)
    assert disk.watched()["watching"] is False
    assert disk.source_state(str(root)) == ("paused", "missing")
    assert disk.found("quince") == [str(root / "quince.md")]
    (tmp_path / "unplugged" / "medlar.md").write_text("medlar wants frost\n")
    (tmp_path / "unplugged").rename(root)
    disk.supervise(6)
    assert (disk.watched()["watching"], disk.watched()["error"]) == (True, None)
    assert disk.source_state(str(root))[0] == "watching"
    assert disk.found("medlar") == [str(root / "medlar.md")]
    (root / "rowan.md").write_text("rowan by the gate\n")
    disk.hear()
    disk.settle()
    assert disk.found("rowan") == [str(root / "rowan.md")]


def test_w05_the_end_of_the_root_s_emitter_alone_is_noticed(disk: WatchedDisk, root: Path) -> None:
    """W05: the observer lives on, and its reader."""
    shutil.rmtree(root)
    observer = disk.natives[0]._observer
    assert observer is not None
    eventually(lambda: not all(emitter.is_alive() for emitter in observer.emitters))
    assert observer.is_alive()
    # On some file systems the new folder gets the old one's inode.
    root.mkdir()
    assert not disk.natives[0].healthy()
    disk.supervise(4)
    assert len(disk.natives) == 2
    (root / "rowan.md").write_text("rowan by the gate\n")
    disk.hear()


def test_w06_another_folder_in_the_root_s_place_is_watched_and_deletes_nothing(
    disk: WatchedDisk, root: Path, tmp_path: Path
) -> None:
    """W06: no event tells of it; whose folder it is, the walk judges."""
    root.rename(tmp_path / "elsewhere")
    root.mkdir()
    (root / "stranger.md").write_text("stranger\n")
    disk.supervise(4)
    assert len(disk.natives) == 2
    assert disk.natives[1].healthy()
    (root / "another.md").write_text("another\n")
    disk.hear()
    assert str(root / "another.md") in disk.told
    disk.settle()
    assert disk.found("quince") == [str(root / "quince.md")], "another disk in its place is no deletion"


def test_w20_a_deaf_observer_is_replaced_and_what_it_missed_is_found(disk: WatchedDisk, root: Path) -> None:
    """W20: every thread lives, and nothing arrives; only the heartbeat shows it."""
    fd = disk.natives[0]._observer._inotify_fd  # type: ignore[union-attr]
    deaf = disk.natives[0]
    fd.handle_event = lambda event: None
    (root / "medlar.md").write_text("medlar wants frost\n")
    assert deaf.healthy()
    disk.supervise(80)
    assert len(disk.natives) == 2
    assert disk.watched()["events_lost"] == 1
    assert disk.found("medlar") == [str(root / "medlar.md")]


def test_the_heartbeat_comes_back_while_nothing_else_happens(disk: WatchedDisk) -> None:
    before = disk.read("PRAGMA data_version")
    for _ in range(4):
        pulse = disk.natives[0].pulse
        disk.clock.advance(61)
        disk.loops.watchers.supervise()
        eventually(lambda pulse=pulse: disk.natives[0].pulse > pulse)  # type: ignore[misc]
        disk.loops.watchers.supervise()
    disk.turn()
    assert len(disk.natives) == 1
    assert disk.watched()["events_lost"] == 0
    assert disk.read("PRAGMA data_version") == before, "an idle machine writes nothing"
