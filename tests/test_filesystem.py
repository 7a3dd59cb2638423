"""Faults that only a real file system has."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from kbsync.filesystem import RealFileSystem, is_marked_cloud_only, stat_of

FS = RealFileSystem()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.mark.timeout(10)
def test_a_pipe_without_a_writer_does_not_block(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(OSError, match="ordinary"):
        FS.open_file(str(root / "pipe"))


def test_a_socket_and_a_device_do_not_open(root: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        previous = os.open(".", os.O_RDONLY)
        os.chdir(root)  # a socket's path may be 107 bytes long at most
        try:
            listening.bind("socket")
        finally:
            os.fchdir(previous)
            os.close(previous)
        assert FS.lstat(str(root / "socket")).kind == "special"
        with pytest.raises(OSError, match=r"No such device|not supported|ordinary"):
            FS.open_file(str(root / "socket"))
    with pytest.raises(OSError, match="ordinary"):
        FS.open_file("/dev/null")


def test_nothing_outside_is_read_while_a_parent_is_swapped_for_a_link(root: Path) -> None:
    """The folder and a link to a secret one take turns at the same name, by atomic exchange of names."""
    (root / "real").mkdir()
    (root / "real" / "file").write_bytes(b"open")
    (root / "outside").mkdir()
    (root / "outside" / "file").write_bytes(b"secret")
    (root / "link").symlink_to(root / "outside")
    (root / "real").rename(root / "folder")
    done = threading.Event()
    swaps = 0

    def swap() -> None:
        nonlocal swaps
        while not done.is_set():
            (root / "folder").rename(root / "aside")
            (root / "link").rename(root / "folder")
            (root / "folder").rename(root / "link")
            (root / "aside").rename(root / "folder")
            swaps += 1

    swapping = threading.Thread(target=swap)
    swapping.start()
    contents, refused = set(), 0
    try:
        for _ in range(3_000):
            try:
                with FS.open_file(str(root / "folder" / "file")) as file:
                    contents.add(file.read(10))
            except OSError:
                refused += 1
    finally:
        done.set()
        swapping.join()
    assert b"secret" not in contents
    assert swaps > 0
    assert refused > 0, "the race never happened: the test proves nothing"


@pytest.mark.parametrize("name", [b"caf\xe9.md", b"new\nline", b"\x1b[0m", b"-rf", b"n" * 255], ids=repr)
def test_names_of_any_bytes_are_listed_and_opened(root: Path, name: bytes) -> None:
    with open(os.fsencode(root) + b"/" + name, "wb") as file:
        file.write(b"1")
    (entry,) = FS.list_directory(str(root))
    assert os.fsencode(entry.name) == name
    path = os.path.join(str(root), entry.name)
    assert FS.lstat(path) == entry.stat
    with FS.open_file(path) as opened:
        assert (opened.read(10), opened.fstat()) == (b"1", entry.stat)


def test_a_name_that_is_too_long_is_an_error_of_the_system(root: Path) -> None:
    with pytest.raises(OSError, match="too long"):
        FS.lstat(str(root / ("n" * 256)))


def test_a_path_longer_than_the_system_takes_at_once_is_opened(root: Path) -> None:
    previous = os.open(".", os.O_RDONLY)
    os.chdir(root)
    try:
        for _ in range(25):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
        Path("file").write_bytes(b"deep")
    finally:
        os.fchdir(previous)
        os.close(previous)
    path = str(root) + ("/" + "d" * 200) * 25 + "/file"
    assert len(path) > 4096
    with FS.open_file(path) as file:
        assert file.read(10) == b"deep"


def test_no_descriptor_is_left_open(root: Path) -> None:
    (root / "folder").mkdir()
    (root / "file").write_bytes(b"1")
    (root / "link").symlink_to("file")
    os.mkfifo(root / "pipe")
    before = len(os.listdir("/dev/fd"))
    for name in ("file", "folder", "link", "pipe", "missing", "missing/below", "file/below"):
        for ask in (FS.open_file, FS.list_directory):
            try:
                found = ask(str(root / name))
            except OSError:
                continue
            if not isinstance(found, list):
                found.close()
                found.close()
    assert len(os.listdir("/dev/fd")) == before


def test_numbers_beyond_sqlites_are_folded_and_stay_apart() -> None:
    values = [0, 2**63 - 1, 2**63, 2**64 - 1]
    stats = [stat_of(os.stat_result((stat.S_IFREG, inode, inode, 1, 0, 0, 0, 0, 0, 0))) for inode in values]
    assert all(-(2**63) <= found.inode < 2**63 and -(2**63) <= found.device < 2**63 for found in stats)
    assert len({found.inode for found in stats}) == len(values)


_AS_NOBODY = """
import os, sys
from kbsync.filesystem import RealFileSystem
os.setgid(65534)
os.setuid(65534)
assert os.geteuid() == 65534
root = sys.argv[1]
try:
    open(root + "/unreadable").close()
except PermissionError:
    pass
else:
    sys.exit("this user may read everything: the test proves nothing")
fs = RealFileSystem()

def outcome(ask, path):
    try:
        found = ask(root + path)
    except OSError as error:
        return type(error).__name__
    if isinstance(found, list):
        return sorted(entry.name for entry in found)
    with found:
        return found.read(10)

print([outcome(fs.open_file, "/readable"), outcome(fs.open_file, "/unreadable")])
print([outcome(fs.list_directory, "/locked"), outcome(fs.open_file, "/locked/file")])
print([outcome(fs.list_directory, "/passable"), outcome(fs.open_file, "/passable/file")])
print([outcome(fs.list_directory, "/listable"), outcome(fs.open_file, "/listable/file")])
print([fs.lstat(root + "/locked").kind, fs.lstat(root + "/unreadable").kind])
"""


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root, to leave it")
def test_permissions_are_told_as_such_and_passing_through_needs_no_reading() -> None:
    # pytest's own folders are closed to other users
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        root.chmod(0o755)
        for folder, mode in (("locked", 0o000), ("passable", 0o311), ("listable", 0o744)):
            (root / folder).mkdir()
            (root / folder / "file").write_bytes(b"inner")
            (root / folder).chmod(mode)
        (root / "readable").write_bytes(b"open")
        (root / "unreadable").write_bytes(b"secret")
        (root / "unreadable").chmod(0o000)
        done = subprocess.run(
            [sys.executable, "-c", _AS_NOBODY, str(root)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[b'open', 'PermissionError']",
        "['PermissionError', 'PermissionError']",
        "['PermissionError', b'inner']",
        "['PermissionError', 'PermissionError']",
        "['directory', 'file']",
    ]


@pytest.mark.parametrize(
    ("attribute", "value", "cloud_only"),
    [
        ("st_flags", 0x40000020, True),  # macOS: SF_DATALESS with UF_COMPRESSED, as iCloud's placeholders have it
        ("st_flags", 0x20, False),
        ("st_file_attributes", 0x501620, True),  # Windows: OneDrive, RECALL_ON_DATA_ACCESS and OFFLINE
        ("st_file_attributes", 0x441220, True),  # RECALL_ON_OPEN
        ("st_file_attributes", 0x20, False),
    ],
)
def test_a_placeholder_of_a_cloud_is_told_by_its_marks(attribute: str, value: int, cloud_only: bool) -> None:
    """F32: recorded stats; on Linux no stat has such a mark."""
    marks = {"st_flags": 0x40000000, "st_file_attributes": 0x1000 | 0x40000 | 0x400000}
    found = SimpleNamespace(**{attribute: value})
    assert is_marked_cloud_only(found, ((attribute, marks[attribute]),)) is cloud_only


def test_what_the_disk_holds_of_a_file_is_told_and_is_no_part_of_its_version(root: Path) -> None:
    """F08."""
    with (root / "holes").open("wb") as file:
        file.truncate(1 << 30)
    (root / "full").write_bytes(b"x" * 100_000)
    fs = RealFileSystem()
    assert fs.lstat(str(root / "holes")).allocated == 0
    full = fs.lstat(str(root / "full"))
    assert full == replace(full, allocated=0, cloud_only=True)
