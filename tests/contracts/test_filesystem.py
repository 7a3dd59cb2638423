"""What every file system must do: the same tests on the real one and on the simulated one."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Protocol

import pytest

from kbsync.filesystem import FileSystem, RealFileSystem
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_filesystem import SimulatedFileSystem


class Disk(Protocol):
    """How a test changes the disk. `root` is an empty folder."""

    root: str

    def write(self, path: str, content: bytes) -> None: ...
    def make_directory(self, path: str) -> None: ...
    def symlink(self, path: str, target: str) -> None: ...
    def fifo(self, path: str) -> None: ...
    def rename(self, old: str, new: str) -> None: ...
    def remove(self, path: str) -> None: ...
    def let_time_pass(self) -> None: ...


class RealDisk:
    def __init__(self, root: str) -> None:
        self.root = root
        self.fs = RealFileSystem()

    def write(self, path: str, content: bytes) -> None:
        Path(path).write_bytes(content)

    def make_directory(self, path: str) -> None:
        os.mkdir(path)

    def symlink(self, path: str, target: str) -> None:
        os.symlink(target, path)

    def fifo(self, path: str) -> None:
        os.mkfifo(path)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def let_time_pass(self) -> None:
        """Return once the disk's own clock has moved on, however coarse it is."""
        probe = os.path.join(self.root, ".probe")
        deadline = time.monotonic() + 10
        Path(probe).write_bytes(b"")
        before = os.lstat(probe).st_mtime_ns
        while os.lstat(probe).st_mtime_ns == before:
            assert time.monotonic() < deadline, "the disk's clock stands still"
            Path(probe).write_bytes(b"")
        os.unlink(probe)


class SimulatedDisk:
    def __init__(self) -> None:
        self.root = "/disk"
        self._clock = ManualClock()
        self.fs = SimulatedFileSystem(self._clock)
        self.fs.make_directory(self.root)
        self.write, self.make_directory, self.symlink = self.fs.write, self.fs.make_directory, self.fs.symlink
        self.fifo, self.rename, self.remove = self.fs.fifo, self.fs.rename, self.fs.remove

    def let_time_pass(self) -> None:
        self._clock.advance(1.0)


@pytest.fixture(params=["real", "simulated"])
def built(request: pytest.FixtureRequest, tmp_path: Path) -> RealDisk | SimulatedDisk:
    return RealDisk(str(tmp_path.resolve())) if request.param == "real" else SimulatedDisk()


@pytest.fixture
def disk(built: RealDisk | SimulatedDisk) -> Disk:
    return built


@pytest.fixture
def fs(built: RealDisk | SimulatedDisk) -> FileSystem:
    return built.fs


def test_lstat_tells_each_kind_apart(fs: FileSystem, disk: Disk) -> None:
    disk.write(f"{disk.root}/file", b"12345")
    disk.make_directory(f"{disk.root}/folder")
    disk.symlink(f"{disk.root}/link", f"{disk.root}/file")
    disk.symlink(f"{disk.root}/broken", "/nowhere/at/all")
    disk.fifo(f"{disk.root}/pipe")
    kinds = {name: fs.lstat(f"{disk.root}/{name}").kind for name in ("file", "folder", "link", "broken", "pipe")}
    expected = {"file": "file", "folder": "directory", "link": "symlink", "broken": "symlink", "pipe": "special"}
    assert kinds == expected
    assert fs.lstat(f"{disk.root}/file").size == 5
    assert fs.lstat(disk.root).kind == "directory"


def test_lstat_looks_through_a_linked_parent(fs: FileSystem, disk: Disk) -> None:
    disk.make_directory(f"{disk.root}/folder")
    disk.write(f"{disk.root}/folder/file", b"1")
    disk.symlink(f"{disk.root}/link", f"{disk.root}/folder")
    assert fs.lstat(f"{disk.root}/link/file") == fs.lstat(f"{disk.root}/folder/file")


def test_a_disk_is_named_the_same_from_any_of_its_folders_or_not_at_all(fs: FileSystem, disk: Disk) -> None:
    disk.make_directory(f"{disk.root}/folder")
    named = fs.filesystem_id(disk.root)
    assert named == fs.filesystem_id(f"{disk.root}/folder") == fs.filesystem_id(disk.root)
    assert named is None or named not in (0, fs.lstat(disk.root).device)
    with pytest.raises(FileNotFoundError):
        fs.filesystem_id(f"{disk.root}/nowhere")


def test_a_listing_holds_every_entry_with_its_own_stat(fs: FileSystem, disk: Disk) -> None:
    disk.write(f"{disk.root}/a", b"1")
    disk.make_directory(f"{disk.root}/b")
    disk.write(f"{disk.root}/b/inner", b"")
    disk.symlink(f"{disk.root}/c", f"{disk.root}/a")
    disk.fifo(f"{disk.root}/d")
    listing = {entry.name: entry.stat for entry in fs.list_directory(disk.root)}
    assert listing == {name: fs.lstat(f"{disk.root}/{name}") for name in "abcd"}


def test_an_open_file_is_read_in_blocks_and_tells_its_stat(fs: FileSystem, disk: Disk) -> None:
    disk.write(f"{disk.root}/file", b"0123456789")
    with fs.open_file(f"{disk.root}/file") as file:
        assert file.fstat() == fs.lstat(f"{disk.root}/file")
        assert [file.read(4), file.read(4), file.read(4), file.read(4)] == [b"0123", b"4567", b"89", b""]
    with pytest.raises(OSError, match=r".*"):
        file.fstat()


def test_an_open_file_stays_readable_after_its_name_went(fs: FileSystem, disk: Disk) -> None:
    disk.write(f"{disk.root}/file", b"kept")
    with fs.open_file(f"{disk.root}/file") as file:
        disk.remove(f"{disk.root}/file")
        disk.write(f"{disk.root}/file", b"new!")
        assert file.read(10) == b"kept"
        assert file.fstat().inode != fs.lstat(f"{disk.root}/file").inode


@pytest.mark.parametrize("target", ["file", "folder", "nothing"])
def test_a_link_is_refused(fs: FileSystem, disk: Disk, target: str) -> None:
    disk.write(f"{disk.root}/file", b"secret")
    disk.make_directory(f"{disk.root}/folder")
    disk.symlink(f"{disk.root}/link", f"{disk.root}/{target}")
    with pytest.raises(OSError, match=r".*"):
        fs.open_file(f"{disk.root}/link")
    with pytest.raises(OSError, match=r".*"):
        fs.list_directory(f"{disk.root}/link")


def test_a_linked_parent_is_refused(fs: FileSystem, disk: Disk) -> None:
    disk.make_directory(f"{disk.root}/folder")
    disk.make_directory(f"{disk.root}/folder/inner")
    disk.write(f"{disk.root}/folder/file", b"secret")
    disk.symlink(f"{disk.root}/link", f"{disk.root}/folder")
    with pytest.raises(OSError, match=r".*"):
        fs.open_file(f"{disk.root}/link/file")
    with pytest.raises(OSError, match=r".*"):
        fs.list_directory(f"{disk.root}/link/inner")


def test_folders_and_special_files_do_not_open(fs: FileSystem, disk: Disk) -> None:
    disk.make_directory(f"{disk.root}/folder")
    disk.fifo(f"{disk.root}/pipe")
    with pytest.raises(IsADirectoryError):
        fs.open_file(f"{disk.root}/folder")
    with pytest.raises(OSError, match="ordinary"):
        fs.open_file(f"{disk.root}/pipe")


@pytest.mark.parametrize("path", ["missing", "missing/below", "folder/missing"])
def test_what_is_not_there_is_not_found(fs: FileSystem, disk: Disk, path: str) -> None:
    disk.make_directory(f"{disk.root}/folder")
    for ask in (fs.lstat, fs.list_directory, fs.open_file):
        with pytest.raises(FileNotFoundError):
            ask(f"{disk.root}/{path}")


def test_a_file_is_no_folder(fs: FileSystem, disk: Disk) -> None:
    disk.write(f"{disk.root}/file", b"1")
    with pytest.raises(NotADirectoryError):
        fs.list_directory(f"{disk.root}/file")
    with pytest.raises(NotADirectoryError):
        fs.lstat(f"{disk.root}/file/below")


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_rename_keeps_inode_and_mtime_and_moves_ctime(fs: FileSystem, disk: Disk, kind: str) -> None:
    old, new = f"{disk.root}/old", f"{disk.root}/new"
    if kind == "file":
        disk.write(old, b"1")
    else:
        disk.make_directory(old)
        disk.write(f"{old}/inner", b"1")
    before = fs.lstat(old)
    disk.let_time_pass()
    disk.rename(old, new)
    after = fs.lstat(new)
    assert (after.inode, after.device, after.mtime_ns) == (before.inode, before.device, before.mtime_ns)
    assert after.ctime_ns > before.ctime_ns
    with pytest.raises(FileNotFoundError):
        fs.lstat(old)
    if kind == "folder":
        assert [entry.name for entry in fs.list_directory(new)] == ["inner"]


def test_a_rename_over_a_file_puts_the_other_inode_in_its_place(fs: FileSystem, disk: Disk) -> None:
    disk.write(f"{disk.root}/file", b"old")
    disk.write(f"{disk.root}/temporary", b"newer")
    inode = fs.lstat(f"{disk.root}/temporary").inode
    disk.rename(f"{disk.root}/temporary", f"{disk.root}/file")
    assert (fs.lstat(f"{disk.root}/file").inode, fs.lstat(f"{disk.root}/file").size) == (inode, 5)
    assert len(fs.list_directory(disk.root)) == 1


def test_a_change_of_the_same_size_moves_mtime_and_ctime_and_keeps_the_inode(fs: FileSystem, disk: Disk) -> None:
    disk.write(f"{disk.root}/file", b"one")
    before = fs.lstat(f"{disk.root}/file")
    disk.let_time_pass()
    disk.write(f"{disk.root}/file", b"two")
    after = fs.lstat(f"{disk.root}/file")
    assert (after.inode, after.size) == (before.inode, before.size)
    assert after.mtime_ns > before.mtime_ns
    assert after.ctime_ns > before.ctime_ns


def test_a_new_entry_moves_its_folders_mtime(fs: FileSystem, disk: Disk) -> None:
    before = fs.lstat(disk.root)
    disk.let_time_pass()
    disk.write(f"{disk.root}/file", b"")
    assert fs.lstat(disk.root).mtime_ns > before.mtime_ns


def test_a_relative_path_is_refused(fs: FileSystem) -> None:
    with pytest.raises(ValueError, match="absolute"):
        fs.open_file("file")
    with pytest.raises(ValueError, match="absolute"):
        fs.list_directory("folder")
