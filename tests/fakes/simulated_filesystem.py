"""A file system in memory with inodes and times, on which anything can be made to fail."""

from __future__ import annotations

import errno
import itertools
import os
from dataclasses import dataclass, field
from typing import Self

from kbsync.clock import Clock
from kbsync.filesystem import Entry, FileKind, Stat

_DEVICE = 77
_MOST_LINKS = 40


@dataclass(eq=False)
class _Node:
    kind: FileKind
    inode: int
    mtime_ns: int
    ctime_ns: int
    content: bytes = b""
    target: str = ""
    names: dict[str, _Node] = field(default_factory=dict)

    def stat(self) -> Stat:
        size = len(self.target.encode(errors="surrogateescape")) if self.kind == "symlink" else len(self.content)
        return Stat(self.kind, size, self.mtime_ns, self.ctime_ns, self.inode, _DEVICE)


class SimulatedFileSystem:
    """Implements kbsync.filesystem.FileSystem. Paths are absolute; folders are made as needed.

    Times are the clock's: two writes without `advance` between them leave the same mtime, as within a tick of a disk.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._inodes = itertools.count(2)
        self._root = self._node("directory")
        self._failing: dict[str, OSError] = {}

    # ---- what a test does to the disk ----

    def write(self, path: str, content: bytes) -> None:
        """Make a file or change the one that is there, in place."""
        folder, name = self._folder_of(path)
        node = folder.names.get(name)
        if node is None:
            node = self._place(folder, name, self._node("file"))
        elif node.kind != "file":
            raise OSError(errno.EISDIR, "is no file", path)
        node.content = content
        node.mtime_ns = node.ctime_ns = self._now_ns()

    def make_directory(self, path: str) -> None:
        """Make a folder; one that is there stays."""
        folder, name = self._folder_of(path)
        if name not in folder.names:
            self._place(folder, name, self._node("directory"))

    def symlink(self, path: str, target: str) -> None:
        folder, name = self._folder_of(path)
        self._place(folder, name, self._node("symlink")).target = target

    def fifo(self, path: str) -> None:
        """Make something that is neither file, folder nor link."""
        folder, name = self._folder_of(path)
        self._place(folder, name, self._node("special"))

    def remove(self, path: str) -> None:
        """Remove a path with everything below it."""
        folder, name = self._existing_folder_of(path)
        if name not in folder.names:
            raise FileNotFoundError(errno.ENOENT, "is not there", path)
        del folder.names[name]
        folder.mtime_ns = folder.ctime_ns = self._now_ns()

    def rename(self, old: str, new: str) -> None:
        """Move a path with everything below it over whatever is at the new one. The inode and mtime stay."""
        folder, name = self._existing_folder_of(old)
        if name not in folder.names:
            raise FileNotFoundError(errno.ENOENT, "is not there", old)
        node = folder.names[name]
        target, target_name = self._folder_of(new)
        del folder.names[name]
        folder.mtime_ns = folder.ctime_ns = node.ctime_ns = self._now_ns()
        self._place(target, target_name, node)

    def set_mtime(self, path: str, mtime: float) -> None:
        """Set a modification time as `utime` does: ctime tells."""
        node = self._find(path, follow_parents=False)
        node.mtime_ns, node.ctime_ns = int(mtime * 1e9), self._now_ns()

    def fail(self, path: str, error: OSError) -> None:
        """Raise `error` from now on when the path is listed, opened or read, or anything below it is touched."""
        self._failing[path] = error

    def heal(self, path: str) -> None:
        del self._failing[path]

    # ---- what kbsync asks ----

    def lstat(self, path: str) -> Stat:
        self._raise_above(path)
        return self._find(path, follow_parents=True).stat()

    def list_directory(self, path: str) -> list[Entry]:
        self._raise_at(path)
        node = self._find(path, follow_parents=False)
        if node.kind != "directory":
            raise NotADirectoryError(errno.ENOTDIR, "is not a folder", path)
        # Unordered, as on a disk: the reverse of the order in which they were made.
        return [Entry(name, child.stat()) for name, child in reversed(node.names.items())]

    def open_file(self, path: str) -> SimulatedOpenFile:
        self._raise_at(path)
        node = self._find(path, follow_parents=False)
        if node.kind == "directory":
            raise IsADirectoryError(errno.EISDIR, "is a folder", path)
        if node.kind == "symlink":
            raise OSError(errno.ELOOP, "is a symbolic link", path)
        if node.kind != "file":
            raise OSError(errno.EINVAL, "is not an ordinary file", path)
        return SimulatedOpenFile(self, node, path)

    # ---- inside ----

    def _now_ns(self) -> int:
        return int(self._clock.now() * 1e9)

    def _node(self, kind: FileKind) -> _Node:
        now = self._now_ns()
        return _Node(kind, next(self._inodes), now, now)

    def _place(self, folder: _Node, name: str, node: _Node) -> _Node:
        folder.names[name] = node
        folder.mtime_ns = folder.ctime_ns = self._now_ns()
        return node

    def _folder_of(self, path: str) -> tuple[_Node, str]:
        *folders, name = _parts(path)
        node = self._root
        for folder in folders:
            below = node.names.get(folder)
            node = self._place(node, folder, self._node("directory")) if below is None else below
            if node.kind != "directory":
                raise NotADirectoryError(errno.ENOTDIR, "is not a folder", path)
        return node, name

    def _existing_folder_of(self, path: str) -> tuple[_Node, str]:
        return self._find(os.path.dirname(path), follow_parents=False), _parts(path)[-1]

    def _find(self, path: str, *, follow_parents: bool) -> _Node:
        links = 0
        node, left = self._root, _parts(path)
        while left:
            if node.kind != "directory":
                raise NotADirectoryError(errno.ENOTDIR, "is not a folder", path)
            name = left.pop(0)
            below = node.names.get(name)
            if below is None:
                raise FileNotFoundError(errno.ENOENT, "is not there", path)
            if below.kind == "symlink" and left and follow_parents:
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, "too many links", path)
                node, left = self._root, [*_parts(below.target), *left]
            else:
                node = below
        return node

    def _raise_above(self, path: str) -> None:
        for failing, error in self._failing.items():
            if path.startswith(failing.rstrip("/") + "/"):
                raise error

    def _raise_at(self, path: str) -> None:
        self._raise_above(path + "/")


class SimulatedOpenFile:
    """A node open for reading. It stays readable after the path was renamed or removed."""

    def __init__(self, fs: SimulatedFileSystem, node: _Node, path: str) -> None:
        self._fs = fs
        self._node = node
        self._path = path
        self._at = 0
        self._open = True

    def fstat(self) -> Stat:
        self._raise_closed()
        return self._node.stat()

    def read(self, size: int) -> bytes:
        self._raise_closed()
        self._fs._raise_at(self._path)
        block = self._node.content[self._at : self._at + size]
        self._at += len(block)
        return block

    def close(self) -> None:
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _raise_closed(self) -> None:
        if not self._open:
            raise OSError(errno.EBADF, "is closed", self._path)


def _parts(path: str) -> list[str]:
    if not path.startswith("/"):
        raise ValueError(f"not an absolute path: {path!r}")
    return [part for part in path.split("/") if part]
