"""The questions of the integrity check, asked of a whole database; the damaged ones are T11's (tests/faults)."""

from __future__ import annotations

import apsw
import pytest

from kbsync.store import documents, integrity, mending, origins, vector_integrity
from kbsync.store.connection import connect_reader, whole
from tests.store.made_documents import NOW, made_update, write_document


def test_a_whole_database_has_no_complaint(connection: apsw.Connection) -> None:
    write_document(connection, made_update("h1", "apples", "依赖"), "/notes/a.md")
    assert integrity.complaints(connection) == (None, None, None)
    for ask in (
        integrity.foreign_keys,
        integrity.row_ids,
        integrity.words,
        integrity.full_text,
        integrity.full_text_missing,
        integrity.full_text_extra,
        integrity.names,
        vector_integrity.tables,
        vector_integrity.missing,
        vector_integrity.extra,
        vector_integrity.bad,
        vector_integrity.stale,
        integrity.documents_unexplained,
        integrity.documents_state,
        integrity.chunks_missing,
        integrity.texts,
    ):
        assert ask(connection) is None, ask.__name__


def test_a_database_before_its_first_embedder_is_whole(connection: apsw.Connection) -> None:
    for ask in (vector_integrity.tables, vector_integrity.missing, vector_integrity.extra, vector_integrity.bad):
        assert ask(connection) is None


def test_a_document_whose_origins_all_ended_is_explained(connection: apsw.Connection) -> None:
    write_document(connection, made_update("h1", "apples"), "/notes/a.md")
    origins.end_path(connection, "/notes/a.md", "missing", NOW)
    assert integrity.documents_unexplained(connection) is None
    assert integrity.documents_state(connection) is None


def test_the_check_inside_a_transaction_leaves_it_usable(connection: apsw.Connection) -> None:
    write_document(connection, made_update("h1", "apples"), "/notes/a.md")
    with whole(connection):
        connection.execute("INSERT INTO chunks_fts (chunks_fts, rowid, enriched_text) VALUES ('delete', 1, 'wrong')")
        assert integrity.full_text(connection) is not None
        connection.execute("INSERT INTO meta VALUES ('after', '1')")
    assert connection.execute("SELECT value FROM meta WHERE key = 'after'").get == "1"


def test_what_others_wrote_since_is_no_complaint_of_a_reader(connection: apsw.Connection, database: str) -> None:
    reader = connect_reader(database)
    try:
        for number in range(12):  # FTS5 keeps in mind of which parts its index was
            document_id = write_document(connection, made_update(f"h{number}", f"apples {number}"), f"/{number}.md")
            assert integrity.complaints(reader) == (None, None, None)
            if number % 3 == 2:
                documents.delete(connection, document_id)
                assert integrity.complaints(reader) == (None, None, None)
    finally:
        reader.close()


@pytest.mark.parametrize(
    ("title", "head", "right"),
    [
        ("Letters", "Letters", True),
        ("Letters  to\tEve", "Letters to Eve", True),
        ("Letters of a very long winter", "Letters of a…", True),
        ("Letters of a very long winter", "Bills of a…", False),
        ("Letters", "Bills", False),
        ("Letters", "Letters and", False),
        ("Wait… what", "Wait… what", True),
    ],
)
def test_a_chunk_stands_under_its_title(title: str, head: str, right: bool) -> None:
    assert integrity.is_enriched(title, f"{head}\n\ntext", "text", None) is right
    assert integrity.is_enriched(title, f"{head} > One\n\ntext", "text", "One") is right
    assert not integrity.is_enriched(title, f"{head} > One\n\ntext", "text", "Two")
    assert not integrity.is_enriched(title, f"{head}\n\nother", "text", None)


def test_a_new_row_never_gets_the_number_of_one_that_was_deleted(connection: apsw.Connection) -> None:
    """D16: no vector or full-text row that stayed behind answers for what comes next, whatever the counters say."""
    write_document(connection, made_update("h1", "apples", "pears"), "/notes/a.md")
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("DROP TRIGGER chunks_fts_delete; DELETE FROM chunks")  # vectors and words stay behind
    connection.execute("DELETE FROM origins; DELETE FROM documents; UPDATE sqlite_sequence SET seq = 0")
    assert integrity.row_ids(connection) is not None
    mending.count_on(connection)
    assert integrity.row_ids(connection) is None
    write_document(connection, made_update("h2", "plums"), "/notes/b.md")
    assert connection.execute("SELECT id FROM chunks").fetchall() == [(3,)]
    found = connection.execute("SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH 'plums'").fetchall()
    assert found == [(3,)]
