"""What follows from a look: for a path that is there, and for the paths a walk did not find. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from kbsync.filesystem import Stat
from kbsync.model import KnownFile
from kbsync.reasons import FileState, Reason
from kbsync.sources.scanner import Seen

# A file that changed less than this long ago may change again without its stat telling.
SETTLE_S = 2.0


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The ledger is right; at most the time of the last look is to be noted."""


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Read it now."""


@dataclass(frozen=True, slots=True)
class Settle:
    """It changed a moment ago: hand it to the debounce, which says when it is quiet."""


@dataclass(frozen=True, slots=True)
class Account:
    """It is not to be read: write down state and reason, and what was indexed of it goes."""

    state: FileState
    reason: Reason


Decision = Unchanged | Enqueue | Settle | Account


@dataclass(frozen=True, slots=True)
class Absence:
    """The known paths that are gone, sorted; or none, and `reason` says why nothing may be concluded."""

    gone: tuple[str, ...] = ()
    reason: Literal["incomplete", "empty"] | None = None


def decide(
    seen: Seen, known: KnownFile | None, now: float, settle_s: float = SETTLE_S, *, has_live_job: bool = True
) -> Decision:
    """Decide about one path. `now`: wall time of the look, in seconds; `has_live_job`: a job for it is not done yet."""
    if known is not None and known.reason is Reason.REMOVED_BY_YOU and known.state is FileState.SKIPPED:
        return Unchanged()  # a person's word holds until a person takes it back
    young = _is_young(seen.stat, now, settle_s)
    if seen.reason is not None:
        # A file is empty for a moment whenever it is written anew.
        return Settle() if seen.reason is Reason.EMPTY and young else _accounted(seen, known, seen.reason)
    if known is None or known.state is FileState.GONE or known.stat is None or _differs(seen.stat, known.stat):
        return Settle() if young else Enqueue()
    if known.state is FileState.WAITING and has_live_job:
        return Unchanged()
    if young:
        # Written in the same tick of the clock in which it was read last, it would look the same.
        return Settle()
    if known.state is FileState.WAITING:
        return Enqueue()
    # Other rules may find what the last ones left out, or read text where they read none (`ocr`).
    fruitless = known.state in (FileState.SKIPPED, FileState.FAILED) or known.reason is Reason.NO_TEXT
    if fruitless and known.rules != seen.rules:
        return Enqueue()
    return Unchanged()


def absent(known_paths_left: Collection[str], complete: bool, files_seen: int, known_files: int) -> Absence:
    """Decide about the known paths that a walk did not come by.

    `known_files`: how many paths the ledger had of the source before the walk, gone ones not counted. No deletion
    follows from a failure to look, nor from a root that all at once is without a single file: that is a disk which
    is not there.
    """
    if not complete:
        return Absence(reason="incomplete")
    if files_seen == 0 and known_files > 0:
        return Absence(reason="empty")
    return Absence(gone=tuple(sorted(known_paths_left)))


def _accounted(seen: Seen, known: KnownFile | None, reason: Reason) -> Decision:
    state = FileState.FAILED if reason in (Reason.PERMISSION, Reason.IO) else FileState.SKIPPED
    if known is not None and (known.state, known.reason, known.rules) == (state, reason, seen.rules):
        return Unchanged()
    return Account(state, reason)


def _differs(now: Stat, before: Stat) -> bool:
    """Compare by `!=`, never by newer: times run backwards in restored files. The device changes at every reboot."""
    return (now.kind, now.size, now.mtime_ns, now.ctime_ns, now.inode) != (
        before.kind,
        before.size,
        before.mtime_ns,
        before.ctime_ns,
        before.inode,
    )


def _is_young(stat: Stat, now: float, settle_s: float) -> bool:
    # A time far ahead of the clock is no sign of a recent change: it would never settle.
    return abs(now - stat.mtime_ns / 1e9) <= settle_s or abs(now - stat.ctime_ns / 1e9) <= settle_s
