"""What keeps documents from being taken for deleted: which folder it is, and how much may go at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from kbsync.filesystem import FileSystem, Stat
from kbsync.model import Held, RootIdentity

# Up to so many files go whatever their share: a small folder is often half emptied on purpose.
FEW = 20
# What went within this many seconds counts together, so that two halves do not slip through one by one.
TOGETHER_S = 3600.0
# A path must be absent in two whole looks this far apart: editors and checkouts take files away for a moment.
LOOKS_APART_S = 2.0
# What the brake holds goes after so many looks that agree, over so long; a clock that was set counts for one gap only.
AGREEING_LOOKS, AGREEING_S = 3, 86_400.0
_LOOK_GAP_S, _LONGEST_GAP_S = 8 * 3600.0, 12 * 3600.0

# A few of a folder's names tell it from others; those that systems put on any disk tell nothing.
_REMEMBERED_NAMES = 16
_ON_ANY_DISK = frozenset({"lost+found", "System Volume Information", "$RECYCLE.BIN"})

SameRoot = Literal["same", "bare", "other"]


def told_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of a root's entries by which it is remembered, sorted."""
    return tuple(sorted(name for name in names if not name.startswith(".") and name not in _ON_ANY_DISK))[
        :_REMEMBERED_NAMES
    ]


def look_at_root(fs: FileSystem, path: str, remembered: RootIdentity | None) -> tuple[SameRoot, RootIdentity]:
    """Compare a root with the one that is remembered; return the verdict and what it is now (names where needed).

    Its entries are listed only where disk and inode do not tell. Raises OSError.
    """
    stat = fs.lstat(path)
    now = RootIdentity(fs.filesystem_id(path), stat.device, stat.inode)
    return same_root(remembered, now, lambda: [entry.name for entry in fs.list_directory(path)]), now


def same_root(remembered: RootIdentity | None, now: RootIdentity, names: Callable[[], Collection[str]]) -> SameRoot:
    """Say whether a root is the remembered one; `names` gives all its entries where the answer hangs on them.

    A disk that is known by name with the same inode is the same whatever is in it. Without such a name the device's
    number alone proves little, for another stick gets the same one. Everything else is the same where most of the
    remembered names are there: a folder that was restored, a machine that was started anew, inodes that are made up;
    on a disk with another name all of them, and more than one: a copy. `bare`: nothing by which to know it.
    """
    if remembered is None or not remembered.names:
        return "same"
    same_disk = remembered.filesystem is not None and remembered.filesystem == now.filesystem
    if same_disk and remembered.inode == now.inode:
        return "same"
    there = frozenset(names())
    found = sum(name in there for name in remembered.names)
    told_apart = remembered.filesystem is not None and now.filesystem is not None
    if not told_apart and (remembered.device, remembered.inode) == (now.device, now.inode) and (found or not there):
        return "same"
    if not told_names(there):
        return "bare"
    if told_apart and not same_disk:
        return "same" if 1 < found == len(remembered.names) else "other"
    return "same" if 2 * found > len(remembered.names) else "other"


def lost_mounts(remembered: RootIdentity | None, mounts: Collection[str]) -> frozenset[str]:
    """Return the remembered folders (relative) at which another disk began, and now none does."""
    return frozenset() if remembered is None else frozenset(remembered.mounts) - frozenset(mounts)


def is_too_much(missing: int, gone_lately: int, known: int, most_share: float) -> bool:
    """Say whether the brake holds what is missing.

    `missing`: files that are absent now and held something found nowhere else; `gone_lately`: those of which that is
    true and that were hidden within `TOGETHER_S`; `known`: files that hold something, the missing ones included.
    """
    lost = missing + gone_lately
    return missing > 0 and lost > FEW and lost > most_share * (known + gone_lately)


def is_confirmed(missing: int, confirmed: int | None) -> bool:
    """Say whether a person's yes covers what is missing now: a yes to some files is none to the whole disk."""
    return confirmed is not None and missing <= confirmed + FEW


def held_after(held: Held | None, missing: int, known: int, now: float) -> Held:
    """Return what is held after one more healthy look, at wall time `now`.

    A look counts some hours after the one before. Much more missing than before is another case, and begins anew.
    """
    if held is None or missing > held.missing + max(FEW, held.missing // 10) or now < held.since:
        return Held(missing, known, now, 1, now, 0.0)
    held = replace(held, missing=missing, known=known)
    gap = now - held.looked_at
    if gap < 0:
        return replace(held, looked_at=now)
    if gap < _LOOK_GAP_S:
        return held
    return replace(held, looks=held.looks + 1, looked_at=now, waited=held.waited + min(gap, _LONGEST_GAP_S))


def agrees(held: Held) -> bool:
    """Say whether enough healthy looks agreed for long enough: then what is missing is gone."""
    return held.looks >= AGREEING_LOOKS and held.waited >= AGREEING_S


@dataclass(frozen=True, slots=True)
class Absent:
    """What a whole, healthy look found missing in a source. `due` may go, `early` waits for a second look.

    `lost`: those due of which nothing is left elsewhere, `lost_early`: the same with the early ones; `known`: files
    that hold something, the missing ones included; `gone_lately`: as in `is_too_much`. `waits`: others may be
    elsewhere, which shows soon. `is_empty`: there is nothing any more by which to know the folder, or no file at all;
    `is_sure`: the root is the same one.
    """

    due: tuple[str, ...]
    early: tuple[str, ...]
    lost: int = 0
    lost_early: int = 0
    known: int = 0
    gone_lately: int = 0
    waits: bool = False
    is_empty: bool = False
    is_sure: bool = True


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What follows: the paths to hide now, what is held from now on, and whether a person's word is used up."""

    hide: tuple[str, ...]
    held: Held | None
    state: Literal["watching", "held", "empty"]
    is_done: bool


def conclude(absent: Absent, held: Held | None, confirmed: int | None, most_share: float, now: float) -> Conclusion:
    """Decide about what is missing. `now`: wall time. Too much of it is held, all or nothing."""
    whole = not absent.early and not absent.waits
    if absent.is_empty and absent.lost_early:
        state: Literal["held", "empty"] = "empty"
    elif absent.due and is_too_much(absent.lost, absent.gone_lately, absent.known, most_share):
        state = "held"
    elif absent.early and (
        held is not None or is_too_much(absent.lost_early, absent.gone_lately, absent.known, most_share)
    ):
        # The second look at the early ones says whether it is too much.
        return Conclusion((), held, "watching" if held is None else "held", is_done=False)
    else:
        return Conclusion(absent.due, None, "watching", is_done=whole)
    going = Conclusion(absent.due, held, "watching" if whole else state, is_done=whole)
    if is_confirmed(absent.lost_early, confirmed):
        return going
    if absent.due:
        held = held_after(held, absent.lost, absent.known + absent.gone_lately, now)
        if absent.is_sure and agrees(held):
            return going
    return Conclusion((), held, state, is_done=False)


def differs_in_inode_only(now: Stat, before: Stat) -> bool:
    """Say whether a file is the same but for its inode: many of these, and the file system makes inodes up."""
    return now.inode != before.inode and replace(now, inode=before.inode, device=before.device) == before
