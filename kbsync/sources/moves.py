"""Which new paths are known files at another place: by inode, size and time, or by what they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kbsync.errors import FailFile, FileChanged, FileGone, RetryLater, SkipFile
from kbsync.filesystem import FileSystem, Stat
from kbsync.sources.scanner import Seen
from kbsync.sources.snapshot import read_snapshot

# So many bytes are read in one walk to recognise files; what is beyond waits for its own job.
READ_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """What the ledger says of a path that is indexed."""

    source_id: int
    path: str
    stat: Stat
    content_hash: str
    document_id: int


@dataclass(frozen=True, slots=True)
class WaitingFile:
    """A path that waits to be read for the first time. `stat`: when it was queued."""

    source_id: int
    path: str
    stat: Stat
    rules: str


@dataclass(frozen=True, slots=True)
class Move:
    """A known file that lies elsewhere now. `stat` and `rules`: of the new path. `proved`: by its hash."""

    old: IndexedFile
    source_id: int
    path: str
    stat: Stat
    rules: str
    proved: bool


@dataclass(frozen=True, slots=True)
class Recognised:
    """What reading the waiting files of the right sizes brought: moves, and the sizes of which some stayed unread."""

    moves: tuple[Move, ...]
    unread_sizes: frozenset[int]


def is_same_file(now: Stat, before: Stat) -> bool:
    """Say whether two stats are one file's, moved and not written to. A move changes the ctime on most disks."""
    return (now.kind, now.device, now.inode, now.size, now.mtime_ns) == (
        before.kind,
        before.device,
        before.inode,
        before.size,
        before.mtime_ns,
    )


def pair(
    arrived: Iterable[tuple[int, Seen]],
    indexed: Mapping[int, Sequence[IndexedFile]],
    has_left: Callable[[IndexedFile], bool],
) -> list[Move]:
    """Pair new paths (source, what was seen) with known files by inode. One that is still at its place was linked.

    `indexed`: candidates by inode. `has_left` looks whether a path is gone, and says no where it cannot tell.
    """
    moves, taken = [], set()
    for source_id, seen in arrived:
        for old in indexed.get(seen.stat.inode, ()):
            if (old.source_id, old.path) in taken or not is_same_file(seen.stat, old.stat) or not has_left(old):
                continue
            taken.add((old.source_id, old.path))
            moves.append(Move(old, source_id, seen.path, seen.stat, seen.rules, proved=False))
            break
    return moves


def recognise(fs: FileSystem, missing: Sequence[IndexedFile], waiting: Iterable[WaitingFile]) -> Recognised:
    """Find missing files among those that wait: by inode, else by reading what has their size (a checkout, a copy).

    At most `READ_BYTES` are read. What cannot be read now leaves its size unread: no conclusion about files of it.
    """
    by_inode = {old.stat.inode: old for old in missing}
    moves, rest = [], []
    for file in waiting:
        old = by_inode.get(file.stat.inode)
        if old is not None and is_same_file(file.stat, old.stat):
            del by_inode[file.stat.inode]
            moves.append(Move(old, file.source_id, file.path, file.stat, file.rules, proved=False))
        else:
            rest.append(file)
    found = {move.old.path for move in moves}
    by_hash: dict[tuple[int, str], list[IndexedFile]] = {}
    for old in sorted(missing, key=lambda old: old.path, reverse=True):
        if old.path not in found:
            by_hash.setdefault((old.stat.size, old.content_hash), []).append(old)
    sizes = {size for size, _ in by_hash}
    unread, left = set(), READ_BYTES
    for file in rest:
        if file.stat.size not in sizes:
            continue
        if file.stat.size > left:
            unread.add(file.stat.size)
            continue
        try:
            snapshot = read_snapshot(fs, file.path, 0)
        except FileGone:
            continue
        except (FileChanged, SkipFile, FailFile, RetryLater):
            unread.add(file.stat.size)  # its own job tells what it is
            continue
        left -= snapshot.size
        if olds := by_hash.get((snapshot.size, snapshot.content_hash)):
            moves.append(Move(olds.pop(), file.source_id, file.path, snapshot.stat, file.rules, proved=True))
    return Recognised(tuple(moves), frozenset(unread))
