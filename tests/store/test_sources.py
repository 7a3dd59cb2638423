"""The folders' rows: state, a person's word, what the folder is known by and what is held."""

from __future__ import annotations

import os

import apsw
import pytest

from kbsync.filesystem import Stat
from kbsync.model import Held, RootIdentity
from kbsync.reasons import FileState
from kbsync.store import files, sources
from tests.store.made_documents import NOW

IDENTITY = RootIdentity(5, 1, 2, ("a", os.fsdecode(b"caf\xe9")), ("disk",))
HELD = Held(30, 60, NOW, 1, NOW, 0.0)


@pytest.fixture
def source_id(connection: apsw.Connection) -> int:
    return sources.ensure(connection, "/notes", NOW)


def row_of(connection: apsw.Connection, source_id: int) -> sources.SourceRow:
    row = sources.by_id(connection, source_id)
    assert row is not None
    return row


def test_what_a_folder_is_known_by_and_what_is_held_is_read_back(connection: apsw.Connection, source_id: int) -> None:
    assert (row_of(connection, source_id).identity, row_of(connection, source_id).held) == (None, None)
    sources.set_identity(connection, source_id, IDENTITY)
    sources.set_held(connection, source_id, HELD)
    row = row_of(connection, source_id)
    assert (row.identity, row.held) == (IDENTITY, HELD)
    assert sources.listed(connection) == [row]
    sources.set_identity(connection, source_id, None)
    sources.end_hold(connection, source_id)
    assert (row_of(connection, source_id).identity, row_of(connection, source_id).held) == (None, None)


def test_files_on_the_roots_disk_follow_its_number_and_no_others(connection: apsw.Connection, source_id: int) -> None:
    for path, device in (("/notes/a.md", 1), ("/notes/disk/b.md", 7)):
        stat = Stat("file", 1, 1, 1, 1, device)
        files.account(connection, source_id, path, stat, FileState.INDEXED, None, "r", NOW)
    sources.set_identity(connection, source_id, IDENTITY)
    sources.set_identity(connection, source_id, RootIdentity(5, 9, 2))
    assert list(connection.execute("SELECT device FROM files ORDER BY path")) == [(9,), (7,)]


def test_a_state_is_told_with_since_when(connection: apsw.Connection, source_id: int) -> None:
    sources.set_state(connection, source_id, "held", None, "25 of 60", now=NOW)
    sources.set_state(connection, source_id, "held", None, "26 of 60", now=NOW + 5)
    row = row_of(connection, source_id)
    assert (row.state, row.detail, row.since) == ("held", "26 of 60", NOW)
    sources.set_state(connection, source_id, "paused", "missing", now=NOW + 9)
    assert row_of(connection, source_id).since == NOW + 9


def test_no_walk_undoes_a_persons_pause(connection: apsw.Connection, source_id: int) -> None:
    sources.pause(connection, source_id, NOW)
    sources.set_state(connection, source_id, "watching", now=NOW + 1)
    row = row_of(connection, source_id)
    assert (row.state, row.reason, row.paused_at, row.since) == ("paused", "by_you", NOW, NOW)
    assert sources.paused(connection) == {source_id: "by_you"}
    sources.resume(connection, source_id, NOW + 2)
    row = row_of(connection, source_id)
    assert (row.state, row.reason, row.paused_at) == ("watching", None, None)
    assert sources.paused(connection) == {}


def test_a_persons_yes_is_kept_until_it_is_used(connection: apsw.Connection, source_id: int) -> None:
    sources.set_held(connection, source_id, HELD)
    sources.confirm(connection, source_id, 30)
    assert row_of(connection, source_id).confirmed == 30
    sources.end_hold(connection, source_id, counted_from=NOW + 7)
    row = row_of(connection, source_id)
    assert (row.held, row.confirmed, row.counted_from) == (None, None, NOW + 7)
    sources.end_hold(connection, source_id)
    assert row_of(connection, source_id).counted_from == NOW + 7


def test_a_folder_that_is_taken_out_is_known_by_nothing_when_it_comes_back(
    connection: apsw.Connection, source_id: int
) -> None:
    sources.set_identity(connection, source_id, IDENTITY)
    sources.pause(connection, source_id, NOW)
    sources.take_out(connection, source_id)
    assert sources.by_id(connection, source_id) is None
    assert sources.ensure(connection, "/notes", NOW + 1) == source_id
    row = row_of(connection, source_id)
    assert (row.state, row.identity, row.paused_at) == ("watching", None, None)
