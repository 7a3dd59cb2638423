"""The ledger: every path seen, as the bytes it is, with what became of it."""

from __future__ import annotations

import os

import apsw
import pytest

from kbsync.filesystem import Stat
from kbsync.model import KnownFile
from kbsync.reasons import FileState, Reason
from kbsync.store import files, sources
from tests.store.made_documents import NOW, made_update, write_document

STAT = Stat("file", 5, 10, 11, -12, 13)
PATH = "/notes/a.md"


@pytest.fixture
def source_id(connection: apsw.Connection) -> int:
    return sources.ensure(connection, "/notes", NOW)


def account(
    connection: apsw.Connection,
    source_id: int,
    state: FileState,
    reason: Reason | None = None,
    *,
    path: str = PATH,
    document_id: int | None = None,
) -> None:
    content_hash = None if document_id is None else "hash"
    files.account(
        connection,
        source_id,
        path,
        STAT,
        state,
        reason,
        "rules-1",
        NOW,
        content_hash=content_hash,
        document_id=document_id,
    )


def document_of(connection: apsw.Connection, path: str = PATH) -> tuple[int | None, str | None]:
    """Return the (document, content hash) that the ledger holds for a path."""
    row = connection.execute(
        "SELECT document_id, content_hash FROM files WHERE path = ?", (os.fsencode(path),)
    ).fetchone()
    assert row is not None
    return row[0], row[1]


@pytest.mark.parametrize("raw", [b"/notes/a.md", b"/notes/caf\xe9.md", "/notes/文\n\t.md".encode(), b"/notes/-\x1b[0m"])
def test_a_path_is_kept_as_its_bytes(connection: apsw.Connection, source_id: int, raw: bytes) -> None:
    path = os.fsdecode(raw)
    account(connection, source_id, FileState.SKIPPED, Reason.BINARY, path=path)
    expected = KnownFile(path, STAT, FileState.SKIPPED, Reason.BINARY, "rules-1")
    assert files.known(connection, source_id, path) == expected
    assert files.known_of_source(connection, source_id) == {path: expected}
    assert connection.execute("SELECT path FROM files").get == raw
    row = files.by_path(connection, path)
    assert row is not None
    assert (row.path, row.state, row.reason) == (path, FileState.SKIPPED, Reason.BINARY)


@pytest.mark.parametrize(
    ("stored", "typed"), [("cafe\u0301.md", "caf\u00e9.md"), ("caf\u00e9.md", "cafe\u0301.md")], ids=["nfd", "nfc"]
)
def test_a_name_typed_in_another_unicode_form_is_found(
    connection: apsw.Connection, source_id: int, stored: str, typed: str
) -> None:
    account(connection, source_id, FileState.INDEXED, path=f"/notes/{stored}")
    row = files.by_path(connection, f"/notes/{typed}")
    assert row is not None
    assert row.path == f"/notes/{stored}"
    assert files.known(connection, source_id, f"/notes/{typed}") is None  # on this disk they are two files
    assert files.by_path(connection, "/notes/cafe.md") is None


def test_a_waiting_path_keeps_the_document_of_its_last_version(connection: apsw.Connection, source_id: int) -> None:
    document_id = write_document(connection, made_update("h1", "apples"))
    account(connection, source_id, FileState.INDEXED, document_id=document_id)
    account(connection, source_id, FileState.WAITING, Reason.QUEUED)
    assert document_of(connection) == (document_id, "hash")
    account(connection, source_id, FileState.SKIPPED, Reason.EMPTY)
    assert document_of(connection) == (None, None)


def test_only_a_waiting_path_is_told_what_it_waits_for(connection: apsw.Connection, source_id: int) -> None:
    account(connection, source_id, FileState.WAITING, Reason.QUEUED)
    files.set_reason(connection, source_id, PATH, Reason.RETRY, "busy")
    row = files.by_path(connection, PATH)
    assert row is not None
    assert (row.reason, row.detail) == (Reason.RETRY, "busy")
    account(connection, source_id, FileState.FAILED, Reason.CORRUPT)
    files.set_reason(connection, source_id, PATH, Reason.PROCESSING, None)
    row = files.by_path(connection, PATH)
    assert row is not None
    assert row.reason is Reason.CORRUPT


def test_a_path_that_is_gone_is_not_known_but_remembered(connection: apsw.Connection, source_id: int) -> None:
    account(connection, source_id, FileState.SKIPPED, Reason.BINARY)
    files.mark_gone(connection, source_id, [PATH, "/notes/never.md"], NOW + 1)
    assert files.known(connection, source_id, PATH) is None
    assert files.known_of_source(connection, source_id) == {}
    row = files.by_path(connection, PATH)
    assert row is not None
    assert (row.state, row.reason, row.last_seen_at) == (FileState.GONE, None, NOW + 1)


def test_a_path_without_a_look_has_no_stat(connection: apsw.Connection, source_id: int) -> None:
    files.account(connection, source_id, PATH, None, FileState.FAILED, Reason.PERMISSION, "r", NOW, detail="denied")
    known = files.known(connection, source_id, PATH)
    assert known is not None
    assert known.stat is None


def test_paths_are_counted_by_source_state_and_reason(connection: apsw.Connection, source_id: int) -> None:
    other = sources.ensure(connection, "/other", NOW)
    account(connection, source_id, FileState.INDEXED)
    account(connection, source_id, FileState.INDEXED, Reason.NO_TEXT, path="/notes/scan.pdf")
    account(connection, source_id, FileState.SKIPPED, Reason.EMPTY, path="/notes/b.md")
    account(connection, other, FileState.FAILED, Reason.CORRUPT, path="/other/c.md")
    account(connection, other, FileState.WAITING, Reason.QUEUED, path="/other/d.md")
    assert files.counts(connection) == {source_id: {"indexed": 2, "skipped": 1}, other: {"failed": 1, "waiting": 1}}
    assert files.reason_counts(connection) == {"corrupt": 1, "empty": 1, "no_text": 1}
    files.delete_of_source(connection, other)
    assert files.counts(connection) == {source_id: {"indexed": 2, "skipped": 1}}


def test_every_state_and_reason_of_the_closed_list_is_read_back(connection: apsw.Connection, source_id: int) -> None:
    for state in FileState:
        for reason in (None, *Reason):
            account(connection, source_id, state, reason)
            row = files.by_path(connection, PATH)
            assert row is not None
            assert (row.state, row.reason) == (state, reason)


def test_a_folder_keeps_its_number(connection: apsw.Connection, source_id: int) -> None:
    assert sources.ensure(connection, "/notes", NOW + 1) == source_id
    sources.set_state(connection, source_id, "paused", "missing", "not there")
    sources.set_scan(connection, source_id, NOW, 1.5, 7)
    row = sources.listed(connection)[0]
    assert (row.path, row.state, row.reason, row.last_scan_at, row.last_scan_seconds, row.files_seen) == (
        "/notes",
        "paused",
        "missing",
        NOW,
        1.5,
        7,
    )


def test_a_path_that_was_gone_holds_nothing_when_it_comes_back(connection: apsw.Connection, source_id: int) -> None:
    document_id = write_document(connection, made_update("h1", "apples"))
    account(connection, source_id, FileState.INDEXED, document_id=document_id)
    files.mark_gone(connection, source_id, [PATH], NOW)
    account(connection, source_id, FileState.WAITING, Reason.QUEUED)
    assert document_of(connection) == (None, None)
    assert [row[1] for row in files.waiting_of_size(connection, {STAT.size})] == [PATH]


def test_a_path_that_waits_again_still_holds_its_last_version_of_that_size(
    connection: apsw.Connection, source_id: int
) -> None:
    document_id = write_document(connection, made_update("h1", "apples"))

    account(connection, source_id, FileState.INDEXED, document_id=document_id)
    [indexed] = files.indexed_at(connection, source_id, [PATH])
    assert indexed[2] == STAT
    account(connection, source_id, FileState.WAITING, Reason.QUEUED)
    [(_, path, stat, content_hash, held)] = files.indexed_at(connection, source_id, [PATH, "/notes/b.md"])
    assert (path, stat.size, stat.inode) == (PATH, len("apples"), 0)
    assert (content_hash, held) == ("h1", document_id)


def test_an_indexed_path_is_to_be_read_once_more_where_that_is_said(
    connection: apsw.Connection, source_id: int
) -> None:
    account(connection, source_id, FileState.INDEXED)
    account(connection, source_id, FileState.WAITING, Reason.QUEUED, path="/notes/b.md")
    for path in (PATH, "/notes/b.md"):
        files.set_hash_due(connection, source_id, path)
    known = files.known_of_source(connection, source_id)
    assert {path: file.hash_due for path, file in known.items()} == {PATH: True, "/notes/b.md": False}
