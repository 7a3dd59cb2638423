"""What a rescan would find, without doing any of it: the same walk and the same verdicts, nothing written."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kbsync.filesystem import FileSystem, as_text
from kbsync.model import Source
from kbsync.reasons import Reason
from kbsync.sources import guard
from kbsync.sources.coverage import is_within
from kbsync.sources.moves import IndexedFile, pair
from kbsync.sources.reconcile import Settle, Unchanged, decide
from kbsync.sources.scanner import Seen, Walk, scan
from kbsync.store import files, jobs, origins, sources
from kbsync.store.connection import Connection
from kbsync.store.sources import SourceRow
from kbsync.store.writer import Readers

# Less than no age: a file that changed at this very moment is told too.
_NEVER_YOUNG_S = -1.0


@dataclass(frozen=True, slots=True)
class Change:
    """One path that a rescan would do something about. `before`: where a moved file was; `reason` leaves it out."""

    source: str
    path: str
    change: Literal["new", "changed", "gone", "moved"]
    before: str | None = None
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """What one source's rescan would find, by path. `notices` say why files that are absent are not taken for gone."""

    changes: tuple[Change, ...]
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Look:
    """What a walk over a source found, before moves are paired. `gone`: what it may call gone, sorted."""

    source: Source
    row: SourceRow | None
    notices: tuple[str, ...]
    arrived: tuple[Seen, ...] = ()
    changes: tuple[Change, ...] = ()
    gone: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()


def differences(
    fs: FileSystem,
    readers: Readers,
    own: frozenset[tuple[int, int]],
    followed: Sequence[Source],
    now: float,
    most_share: float,
) -> list[Difference]:
    """Walk sources and return what follows for each; a file that changed a moment ago counts as if it were quiet.

    A move, from one to another too, is told where its inode says so, at its new place; what a checkout wrote anew is
    new at one place and gone at the other. `most_share`: above it the brake holds what is missing. `now`: wall time.
    """
    looks = [_looked(fs, readers, own, source, now) for source in followed]
    moved = _moved(fs, readers, looks)
    return [_concluded(readers, look, moved, most_share, now) for look in looks]


def of_source(found: Sequence[Difference], source: Source) -> list[Change]:
    """Return the changes in a source, and the moves out of it."""
    return [
        change
        for one in found
        for change in one.changes
        if change.source == source.path
        or (change.before is not None and is_within(change.before, frozenset([source.path])))
    ]


def _looked(fs: FileSystem, readers: Readers, own: frozenset[tuple[int, int]], source: Source, now: float) -> _Look:
    row, known, live = readers.read(
        lambda connection: (
            sources.by_id(connection, source.id),
            files.known_of_source(connection, source.id),
            jobs.live_paths(connection, source.id),
        )
    )
    shown, identity = as_text(source.path), None if row is None else row.identity
    if row is not None and row.paused_at is not None:
        return _Look(source, row, (f"{shown} is paused by you: it is not looked at.",))
    try:
        same, _ = guard.look_at_root(fs, source.path, identity)
    except OSError:
        same = "same"  # the walk tells what is wrong with it
    if same == "other":
        return _Look(
            source, row, (f"Another folder is at {shown} than before: it is left alone until you confirm it.",)
        )
    walk = scan(fs, source, own)
    arrived: list[Seen] = []
    changes = []
    for seen in walk:
        before = known.pop(seen.path, None)
        if before is not None:
            # It is read once more, just to be sure: that is no change.
            before = replace(before, hash_due=False)
        decision = decide(
            seen,
            before,
            now,
            _NEVER_YOUNG_S,
            has_live_job=seen.path in live,
            in_inbox=source.mode == "inbox",
            stable_inodes=identity is None or identity.stable_inodes,
        )
        if isinstance(decision, Unchanged | Settle):
            continue
        if before is None and seen.reason is None:
            arrived.append(seen)
        changes.append(Change(source.path, seen.path, "new" if before is None else "changed", reason=seen.reason))
    lost = [os.path.join(source.path, mount) for mount in guard.lost_mounts(identity, walk.mounts)]
    unlooked = frozenset([path for path, _ in walk.errors] + lost)
    gone = sorted(path for path in known if not is_within(path, unlooked))
    notices = _why_not_gone(walk, source, gone, lost, is_bare=same == "bare")
    if not walk.ended or (gone and (not walk.files or same == "bare")):
        gone = []
    return _Look(source, row, tuple(notices), tuple(arrived), tuple(changes), tuple(gone), frozenset(walk.left_out))


def _concluded(readers: Readers, look: _Look, moved: Mapping[str, str], most_share: float, now: float) -> Difference:
    """Return what follows from a look, once all moves are known."""
    source, row, notices, left = look.source, look.row, list(look.notices), frozenset(moved.values())
    gone = [path for path in look.gone if path not in left]
    missing = [path for path in gone if not is_within(path, look.left_out)]
    if row is not None and source.mode != "inbox" and (told := _held(readers, row, missing, most_share, now)):
        notices.append(told)
        gone = sorted(set(gone) - set(missing))
    changes = [
        Change(source.path, change.path, "moved", moved[change.path]) if change.path in moved else change
        for change in look.changes
    ]
    changes += [Change(source.path, path, "gone") for path in gone]
    return Difference(tuple(sorted(changes, key=lambda change: change.path)), tuple(notices))


def _why_not_gone(walk: Walk, source: Source, gone: list[str], lost: list[str], *, is_bare: bool) -> list[str]:
    shown = as_text(source.path)
    notices = []
    if walk.errors:
        where, error = walk.errors[0]
        notices.append(
            f"Not all of {shown} can be looked at, first {as_text(where)}: {error.strerror}. "
            "Nothing of it is taken for gone."
        )
    if lost:
        notices.append(f"The disk at {as_text(min(lost))} is away; what was on it is not taken for gone.")
    if gone and walk.ended and (not walk.files or is_bare):
        notices.append(f"{shown} is empty; what was in it is not taken for gone. Is the disk attached?")
    return notices


def _held(readers: Readers, row: SourceRow, missing: list[str], most_share: float, now: float) -> str | None:
    """Return what is to be said where the brake holds what is missing."""
    since = max(row.counted_from, now - guard.TOGETHER_S)
    lost, lately, known = readers.read(
        lambda connection: (
            origins.lost_without(connection, missing),
            files.lost_since(connection, row.id, since, now),
            origins.count_of_source(connection, row.id),
        )
    )
    if not guard.is_too_much(lost, lately, known, most_share) or guard.is_confirmed(lost, row.confirmed):
        return None
    return (
        f"{lost} of {known + lately} files are missing from {as_text(row.path)}: they are held, not taken for gone, "
        f"until `kbsync sources confirm {shlex.quote(as_text(row.path))}`."
    )


def _moved(fs: FileSystem, readers: Readers, looks: Sequence[_Look]) -> dict[str, str]:
    """Return new path -> old path of files that only lie elsewhere now."""
    arrived = [(look.source.id, seen) for look in looks for seen in look.arrived]
    if not arrived:
        return {}
    gone = {look.source.id: frozenset(look.gone) for look in looks}

    def indexed(connection: Connection) -> dict[int, list[IndexedFile]]:
        found: dict[int, list[IndexedFile]] = {}
        for row in files.indexed_with(connection, {seen.stat.inode for _, seen in arrived}):
            held = IndexedFile(*row)
            found.setdefault(held.stat.inode, []).append(held)
        return found

    def has_left(old: IndexedFile) -> bool:
        if old.source_id in gone:
            return old.path in gone[old.source_id]
        try:
            fs.lstat(old.path)
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False  # a failure to look says nothing
        return False

    moves = pair(arrived, readers.read(indexed), has_left)
    return {move.path: move.old.path for move in moves}
