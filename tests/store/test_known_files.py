"""The ledger of a source as a rescan uses it: most is compared, little is looked into."""

from __future__ import annotations

import os
from dataclasses import replace

import apsw
import pytest

from kbsync.filesystem import Stat
from kbsync.model import KnownFile
from kbsync.reasons import FileState, Reason
from kbsync.store import files, known_files, sources
from tests.store.made_documents import NOW

STAT = Stat("file", 5, 10, 11, -12, 13)
ODD = os.fsdecode(b"/notes/caf\xe9.md")


@pytest.fixture
def source_id(connection: apsw.Connection) -> int:
    return sources.ensure(connection, "/notes", NOW)


def test_what_is_taken_is_told_once_and_the_rest_is_left(connection: apsw.Connection, source_id: int) -> None:
    for path, state in ((ODD, FileState.FAILED), ("/notes/b.md", FileState.INDEXED), ("/notes/gone", FileState.GONE)):
        files.account(connection, source_id, path, STAT, state, None, "r", NOW, hash_due=path == ODD)
    known = known_files.of_source(connection, source_id)
    assert sorted(known) == sorted([ODD, "/notes/b.md"])
    assert known.take(ODD) == KnownFile(ODD, STAT, FileState.FAILED, None, "r", hash_due=True)
    assert known.take(ODD) is None
    assert known.take("/notes/gone") is None
    assert (list(known), len(known)) == (["/notes/b.md"], 1)


@pytest.mark.parametrize(
    ("state", "reason", "stat", "rules", "hash_due", "taken"),
    [
        (FileState.INDEXED, None, STAT, "r", False, True),
        (FileState.INDEXED, Reason.NO_TEXT, STAT, "r", False, True),
        (FileState.INDEXED, None, replace(STAT, device=99), "r", False, True),
        (FileState.INDEXED, None, STAT, "r", True, False),
        (FileState.INDEXED, None, STAT, "other", False, False),
        (FileState.INDEXED, None, replace(STAT, size=6), "r", False, False),
        (FileState.INDEXED, None, replace(STAT, mtime_ns=9), "r", False, False),
        (FileState.INDEXED, None, replace(STAT, ctime_ns=12), "r", False, False),
        (FileState.INDEXED, None, replace(STAT, inode=1), "r", False, False),
        (FileState.INDEXED, None, replace(STAT, kind="symlink"), "r", False, False),
        (FileState.WAITING, Reason.QUEUED, STAT, "r", False, False),
        (FileState.SKIPPED, Reason.BINARY, STAT, "r", False, False),
        (FileState.FAILED, Reason.IO, STAT, "r", False, False),
    ],
)
def test_only_the_very_version_that_is_indexed_by_the_same_rules_needs_no_look(
    connection: apsw.Connection,
    source_id: int,
    state: FileState,
    reason: Reason | None,
    stat: Stat,
    rules: str,
    hash_due: bool,
    taken: bool,
) -> None:
    files.account(connection, source_id, ODD, STAT, state, reason, "r", NOW, hash_due=hash_due)
    known = known_files.of_source(connection, source_id)
    assert known.take_indexed(ODD, stat, rules) is taken
    assert len(known) == (0 if taken else 1)
    assert not known.take_indexed("/notes/never seen.md", STAT, "r")
