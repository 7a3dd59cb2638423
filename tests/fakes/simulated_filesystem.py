"""A file system in memory with inodes and times, on which anything can be made to fail."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Iterator
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
    device: int
    content: bytes = b""
    target: str = ""
    # Its content is in the cloud only: reading would download it.
    cloud_only: bool = False
    # The disk fails from this byte on.
    sound_bytes: int | None = None
    names: dict[str, _Node] = field(default_factory=dict)

    def stat(self) -> Stat:
        size = len(self.target.encode(errors="surrogateescape")) if self.kind == "symlink" else len(self.content)
        return Stat(
            self.kind,
            size,
            self.mtime_ns,
            self.ctime_ns,
            self.inode,
            self.device,
            allocated=size,
            cloud_only=self.cloud_only,
        )


class SimulatedFileSystem:
    """Implements kbsync.filesystem.FileSystem. Paths are absolute; folders are made as needed.

    Times are the clock's: two writes without `advance` between them leave the same mtime, as within a tick of a disk.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._inodes = itertools.count(2)
        self._devices = itertools.count(_DEVICE + 1)
        self._root = self._node("directory", _DEVICE)
        # What lies at a mount point and is not seen there now: the disk while it is away, else the bare folder.
        self._hidden: dict[str, _Node] = {}
        self._failing: dict[str, OSError] = {}
        self._renumbered = 0
        # False: nothing but its number tells one disk from another, as with FAT.
        self.names_disks = True
        # Names that this makes equal are one to the disk, which keeps the spelling it was given first.
        self.fold: Callable[[str], str] | None = None

    # ---- what a test does to the disk ----

    def write(self, path: str, content: bytes) -> None:
        """Make a file or change the one that is there, in place."""
        folder, name = self._folder_of(path)
        node = folder.names.get(name)
        if node is None:
            node = self._place(folder, name, self._node("file", folder.device))
        elif node.kind != "file":
            raise OSError(errno.EISDIR, "is no file", path)
        node.content = content
        node.mtime_ns = node.ctime_ns = self._now_ns()

    def make_directory(self, path: str) -> None:
        """Make a folder; one that is there stays."""
        folder, name = self._folder_of(path)
        if name not in folder.names:
            self._place(folder, name, self._node("directory", folder.device))

    def symlink(self, path: str, target: str) -> None:
        folder, name = self._folder_of(path)
        self._place(folder, name, self._node("symlink", folder.device)).target = target

    def fifo(self, path: str) -> None:
        """Make something that is neither file, folder nor link."""
        folder, name = self._folder_of(path)
        self._place(folder, name, self._node("special", folder.device))

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
        target, taken = self._folder_of(new)
        if node.device not in (folder.device, target.device):
            raise OSError(errno.EBUSY, "is a mount point", old)
        if node.device != target.device:
            raise OSError(errno.EXDEV, "is on another disk", new)
        del folder.names[name]
        folder.mtime_ns = folder.ctime_ns = node.ctime_ns = self._now_ns()
        target.names.pop(taken, None)
        self._place(target, _parts(new)[-1], node)

    def link(self, old: str, new: str) -> None:
        """Give a file a second name: one inode, whose ctime tells."""
        node = self._find(old, follow_parents=False)
        folder, name = self._folder_of(new)
        if node.device != folder.device:
            raise OSError(errno.EXDEV, "is on another disk", new)
        node.ctime_ns = self._now_ns()
        self._place(folder, name, node)

    def attach_disk(self, path: str) -> None:
        """Mount a new, empty disk at a folder, which is made as needed. It is a device of its own."""
        self.make_directory(path)
        self._swap(path, self._node("directory", next(self._devices)))

    def unmount(self, path: str) -> None:
        """Take the disk at `path` away: what is seen there is the bare folder that it was mounted at."""
        self._swap(path, self._hidden[path])

    def mount(self, path: str) -> None:
        """Put the disk at `path` back, as it was."""
        self._swap(path, self._hidden[path])

    def renumber_disks(self) -> None:
        """Give every disk another device number, as a start of the machine may."""
        step = 1000
        self._renumbered += step
        self._devices = itertools.count(next(self._devices) + step)
        pending, done = [self._root, *self._hidden.values()], set()
        while pending:
            node = pending.pop()
            if id(node) not in done:
                done.add(id(node))
                node.device += step
                pending.extend(node.names.values())

    def make_up_inodes(self) -> None:
        """Give every file another inode, as some file systems do at every look. Folders keep theirs."""
        pending = [self._root]
        while pending:
            node = pending.pop()
            if node.kind == "file":
                node.inode = next(self._inodes)
            pending.extend(node.names.values())

    def _swap(self, path: str, node: _Node) -> None:
        folder, name = self._existing_folder_of(path)
        self._hidden[path] = folder.names[name]
        folder.names[name] = node

    def set_mtime(self, path: str, mtime: float) -> None:
        """Set a modification time as `utime` does: ctime tells."""
        node = self._find(path, follow_parents=False)
        node.mtime_ns, node.ctime_ns = int(mtime * 1e9), self._now_ns()

    def spoil(self, path: str, content: bytes) -> None:
        """Change a file's bytes, as many as before, so that no stat tells."""
        node = self._find(path, follow_parents=False)
        assert len(content) == len(node.content)
        node.content = content

    def evict(self, path: str) -> None:
        """Keep a file's, or a folder's, content in the cloud only."""
        self._find(path, follow_parents=False).cloud_only = True

    def fetch(self, path: str) -> None:
        """Have its content here again. Times stay, as where a cloud's program sets them back."""
        self._find(path, follow_parents=False).cloud_only = False

    def break_at(self, path: str, byte: int | None) -> None:
        """Raise EIO from now on where a file is read from this byte on; None: no more."""
        self._find(path, follow_parents=False).sound_bytes = byte

    def set_times(self, path: str, like: Stat) -> None:
        """Set both times, as if all had happened within one tick of the disk's clock."""
        node = self._find(path, follow_parents=False)
        node.mtime_ns, node.ctime_ns = like.mtime_ns, like.ctime_ns

    def fail(self, path: str, error: OSError) -> None:
        """Raise `error` from now on when the path is listed, opened or read, or anything below it is touched."""
        self._failing[path] = error

    def heal(self, path: str) -> None:
        del self._failing[path]

    def contents(self, root: str) -> Iterator[tuple[str, FileKind, bytes]]:
        """Yield (path, kind, bytes) of everything below a folder, by path, whatever is made to fail."""
        try:
            top = self._find(root, follow_parents=False)
        except FileNotFoundError:
            return
        pending = [(root, top)]
        while pending:
            path, node = pending.pop()
            if path != root:
                yield path, node.kind, node.content
            pending.extend((f"{path}/{name}", node.names[name]) for name in sorted(node.names, reverse=True))

    def failing(self, path: str) -> bool:
        """Return whether reading or listing a path fails."""
        return any((path + "/").startswith(above.rstrip("/") + "/") for above in self._failing)

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

    def filesystem_id(self, path: str) -> int | None:
        self._raise_above(path)
        return 9000 + self._find(path, follow_parents=False).device - self._renumbered if self.names_disks else None

    # ---- inside ----

    def _now_ns(self) -> int:
        return int(self._clock.now() * 1e9)

    def _node(self, kind: FileKind, device: int) -> _Node:
        now = self._now_ns()
        return _Node(kind, next(self._inodes), now, now, device)

    def _place(self, folder: _Node, name: str, node: _Node) -> _Node:
        folder.names[name] = node
        folder.mtime_ns = folder.ctime_ns = self._now_ns()
        return node

    def _folder_of(self, path: str) -> tuple[_Node, str]:
        *folders, name = _parts(path)
        node = self._root
        for folder in folders:
            below = node.names.get(self._key(node, folder))
            node = self._place(node, folder, self._node("directory", node.device)) if below is None else below
            if node.kind != "directory":
                raise NotADirectoryError(errno.ENOTDIR, "is not a folder", path)
        return node, self._key(node, name)

    def _existing_folder_of(self, path: str) -> tuple[_Node, str]:
        folder = self._find(os.path.dirname(path), follow_parents=False)
        return folder, self._key(folder, _parts(path)[-1])

    def _key(self, folder: _Node, name: str) -> str:
        """Return the name by which a folder has an entry that is asked for by another spelling."""
        if self.fold is None or name in folder.names:
            return name
        wanted = self.fold(name)
        return next((known for known in folder.names if self.fold(known) == wanted), name)

    def _find(self, path: str, *, follow_parents: bool) -> _Node:
        links = 0
        node, left = self._root, _parts(path)
        while left:
            if node.kind != "directory":
                raise NotADirectoryError(errno.ENOTDIR, "is not a folder", path)
            name = self._key(node, left.pop(0))
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
        assert not self._node.cloud_only, f"{self._path} is in the cloud: reading it downloads it"
        if self._node.sound_bytes is not None:
            if self._at >= self._node.sound_bytes:
                raise OSError(errno.EIO, "Input/output error", self._path)
            size = min(size, self._node.sound_bytes - self._at)
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
