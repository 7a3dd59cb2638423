"""What follows from a look, as a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kbsync.filesystem import Stat
from kbsync.model import KnownFile
from kbsync.reasons import FileState, Reason
from kbsync.sources.reconcile import Account, Decision, Enqueue, Settle, Unchanged, decide, is_racy
from kbsync.sources.scanner import Seen

NOW = 1_000_000.0
OLD_NS = int((NOW - 100) * 1e9)
STAT = Stat("file", 10, OLD_NS, OLD_NS, 5, 1)
YOUNG = replace(STAT, mtime_ns=int((NOW - 1) * 1e9), ctime_ns=int((NOW - 1) * 1e9))
INDEXED, WAITING, SKIPPED, FAILED, GONE = (
    FileState.INDEXED,
    FileState.WAITING,
    FileState.SKIPPED,
    FileState.FAILED,
    FileState.GONE,
)


def seen(reason: Reason | None = None, stat: Stat = STAT, rules: str = "r1") -> Seen:
    return Seen("/notes/a.md", stat, reason, rules)


def known(state: FileState, reason: Reason | None = None, stat: Stat | None = STAT, rules: str = "r1") -> KnownFile:
    return KnownFile("/notes/a.md", stat, state, reason, rules)


@pytest.mark.parametrize(
    ("looked", "ledger", "decision"),
    [
        # new
        (seen(), None, Enqueue()),
        (seen(stat=YOUNG), None, Settle()),
        (seen(), known(GONE), Enqueue()),
        (seen(), known(INDEXED, stat=None), Enqueue()),
        (seen(Reason.IGNORED), None, Account(SKIPPED, Reason.IGNORED)),
        (seen(Reason.PERMISSION), None, Account(FAILED, Reason.PERMISSION)),
        (seen(Reason.IO), None, Account(FAILED, Reason.IO)),
        # the same as before
        (seen(), known(INDEXED), Unchanged()),
        (seen(), known(INDEXED, Reason.NO_TEXT), Unchanged()),
        (seen(rules="r2"), known(INDEXED), Unchanged()),
        (seen(stat=replace(STAT, device=9)), known(INDEXED), Unchanged()),
        # changed, in whichever direction
        (seen(stat=replace(STAT, size=9)), known(INDEXED), Enqueue()),
        (seen(stat=replace(STAT, inode=9)), known(INDEXED), Enqueue()),
        (seen(stat=replace(STAT, ctime_ns=OLD_NS + 1)), known(INDEXED), Enqueue()),
        (seen(stat=replace(STAT, mtime_ns=OLD_NS + 1)), known(INDEXED), Enqueue()),
        (seen(stat=replace(STAT, mtime_ns=-1)), known(INDEXED), Enqueue()),
        (seen(stat=replace(STAT, mtime_ns=7_258_118_400_000_000_000)), known(INDEXED), Enqueue()),
        (seen(stat=YOUNG), known(INDEXED), Settle()),
        (seen(stat=replace(STAT, ctime_ns=YOUNG.ctime_ns)), known(INDEXED), Settle()),
        # might have changed in the tick in which it was read
        (seen(stat=YOUNG), known(INDEXED, stat=YOUNG), Settle()),
        # waiting: its job reads what is there then
        (seen(), known(WAITING, Reason.QUEUED), Unchanged()),
        (seen(stat=YOUNG), known(WAITING, Reason.QUEUED, stat=YOUNG), Unchanged()),
        (seen(stat=replace(STAT, size=9)), known(WAITING, Reason.QUEUED), Enqueue()),
        # skipped and failed
        (seen(), known(FAILED, Reason.CORRUPT), Unchanged()),
        (seen(rules="r2"), known(FAILED, Reason.CORRUPT), Enqueue()),
        (seen(rules="r2"), known(INDEXED, Reason.NO_TEXT), Enqueue()),
        (seen(stat=replace(STAT, size=9)), known(FAILED, Reason.CORRUPT), Enqueue()),
        (seen(), known(SKIPPED, Reason.BINARY), Unchanged()),
        (seen(rules="r2"), known(SKIPPED, Reason.BINARY), Enqueue()),
        (seen(rules="r2"), known(SKIPPED, Reason.IGNORED), Enqueue()),
        (seen(Reason.IGNORED), known(SKIPPED, Reason.IGNORED), Unchanged()),
        (seen(Reason.IGNORED, stat=YOUNG), known(SKIPPED, Reason.IGNORED), Unchanged()),
        (seen(Reason.IGNORED, rules="r2"), known(SKIPPED, Reason.IGNORED), Account(SKIPPED, Reason.IGNORED)),
        (seen(Reason.TOO_LARGE), known(SKIPPED, Reason.IGNORED), Account(SKIPPED, Reason.TOO_LARGE)),
        (seen(Reason.IGNORED), known(INDEXED), Account(SKIPPED, Reason.IGNORED)),
        (seen(Reason.SECRET), known(WAITING, Reason.QUEUED), Account(SKIPPED, Reason.SECRET)),
        (seen(Reason.PERMISSION), known(FAILED, Reason.PERMISSION), Unchanged()),
        # empty for a moment only, perhaps
        (seen(Reason.EMPTY), known(INDEXED), Account(SKIPPED, Reason.EMPTY)),
        (seen(Reason.EMPTY, stat=YOUNG), known(INDEXED), Settle()),
        # a person removed it
        (seen(stat=replace(STAT, size=9), rules="r2"), known(SKIPPED, Reason.REMOVED_BY_YOU), Unchanged()),
        (seen(Reason.IGNORED), known(SKIPPED, Reason.REMOVED_BY_YOU), Unchanged()),
    ],
)
def test_a_look_and_the_ledger_decide(looked: Seen, ledger: KnownFile | None, decision: Decision) -> None:
    assert decide(looked, ledger, NOW) == decision


@pytest.mark.parametrize(
    ("looked", "ledger", "decision"),
    [
        (seen(), known(WAITING, Reason.QUEUED), Enqueue()),
        (seen(), known(WAITING, Reason.SETTLING), Enqueue()),
        (seen(stat=YOUNG), known(WAITING, Reason.SETTLING, stat=YOUNG), Settle()),
        (seen(), known(INDEXED), Unchanged()),
    ],
)
def test_what_waits_without_a_job_gets_one(looked: Seen, ledger: KnownFile, decision: Decision) -> None:
    assert decide(looked, ledger, NOW, has_live_job=False) == decision


@pytest.mark.parametrize(
    ("age_s", "decision"), [(1.9, Settle()), (2.1, Enqueue()), (-1.0, Settle()), (-9.0, Enqueue())]
)
def test_young_is_what_changed_within_two_seconds_of_now(age_s: float, decision: Decision) -> None:
    changed_ns = int((NOW - age_s) * 1e9)
    assert decide(seen(stat=replace(STAT, mtime_ns=changed_ns, ctime_ns=changed_ns)), None, NOW) == decision


def test_a_file_read_in_the_tick_of_its_change_is_hashed_again_once_it_is_old() -> None:
    """F21: the ledger says so, for the stat cannot."""
    due = replace(known(INDEXED), hash_due=True)
    assert decide(seen(), due, NOW, has_live_job=False) == Enqueue()
    assert decide(seen(), due, NOW, has_live_job=True) == Unchanged(), "its job is on the way"
    assert decide(seen(stat=YOUNG), replace(due, stat=YOUNG), NOW) == Settle()


def test_another_inode_alone_is_no_change_where_inodes_are_made_up() -> None:
    """F22"""
    assert decide(seen(stat=replace(STAT, inode=9)), known(INDEXED), NOW, stable_inodes=False) == Unchanged()
    assert decide(seen(stat=replace(STAT, size=9)), known(INDEXED), NOW, stable_inodes=False) == Enqueue()


@pytest.mark.parametrize(
    ("age_s", "fraction_ns", "racy"),
    [
        (0.0, 1, True),
        (0.09, 1, True),
        (0.3, 1, False),
        (0.3, 0, True),
        (1.9, 0, True),
        (2.1, 0, False),
        (-5.0, 1, False),
    ],
)
def test_racy_is_what_was_read_within_a_tick_of_its_change(age_s: float, fraction_ns: int, racy: bool) -> None:
    """F21: a disk that knows whole seconds only has ticks of up to two seconds."""
    changed_ns = int(NOW) * 1_000_000_000 + fraction_ns
    assert is_racy(replace(STAT, mtime_ns=changed_ns, ctime_ns=OLD_NS), NOW + age_s) is racy
