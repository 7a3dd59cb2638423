"""What follows from a look at a path that is there. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from kbsync.file_types import CONVERTED_TYPES, type_of
from kbsync.filesystem import Stat
from kbsync.model import KnownFile
from kbsync.reasons import FileState, Reason
from kbsync.sources.ignore import reading_of
from kbsync.sources.scanner import Seen

# A file that changed less than this long ago may change again without its stat telling.
SETTLE_S = 2.0
# The tick of a disk's clock: one that tells fractions of a second, and one that does not.
_TICK_S, _COARSE_TICK_S = 0.1, 2.0


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The ledger is right; at most the time of the last look is to be noted."""


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Read it now. `again`: it is the version that is indexed, which stays until it has been read in another way."""

    again: bool = False


@dataclass(frozen=True, slots=True)
class Settle:
    """It changed a moment ago: hand it to the debounce, which says when it is quiet."""


@dataclass(frozen=True, slots=True)
class Account:
    """It is not to be read: write down state and reason, and what was indexed of it goes."""

    state: FileState
    reason: Reason


Decision = Unchanged | Enqueue | Settle | Account


def decide(
    seen: Seen,
    known: KnownFile | None,
    now: float,
    settle_s: float = SETTLE_S,
    *,
    has_live_job: bool = True,
    in_inbox: bool = False,
    stable_inodes: bool = True,
) -> Decision:
    """Decide about one path. `now`: wall time of the look, in seconds; `has_live_job`: a job for it is not done yet.

    `in_inbox`: what is indexed goes from here; a file that is still there was not removed yet. `stable_inodes`: another
    inode is another file; some file systems make their inodes up.
    """
    if known is not None and known.reason is Reason.REMOVED_BY_YOU and known.state is FileState.SKIPPED:
        return Unchanged()  # a person's word holds until a person takes it back
    young = _is_young(seen.stat, now, settle_s)
    if seen.reason is not None:
        # A file is empty for a moment whenever it is written anew.
        return Settle() if seen.reason is Reason.EMPTY and young else _accounted(seen, known, seen.reason)
    if (
        known is None
        or known.state is FileState.GONE
        or known.stat is None
        or _differs(seen.stat, known.stat, stable_inodes)
    ):
        return Settle() if young else Enqueue()
    if known.state is FileState.WAITING and has_live_job:
        return Unchanged()
    if young:
        # Written in the same tick of the clock in which it was read last, it would look the same.
        return Settle()
    if known.state is FileState.WAITING or (in_inbox and known.state is FileState.INDEXED):
        return Enqueue()
    if known.hash_due and not has_live_job:
        return Enqueue()
    # Other rules may find what the last ones left out, or read text where they read none (`ocr`).
    fruitless = known.state in (FileState.SKIPPED, FileState.FAILED) or known.reason is Reason.NO_TEXT
    if fruitless and known.rules != seen.rules:
        return Enqueue()
    if known.reason is Reason.CLOUD_ONLY:
        return Enqueue()
    if _is_read_otherwise(seen, known) and not has_live_job:
        return Enqueue(again=True)
    return Unchanged()


def is_racy(stat: Stat, read_at: float) -> bool:
    """Say whether a file that was read at wall time `read_at` may have changed since without its stat telling.

    Disks count time in ticks: milliseconds on most, up to two seconds on those (FAT) that know whole seconds only.
    """
    tick = _COARSE_TICK_S if stat.mtime_ns % 1_000_000_000 == 0 else _TICK_S
    return abs(read_at - max(stat.mtime_ns, stat.ctime_ns) / 1e9) <= tick


def _accounted(seen: Seen, known: KnownFile | None, reason: Reason) -> Decision:
    state = FileState.FAILED if reason in (Reason.PERMISSION, Reason.IO) else FileState.SKIPPED
    if known is not None and (known.state, known.reason, known.rules) == (state, reason, seen.rules):
        return Unchanged()
    return Account(state, reason)


def _is_read_otherwise(seen: Seen, known: KnownFile) -> bool:
    """Return whether a document was read in another way (`ocr`) than its source asks for today."""
    before, now = reading_of(known.rules), reading_of(seen.rules)
    if known.state is not FileState.INDEXED or not before or before == now:
        return False
    return type_of(seen.path) in CONVERTED_TYPES


def _differs(now: Stat, before: Stat, stable_inodes: bool) -> bool:
    """Compare by `!=`, never by newer: times run backwards in restored files. The device changes at every reboot."""
    return (
        now.size != before.size
        or now.mtime_ns != before.mtime_ns
        or now.ctime_ns != before.ctime_ns
        or (stable_inodes and now.inode != before.inode)
        or now.kind != before.kind
    )


def _is_young(stat: Stat, now: float, settle_s: float) -> bool:
    # A time far ahead of the clock is no sign of a recent change: it would never settle.
    return abs(now - stat.mtime_ns / 1e9) < settle_s or abs(now - stat.ctime_ns / 1e9) < settle_s
