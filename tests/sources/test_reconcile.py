"""What follows from a look, as a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kbsync.filesystem import Stat
from kbsync.model import KnownFile
from kbsync.reasons import FileState, Reason
from kbsync.sources.reconcile import Absence, Account, Decision, Enqueue, Settle, Unchanged, absent, decide
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


@pytest.mark.parametrize(
    ("left", "complete", "files_seen", "known_files", "absence"),
    [
        (["/b", "/a"], True, 5, 7, Absence(("/a", "/b"))),
        ([], True, 5, 5, Absence()),
        (["/a"], False, 5, 6, Absence(reason="incomplete")),
        (["/a"], False, 0, 1, Absence(reason="incomplete")),
        (["/a"], True, 0, 1, Absence(reason="empty")),
        ([], True, 0, 0, Absence()),
    ],
)
def test_only_a_whole_walk_over_a_root_with_files_says_what_is_gone(
    left: list[str], complete: bool, files_seen: int, known_files: int, absence: Absence
) -> None:
    assert absent(left, complete, files_seen, known_files) == absence
