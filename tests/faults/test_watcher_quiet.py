"""What no event tells, what events tell in vain, and folders whose events never come: on a real disk."""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kbsync.config.sections import SourceSettings
from kbsync.config.settings import Settings
from kbsync.reasons import FileState, Reason
from tests.fakes.eventually import eventually
from tests.fakes.watched_disk import WatchedDisk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these are inotify's events")

OpenDisk = Callable[[], WatchedDisk]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "notes"
    root.mkdir()
    return root


@pytest.fixture
def opened(home: Path, root: Path) -> Iterator[OpenDisk]:
    """Return a function that opens an engine over the folder as it is then, and walks it."""
    disks: list[WatchedDisk] = []

    def open_disk() -> WatchedDisk:
        disks.append(WatchedDisk(home, [root]))
        disks[-1].rescan()
        return disks[-1]

    yield open_disk
    for disk in disks:
        disk.close()


def test_w15_what_is_written_through_a_mapping_or_another_name_is_found_by_a_rescan(
    opened: OpenDisk, root: Path, tmp_path: Path
) -> None:
    """W15: neither makes an event while it happens."""
    (root / "mapped.md").write_text("apple in the orchard\n")
    (root / "linked.md").write_text("apple by the gate\n")
    os.link(root / "linked.md", tmp_path / "other-name.md")
    disk = opened()
    descriptor = os.open(root / "mapped.md", os.O_RDWR)
    mapping = mmap.mmap(descriptor, 0)
    os.close(descriptor)
    disk.hear()
    disk.settle()
    mapping[0:5] = b"peach"
    mapping.flush()
    with (tmp_path / "other-name.md").open("r+") as file:
        file.write("plums")
    disk.rescan()
    mapping.close()
    assert disk.found("peach") == [str(root / "mapped.md")]
    assert disk.found("plums") == [str(root / "linked.md")]
    assert disk.found("apple") == []


def test_w16_a_busy_build_folder_costs_no_watch_and_no_write(opened: OpenDisk, root: Path) -> None:
    """W16: node_modules and .git by the built-in list, target by .gitignore; 1,000 files each."""
    noisy = [root / name for name in ("node_modules", ".git", "target")]
    for folder in noisy:
        (folder / "deep").mkdir(parents=True)
    (root / ".gitignore").write_text("target/\n")
    disk = opened()
    assert disk.watched()["folders"] == 1
    before = disk.read("PRAGMA data_version")
    for folder in noisy:
        for number in range(1_000):
            (folder / "deep" / f"{number}.md").write_text("noise\n")
    pulse = disk.natives[0].pulse
    disk.natives[0].beat()
    eventually(lambda: disk.natives[0].pulse > pulse)
    disk.clock.advance(5)
    assert not disk.turn()
    assert disk.told == set()
    assert disk.read("PRAGMA data_version") == before


def test_w16_a_folder_that_a_rule_let_go_of_is_watched_again(opened: OpenDisk, root: Path) -> None:
    """W16: the walk that reads the changed rule takes the watch."""
    (root / "target").mkdir()
    (root / ".gitignore").write_text("target/\n")
    disk = opened()
    (root / ".gitignore").write_text("")
    disk.rescan()
    assert disk.watched()["folders"] == 2
    (root / "target" / "a.md").write_text("apple\n")
    disk.hear()
    disk.settle()
    assert disk.found("apple") == [str(root / "target" / "a.md")]


def test_w19_a_polled_folder_with_a_link_to_itself_is_walked_once(opened: OpenDisk, root: Path, home: Path) -> None:
    """W19: the poll is our own walk, which follows no links."""
    (root / "sub").mkdir()
    (root / "sub" / "loop").symlink_to("..")
    (root / "sub" / "a.md").write_text("apple\n")
    disk = opened()
    config = home / "config.toml"
    config.write_text(config.read_text() + 'watch = "polling"\n')
    disk.daemon.reload()
    disk.settle()
    assert disk.watched()["mode"] == "polling"
    (root / "sub" / "b.md").write_text("peach\n")
    disk.supervise(32)
    assert disk.found("peach") == [str(root / "sub" / "b.md")]
    assert disk.state(str(root / "sub" / "loop")) == (FileState.SKIPPED, Reason.SYMLINK)
    assert disk.read("SELECT count(*) FROM files") == [(3,)]


def test_w20_a_folder_that_is_told_to_be_polled_says_so_and_is_quiet_while_nothing_changes(
    opened: OpenDisk, root: Path, home: Path
) -> None:
    """W20: the state of the source is `polling`; polls that find nothing write nothing."""
    (root / "a.md").write_text("apple\n")
    disk = opened()
    config = home / "config.toml"
    config.write_text(config.read_text() + 'watch = "polling"\n')
    disk.daemon.reload()
    disk.settle()
    assert disk.source_state(str(root)) == ("polling", None)
    before = disk.read("PRAGMA data_version")
    disk.supervise(120)
    assert disk.read("PRAGMA data_version") == before
    (root / "b.md").write_text("peach\n")
    disk.supervise(32)
    assert disk.found("peach") == [str(root / "b.md")]


@pytest.mark.parametrize("second", ["notes", "notes/sub", "link", "link/sub"])
def test_w21_a_folder_twice_or_inside_another_or_by_a_link_is_refused(tmp_path: Path, root: Path, second: str) -> None:
    """W21: so each file is indexed once."""
    (root / "sub").mkdir()
    (tmp_path / "link").symlink_to(root)
    with pytest.raises(ValueError, match=r"twice|lies inside"):
        Settings(sources=(SourceSettings(path=str(root)), SourceSettings(path=str(tmp_path / second))))
