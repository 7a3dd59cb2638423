"""The file system as a narrow protocol, and the real one, which never follows a symbolic link.

Paths are absolute `str` as `os.fsdecode` gives them (surrogate escapes for bytes that are no UTF-8).
Only reading: nothing here can write to a source.
"""

from __future__ import annotations

import errno
import os
import stat as stat_module
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol, Self

FileKind = Literal["file", "directory", "symlink", "special"]


def as_text(path: str) -> str:
    """Return a path, or a message with one in it, as text that can be stored and sent: odd bytes become `\\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def is_at(descriptor: int, path: str) -> bool:
    """Return whether an open file is the one that a path names now: it may have been removed or replaced since."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Stat:
    """What identifies a version of a file without reading it. Times in nanoseconds, sizes in bytes.

    Beside that, and no part of its identity: how many bytes the disk holds of it (None where the system does not say),
    and whether its content is in the cloud only, so that reading would download it.
    """

    kind: FileKind
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int
    # A disk may hand out blocks seconds after the write: not compared.
    allocated: int | None = field(default=None, compare=False)
    cloud_only: bool = field(default=False, compare=False)

    @property
    def mtime(self) -> float:
        """Seconds since 1970 of the last change of the content."""
        return self.mtime_ns / 1e9


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a folder, with its own (not its target's) stat."""

    name: str
    stat: Stat


class OpenFile(Protocol):
    """A regular file open for reading."""

    def fstat(self) -> Stat: ...
    def read(self, size: int) -> bytes: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc_info: object) -> None: ...


class FileSystem(Protocol):
    """What kbsync asks of the disk that holds the sources. Every method may raise OSError."""

    def lstat(self, path: str) -> Stat:
        """Return the path's own stat; a link is told as a link."""
        ...

    def list_directory(self, path: str) -> list[Entry]:
        """Return every entry of a folder, in no order. Entries that vanish meanwhile are left out."""
        ...

    def open_file(self, path: str) -> OpenFile:
        """Open a regular file without following a link anywhere in the path; never blocks on a pipe.

        Raises IsADirectoryError for a folder and OSError (ELOOP, ENXIO, EINVAL) for links and special files.
        """
        ...

    def filesystem_id(self, path: str) -> int | None:
        """Return what names the file system of a folder, at whatever device; None where the system does not say."""
        ...


_KINDS: dict[int, FileKind] = {
    stat_module.S_IFREG: "file",
    stat_module.S_IFDIR: "directory",
    stat_module.S_IFLNK: "symlink",
}
_MOST_SIGNED = (1 << 63) - 1
# st_blocks counts in these, whatever the disk's own blocks are.
_BLOCK = 512
# macOS: SF_DATALESS. Windows: FILE_ATTRIBUTE_OFFLINE, _RECALL_ON_OPEN and _RECALL_ON_DATA_ACCESS.
_DATALESS = 0x40000000
_RECALLED = 0x1000 | 0x40000 | 0x400000
_MARKS = tuple(
    (name, mask)
    for name, mask in (("st_flags", _DATALESS), ("st_file_attributes", _RECALLED))
    if hasattr(os.stat_result, name)
)


def is_marked_cloud_only(result: object, marks: tuple[tuple[str, int], ...]) -> bool:
    """Say whether a stat carries any of the (attribute, mask) pairs by which a system marks a cloud's placeholder."""
    return any(getattr(result, name) & mask for name, mask in marks)


def stat_of(result: os.stat_result) -> Stat:
    """Translate the operating system's answer. Inode and device are folded into SQLite's signed 64 bits."""
    inode, device, blocks = result.st_ino, result.st_dev, getattr(result, "st_blocks", None)
    return Stat(
        _KINDS.get(stat_module.S_IFMT(result.st_mode), "special"),
        result.st_size,
        result.st_mtime_ns,
        result.st_ctime_ns,
        inode if inode <= _MOST_SIGNED else inode - (1 << 64),
        device if device <= _MOST_SIGNED else device - (1 << 64),
        None if blocks is None else blocks * _BLOCK,
        bool(_MARKS) and is_marked_cloud_only(result, _MARKS),
    )


# A folder on the way is opened for passing through only: that needs no read permission on it.
_PASS = getattr(os, "O_PATH", getattr(os, "O_SEARCH", os.O_RDONLY)) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ_ONLY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class RealOpenFile:
    """A descriptor with the few calls that reading needs."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fstat(self) -> Stat:
        return stat_of(os.fstat(self._descriptor))

    def read(self, size: int) -> bytes:
        return os.read(self._descriptor, size)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class RealFileSystem:
    """The operating system's files. Each component is opened below the one before, so a link swapped in is refused."""

    def lstat(self, path: str) -> Stat:
        return stat_of(os.lstat(path))

    def list_directory(self, path: str) -> list[Entry]:
        entries = []
        with walked_to(path) as (parent, name):
            descriptor = os.open(name, READ_ONLY | os.O_DIRECTORY, dir_fd=parent)
        try:
            with os.scandir(descriptor) as names:
                for found in names:
                    try:
                        entries.append(Entry(found.name, stat_of(found.stat(follow_symlinks=False))))
                    except FileNotFoundError:
                        continue  # vanished between the listing and the look: it is not there
        finally:
            os.close(descriptor)
        return entries

    def open_file(self, path: str) -> RealOpenFile:
        with walked_to(path) as (parent, name):
            descriptor = os.open(name, READ_ONLY, dir_fd=parent)
        mode = os.fstat(descriptor).st_mode
        if stat_module.S_ISREG(mode):
            return RealOpenFile(descriptor)
        os.close(descriptor)
        if stat_module.S_ISDIR(mode):
            raise IsADirectoryError(21, "is a folder", path)
        raise OSError(22, "is not an ordinary file", path)

    def filesystem_id(self, path: str) -> int | None:
        named = os.statvfs(path).f_fsid
        # XFS and FAT give their device's number here, which the next disk at that socket gets too.
        return None if named in (0, os.lstat(path).st_dev) else named


def sync_folder(folder: str) -> None:
    """Have what was made, renamed or removed in a folder of our own outlive a loss of power. Raises OSError.

    A file system that knows nothing of it (FAT, some shares) is no reason to go without the folder.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(descriptor)


@contextmanager
def walked_to(path: str) -> Iterator[tuple[int, str]]:
    """Yield (descriptor of the parent folder, last name), every folder on the way opened without following links."""
    if not os.path.isabs(path):
        raise ValueError(f"not an absolute path: {path!r}")
    *folders, name = [part for part in path.split(os.sep) if part] or ["."]
    parent = os.open(os.sep, _PASS)
    try:
        for folder in folders:
            below = os.open(folder, _PASS, dir_fd=parent)
            os.close(parent)
            parent = below
        yield parent, name
    finally:
        os.close(parent)
