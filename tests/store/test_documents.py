"""A document is there whole or not at all: its row, chunks, full-text rows and vectors."""

from __future__ import annotations

import os
from dataclasses import replace

import apsw
import numpy as np
import pytest

from kbsync.errors import FailFile
from kbsync.model import Origin
from kbsync.reasons import FileState, Reason
from kbsync.store import chunks, documents, files, jobs, origins, sources, vectors
from kbsync.store.connection import whole
from tests.store.made_documents import EMBEDDER, NOW, count, made_update, matching, state_of, write_document


def counts(connection: apsw.Connection) -> tuple[int, int, int]:
    """Return how many chunks, full-text rows and vectors there are."""
    return count(connection, "chunks"), count(connection, "chunks_fts_docsize"), count(connection, "vectors_1")


def test_a_written_document_is_read_back_as_it_was(connection: apsw.Connection) -> None:
    document_id = write_document(connection, made_update("h1", "apples", "pears"), "/notes/a.md")
    document = documents.by_id(connection, document_id)
    assert document is not None
    assert document == documents.by_hash(connection, "h1")
    assert (document.title, document.type, document.type_by_hand, document.state) == (
        "A title",
        "markdown",
        False,
        "current",
    )
    assert document.metadata == {"tags": ["one", "två"]}
    assert (document.created_at, document.updated_at, document.stored_path) == (NOW, NOW, None)
    stored = chunks.of_document(connection, document_id)
    assert [(chunk.position, chunk.text, chunk.enriched_text) for chunk in stored] == [
        (0, "apples", "A title\n\napples"),
        (1, "pears", "A title\n\npears"),
    ]
    assert stored[0].metadata == {"kind": "text"}
    assert chunks.by_ids(connection, [stored[1].id, 999]) == {stored[1].id: stored[1]}
    assert chunks.count(connection) == 2
    assert counts(connection) == (2, 2, 2)


def test_known_content_is_replaced_in_place(connection: apsw.Connection) -> None:
    document_id = write_document(connection, made_update("h1", "apples", "pears"), "/notes/a.md")
    documents.set_stored_path(connection, document_id, "/documents/h1.md", "b.md")
    again = documents.write(connection, made_update("h1", "plums", title="New"), 1, NOW + 5)
    document = documents.by_id(connection, document_id)
    assert document is not None
    assert again == document_id
    assert (document.title, document.created_at, document.updated_at) == ("New", NOW, NOW + 5)
    assert (document.stored_path, document.original_filename, document.state) == ("/documents/h1.md", "a.md", "current")
    assert counts(connection) == (1, 1, 1)
    assert not matching(connection, "chunks_fts", "apples")
    assert matching(connection, "chunks_fts", "plums new")


def test_a_reason_and_no_chunks_are_kept(connection: apsw.Connection) -> None:
    update = made_update("h1")
    write_document(connection, replace(update, reason=Reason.NO_TEXT), "/notes/a.md")
    document = documents.by_hash(connection, "h1")
    assert document is not None
    assert document.reason is Reason.NO_TEXT
    assert counts(connection) == (0, 0, 0)


def test_a_deleted_document_leaves_nothing_behind(connection: apsw.Connection) -> None:
    source_id = sources.ensure(connection, "/notes", NOW)
    kept = write_document(connection, made_update("h1", "apples"), "/notes/a.md")
    gone = write_document(connection, made_update("h2", "pears", "plums"), "/notes/pear.md")
    origins.end_path(connection, "/notes/pear.md", "missing", NOW)
    origins.add(connection, gone, Origin("path", "/notes/pear.md", source_id), NOW + 1)
    files.account(connection, source_id, "/notes/pear.md", None, FileState.INDEXED, None, "r", NOW)
    connection.execute("UPDATE files SET document_id = ?", (gone,))
    connection.execute(
        "INSERT INTO jobs (state, kind, path, priority, sequence, document_id, created_at, updated_at) "
        "VALUES ('done', 'path', x'00', 1, 1.0, ?, 1.0, 1.0)",
        (gone,),
    )
    documents.delete(connection, gone)
    assert documents.by_id(connection, gone) is None
    assert counts(connection) == (1, 1, 1)
    assert not matching(connection, "chunks_fts", "pears OR plums")
    assert not matching(connection, "names_fts", "pear")
    assert origins.document_of(connection, "/notes/pear.md") is None
    assert count(connection, "origins") == 1
    row = files.by_path(connection, "/notes/pear.md")
    assert row is not None
    assert row.document_id is None
    job = jobs.by_id(connection, 1)
    assert job is not None
    assert job.document_id is None
    assert state_of(connection, kept) == "current"


def test_no_row_id_is_ever_used_again(connection: apsw.Connection) -> None:
    """D16: else a vector or a full-text row of the old one could answer for the new one."""
    first = write_document(connection, made_update("h1", "apples"), "/notes/a.md")
    before = chunks.of_document(connection, first)[0].id, connection.execute("SELECT max(id) FROM origins").get
    documents.delete(connection, first)
    second = write_document(connection, made_update("h2", "pears"), "/notes/b.md")
    after = chunks.of_document(connection, second)[0].id, connection.execute("SELECT max(id) FROM origins").get
    assert second > first
    assert after[0] > before[0]
    assert after[1] > before[1]


def test_chunks_cannot_go_before_their_vectors(connection: apsw.Connection) -> None:
    document_id = write_document(connection, made_update("h1", "apples"))
    with pytest.raises(apsw.ConstraintError):
        chunks.delete_of(connection, document_id)


def test_a_write_that_fails_midway_leaves_the_old_document(connection: apsw.Connection) -> None:
    document_id = write_document(connection, made_update("h1", "apples"), "/notes/a.md")
    update = made_update("h1", "pears")
    assert update.vectors is not None
    broken = replace(update, vectors=update.vectors * np.float32("nan"))
    with pytest.raises(FailFile), whole(connection):
        documents.write(connection, broken, 1, NOW)
    assert [chunk.text for chunk in chunks.of_document(connection, document_id)] == ["apples"]
    assert matching(connection, "chunks_fts", "apples")
    assert counts(connection) == (1, 1, 1)


def test_documents_are_listed_newest_first_and_filtered(connection: apsw.Connection) -> None:
    embedder_id = vectors.use_embedder(connection, EMBEDDER, NOW)
    ids = [documents.write(connection, made_update(f"h{n}", "text"), embedder_id, NOW + n) for n in range(4)]
    connection.execute("UPDATE documents SET state = 'missing', type = 'code' WHERE id = ?", (ids[3],))

    def listed(**wanted: str | None) -> tuple[list[int], int]:
        found, total = documents.listed(
            connection, state=wanted.get("state"), document_type=wanted.get("type"), limit=2, offset=0
        )
        return [document.id for document in found], total

    assert listed() == ([ids[3], ids[2]], 4)
    assert listed(state="current") == ([ids[2], ids[1]], 3)
    assert listed(state="current", type="code") == ([], 0)
    assert documents.count_by_type(connection) == {"markdown": 3}


def test_every_stored_copy_is_named(connection: apsw.Connection) -> None:
    first = write_document(connection, made_update("h1", "apples"))
    write_document(connection, made_update("h2", "pears"))
    connection.execute("UPDATE documents SET original_filename = NULL")
    documents.set_stored_path(connection, first, "/documents/h1.md", "given.md")
    assert documents.stored_paths(connection) == {"/documents/h1.md"}
    document = documents.by_id(connection, first)
    assert document is not None
    assert document.original_filename == "given.md"


def test_only_current_documents_match(connection: apsw.Connection) -> None:
    shown = write_document(connection, made_update("h1", "ripe apples"), "/notes/orchard.md")
    hidden = write_document(connection, made_update("h2", "ripe apples here"), "/notes/garden.md")
    origins.end_path(connection, "/notes/garden.md", "missing", NOW)
    assert state_of(connection, hidden) == "missing"
    assert [row[1] for row in chunks.matching(connection, "apples", 10)] == [shown]
    assert [row[1] for row in chunks.matching_names(connection, "orchard OR garden", 10)] == [shown]


def test_a_stored_name_that_is_no_text_keeps_its_replacement(connection: apsw.Connection) -> None:
    path = os.fsdecode(b"/notes/caf\xe9.md")
    document_id = write_document(connection, made_update("h1", "apples"), path)
    assert origins.live_paths(connection, document_id) == [path]
    assert matching(connection, "names_fts", "caf*")
