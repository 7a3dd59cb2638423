"""The questions of the integrity check, asked of a whole database; the damaged ones are the facade's tests."""

from __future__ import annotations

import os

import apsw

from kbsync.store import maintenance, origins
from kbsync.store.connection import whole
from tests.store.made_documents import NOW, made_update, write_document


def test_a_whole_database_has_no_complaint(connection: apsw.Connection) -> None:
    write_document(connection, made_update("h1", "apples", "依赖"), "/notes/a.md")
    write_document(connection, made_update("h2"), "/notes/empty.md")
    assert maintenance.fts_agrees(connection)
    for ask in (
        maintenance.corrupt_pages,
        maintenance.broken_references,
        maintenance.chunks_without_fts,
        maintenance.fts_without_chunks,
        maintenance.chunks_without_vector,
        maintenance.vectors_without_chunk,
        maintenance.bad_vectors,
        maintenance.documents_without_origin,
    ):
        assert ask(connection) == 0, ask.__name__


def test_a_database_before_its_first_embedder_is_whole(connection: apsw.Connection) -> None:
    assert maintenance.chunks_without_vector(connection) == 0
    assert maintenance.vectors_without_chunk(connection) == 0
    assert maintenance.bad_vectors(connection) == 0


def test_a_document_whose_origins_all_ended_is_explained(connection: apsw.Connection) -> None:
    write_document(connection, made_update("h1", "apples"), "/notes/a.md")
    origins.end_path(connection, "/notes/a.md", "missing", NOW)
    assert maintenance.documents_without_origin(connection) == 0


def test_the_check_inside_a_transaction_leaves_it_usable(connection: apsw.Connection) -> None:
    write_document(connection, made_update("h1", "apples"), "/notes/a.md")
    with whole(connection):
        connection.execute("INSERT INTO chunks_fts (chunks_fts, rowid, enriched_text) VALUES ('delete', 1, 'wrong')")
        assert not maintenance.fts_agrees(connection)
        connection.execute("INSERT INTO meta VALUES ('after', '1')")
    assert connection.execute("SELECT value FROM meta WHERE key = 'after'").get == "1"


def test_the_size_is_that_of_the_file(connection: apsw.Connection, database: str) -> None:
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert maintenance.size_bytes(connection) == os.stat(database).st_size
