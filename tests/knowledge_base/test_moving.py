"""A move as one transaction: never a moment without a live path, and never over something that changed meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import apsw
import pytest

from kbsync.filesystem import Stat
from kbsync.knowledge_base import moving
from kbsync.model import Origin
from kbsync.reasons import FileState
from kbsync.sources.moves import IndexedFile, Move
from kbsync.store import files, jobs, origins, sources
from kbsync.store.connection import connect_writer
from kbsync.store.migrations import accept, init_schema
from tests.store.made_documents import NOW, made_update, write_document

OLD, NEW = "/notes/old.md", "/notes/new.md"
STAT = Stat("file", 5, 10, 11, 12, 13)


@pytest.fixture
def connection(tmp_path: object) -> Iterator[apsw.Connection]:
    connection = connect_writer(f"{tmp_path}/kb.sqlite3", accept)
    init_schema(connection)
    yield connection
    connection.close()


@pytest.fixture
def move(connection: apsw.Connection) -> Move:
    """A file that is indexed at the old path, and was seen at the new one."""
    source_id = sources.ensure(connection, "/notes", NOW)
    document_id = write_document(connection, made_update("h", "quince"), OLD)
    connection.execute("DELETE FROM origins")
    origins.add(connection, document_id, Origin("path", OLD, source_id), NOW)
    files.account(
        connection, source_id, OLD, STAT, FileState.INDEXED, None, "r", NOW, content_hash="h", document_id=document_id
    )
    return Move(IndexedFile(source_id, OLD, STAT, "h", document_id), source_id, NEW, STAT, "r", proved=False)


def test_the_document_follows_and_the_old_path_is_gone(connection: apsw.Connection, move: Move) -> None:
    states: list[str] = []
    connection.set_update_hook(
        lambda kind, database, table, row: states.extend(
            state for (state,) in connection.execute("SELECT state FROM documents")
        )
    )
    assert moving.follow(connection, move, NOW + 1)
    connection.set_update_hook(None)
    assert set(states) == {"current"}
    assert origins.live_paths(connection, move.old.document_id) == [NEW]
    assert files.known(connection, move.source_id, OLD) is None
    [(_, path, stat, content_hash, document_id)] = files.indexed_at(connection, move.source_id, [NEW])
    assert (path, stat, content_hash, document_id) == (NEW, STAT, "h", move.old.document_id)
    assert jobs.live_paths(connection, move.source_id) == {NEW}


def test_what_its_hash_proved_is_not_read_once_more(connection: apsw.Connection, move: Move) -> None:
    assert moving.follow(connection, replace(move, proved=True), NOW + 1)
    assert jobs.live_paths(connection, move.source_id) == set()


def _read_anew(connection: apsw.Connection, move: Move) -> None:
    files.account(connection, move.source_id, OLD, STAT, FileState.INDEXED, None, "r", NOW, content_hash="other")


def _hidden(connection: apsw.Connection, move: Move) -> None:
    files.mark_gone(connection, move.source_id, [OLD], NOW)


def _indexed_there(connection: apsw.Connection, move: Move) -> None:
    other = write_document(connection, made_update("other", "medlar"), "/elsewhere.md")
    origins.add(connection, other, Origin("path", NEW, move.source_id), NOW)


def _left_out_there(connection: apsw.Connection, move: Move) -> None:
    files.account(connection, move.source_id, NEW, STAT, FileState.SKIPPED, None, "r", NOW)


@pytest.mark.parametrize("meanwhile", [_read_anew, _hidden, _indexed_there, _left_out_there])
def test_nothing_is_written_where_something_changed_meanwhile(
    connection: apsw.Connection, move: Move, meanwhile: Callable[[apsw.Connection, Move], None]
) -> None:
    meanwhile(connection, move)
    before = list(connection.execute("SELECT * FROM origins")), list(connection.execute("SELECT * FROM files"))
    assert not moving.follow(connection, move, NOW + 1)
    assert before == (
        list(connection.execute("SELECT * FROM origins")),
        list(connection.execute("SELECT * FROM files")),
    )
