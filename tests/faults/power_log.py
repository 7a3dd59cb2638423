"""What a program did to its disk, in order, and what may be left of it where the power goes in the middle.

The model: what was synced before is there. Of everything else each write, each cut and each name made or removed is
there or not, whatever came before or after it; and of a write, in half of the images, each sector by itself. A file's
content is synced by a sync of that file, its name by a sync of the folder. A file is there if all folders above it are.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

SECTOR = 512
_SURVIVES = 0.5

# `name`: the path now means the file `inode`, None: nothing any more.
What = Literal["write", "truncate", "sync", "name", "sync_folder"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One deed. `path` is that of a name, or the folder that is synced; `offset` a write's place or the new length.

    `before`: the name that a renamed file had, which goes in the same moment.
    """

    what: What
    inode: int | None = None
    path: str = ""
    offset: int = 0
    data: bytes = b""
    before: str = ""


@dataclass(slots=True)
class DiskLog:
    """The deeds since `base`, the files that were durably there before."""

    base: dict[str, bytes] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    # What every path means now, as the program sees it.
    names: dict[str, int] = field(default_factory=dict)
    # Those that were made since.
    folders: set[str] = field(default_factory=set)
    _inodes: int = 0

    def __post_init__(self) -> None:
        for path in self.base:
            self._inodes += 1
            self.names[path] = self._inodes

    def __len__(self) -> int:
        return len(self.operations)

    def create(self, path: str) -> int:
        """Return the file at a path, made where there is none."""
        if path not in self.names:
            self._inodes += 1
            self.link(self._inodes, path)
        return self.names[path]

    def make_folder(self, path: str) -> None:
        self.folders.add(path)
        self.create(path)

    def link(self, inode: int, path: str) -> None:
        """Give a file this name too; what had it before loses it."""
        self.names[path] = inode
        self.operations.append(Operation("name", inode, path))

    def rename(self, before: str, path: str) -> None:
        self.names[path] = inode = self.names.pop(before)
        self.operations.append(Operation("name", inode, path, before=before))

    def unlink(self, path: str) -> None:
        del self.names[path]
        self.operations.append(Operation("name", None, path))

    def write(self, inode: int, offset: int, data: bytes) -> None:
        self.operations.append(Operation("write", inode, "", offset, data))

    def truncate(self, inode: int, size: int) -> None:
        self.operations.append(Operation("truncate", inode, "", size))

    def sync(self, inode: int) -> None:
        self.operations.append(Operation("sync", inode))

    def sync_folder(self, folder: str) -> None:
        self.operations.append(Operation("sync_folder", None, folder))

    def images(self, points: Sequence[int], seed: int) -> Iterator[tuple[int, dict[str, bytes]]]:
        """Yield (point, what is there at each path) for power that goes before operation `point`, in their order."""
        disk = _Disk(self.base)
        done = 0
        for number, point in enumerate(sorted(points)):
            for operation in self.operations[done:point]:
                disk.do(operation)
            done = point
            yield point, self._reached(disk.image(random.Random(f"{seed} {number}")))

    def _reached(self, image: dict[str, bytes]) -> dict[str, bytes]:
        """Leave the folders out, and what lies in one that is not there."""
        away = self.folders - image.keys()
        return {path: image[path] for path in image.keys() - self.folders if away.isdisjoint(_above(path))}


class _Disk:
    """What is durable after some operations, and what is not yet."""

    def __init__(self, base: dict[str, bytes]) -> None:
        self._contents = {number: bytearray(content) for number, content in enumerate(base.values(), start=1)}
        self._names: dict[str, int] = {path: number for number, path in enumerate(base, start=1)}
        self._pending: dict[int, list[Operation]] = {}
        self._pending_names: list[Operation] = []

    def do(self, operation: Operation) -> None:
        if operation.what == "name":
            self._pending_names.append(operation)
        elif operation.what == "sync_folder":
            for one in self._pending_names:
                if os.path.dirname(one.path) == operation.path:
                    _name(self._names, one)
            self._pending_names = [one for one in self._pending_names if os.path.dirname(one.path) != operation.path]
        else:
            assert operation.inode is not None
            if operation.what == "sync":
                content = self._contents.setdefault(operation.inode, bytearray())
                for one in self._pending.pop(operation.inode, ()):
                    _change(content, one.what, one.offset, one.data)
            else:
                self._pending.setdefault(operation.inode, []).append(operation)

    def image(self, dice: random.Random) -> dict[str, bytes]:
        names, torn = dict(self._names), dice.random() < _SURVIVES
        for operation in self._pending_names:
            if dice.random() < _SURVIVES:
                _name(names, operation)
        contents = {}
        for inode in set(names.values()):
            content = bytearray(self._contents.get(inode, b""))
            for operation in self._pending.get(inode, ()):
                for offset, data in _pieces(operation) if torn else [(operation.offset, operation.data)]:
                    if dice.random() < _SURVIVES:
                        _change(content, operation.what, offset, data)
            contents[inode] = bytes(content)
        return {path: contents[inode] for path, inode in names.items()}


def _pieces(operation: Operation) -> list[tuple[int, bytes]]:
    """Cut a write where the disk's sectors end."""
    if operation.what != "write":
        return [(operation.offset, b"")]
    pieces, start, data = [], operation.offset, operation.data
    while data:
        fits = SECTOR - start % SECTOR
        pieces.append((start, data[:fits]))
        start, data = start + fits, data[fits:]
    return pieces


def _above(path: str) -> Iterator[str]:
    while (above := os.path.dirname(path)) != path:
        yield above
        path = above


def _name(names: dict[str, int], operation: Operation) -> None:
    names.pop(operation.before, None)
    if operation.inode is None:
        names.pop(operation.path, None)
    else:
        names[operation.path] = operation.inode


def _change(content: bytearray, what: What, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    if what == "truncate":
        del content[offset:]
    else:
        content[offset : offset + len(data)] = data
