"""Any older database becomes the current one, whole or not at all; what is not ours or newer stays as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from kbsync.errors import StopEngine
from kbsync.pipelines.enrich import enriched_text
from kbsync.store import meta, migrations, tokenizer
from kbsync.store.connection import connect_writer
from kbsync.store.writer import Writer
from tests.store.made_documents import count, made_update, matching, write_document

# (title, section header, text)
OLD_CHUNKS = [
    ("Suitcase Locks", None, "Steve = 363"),
    ("DCG Lab Hardware", "GRIMDAWN > motherboard", "MSI X870 Tomahawk"),
    ("Docker Tips", None, "dbash() { docker exec -it $1 bash; }"),
    ("依赖 guide", "", "安装"),
]


def contents(connection: apsw.Connection) -> list[tuple[Any, ...]]:
    """Return everything that the database holds: the schema, the pragmas of its header and every row."""
    rows: list[tuple[Any, ...]] = [tuple(row) for row in connection.execute("SELECT * FROM sqlite_schema")]
    rows += [(connection.pragma("user_version"), connection.pragma("application_id"))]
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'")
    for (table,) in list(tables):
        rows += [(table, *row) for row in connection.execute(f"SELECT * FROM {table}")]
    return rows


def open_old(path: str) -> apsw.Connection:
    """Make a database of the first form, by its own SQL, with documents whose full-text rows its triggers made."""
    connection = connect_writer(path, migrations.accept)
    number, _name, sql = migrations.migrations()[0]
    connection.execute(sql)
    connection.pragma("application_id", migrations.APPLICATION_ID)
    connection.pragma("user_version", number)
    for title, header, text in OLD_CHUNKS:
        connection.execute(
            "INSERT INTO documents (title, type, content_hash, size_bytes, converter_fingerprint, chunker_fingerprint, "
            "created_at, updated_at) VALUES (?, 'note', ?, 1, 'c', 'c', 1.0, 1.0)",
            (title, title),
        )
        document_id = connection.last_insert_rowid()
        metadata = {} if header is None else {"section_header": header}
        connection.execute(
            "INSERT INTO chunks (document_id, position, text, metadata, token_count) VALUES (?, 0, ?, ?, 3)",
            (document_id, text, json.dumps(metadata)),
        )
        connection.execute(
            "INSERT INTO origins (document_id, kind, path, since) VALUES (?, 'added', ?, 1.0)",
            (document_id, f"/home/me/Luggage/{title}.md".encode()),
        )
    return connection


@pytest.fixture
def old(database: str) -> Iterator[apsw.Connection]:
    connection = open_old(database)
    yield connection
    connection.close()


def test_a_fresh_database_gets_every_migration_once(database: str) -> None:
    writer = Writer(database)
    assert writer.open() == ["initial", "enriched_text", "lanes", "reindex", "guarded_sources", "salvaged_vectors"]
    writer.close()
    again = Writer(database)
    assert again.open() == []
    again.close()


def test_first_startup_after_the_upgrade_makes_everything_findable_by_title(old: apsw.Connection) -> None:
    assert not matching(old, "chunks_fts", "suitcase")
    assert matching(old, "chunks_fts", "steve")
    assert migrations.init_schema(old) == ["enriched_text", "lanes", "reindex", "guarded_sources", "salvaged_vectors"]
    assert matching(old, "chunks_fts", "suitcase locks") == [1]
    assert matching(old, "chunks_fts", "motherboard tomahawk") == [2]
    assert matching(old, "chunks_fts", "docker tips dbash") == [3]
    assert matching(old, "chunks_fts", "依赖 安装") == [4]
    old.execute("INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('integrity-check', 1)")


def test_the_migration_enriches_exactly_as_ingestion_does(old: apsw.Connection) -> None:
    migrations.init_schema(old)
    stored = [row[0] for row in old.execute("SELECT enriched_text FROM chunks ORDER BY id")]
    assert stored == [enriched_text(title, header, text) for title, header, text in OLD_CHUNKS]
    assert stored[0] == "Suitcase Locks\n\nSteve = 363"
    assert stored[1] == "DCG Lab Hardware > GRIMDAWN > motherboard\n\nMSI X870 Tomahawk"
    assert [row[0] for row in old.execute("SELECT text FROM chunks ORDER BY id")] == [row[2] for row in OLD_CHUNKS]


def test_the_second_startup_does_nothing(old: apsw.Connection) -> None:
    migrations.init_schema(old)
    before, changes = contents(old), old.total_changes()
    assert migrations.init_schema(old) == []
    assert old.total_changes() == changes
    assert contents(old) == before


def test_after_the_migration_the_triggers_follow_the_enriched_text(old: apsw.Connection) -> None:
    migrations.init_schema(old)
    old.execute("UPDATE chunks SET enriched_text = 'Trunk Keys' WHERE id = 1")
    assert not matching(old, "chunks_fts", "suitcase")
    assert matching(old, "chunks_fts", "trunk") == [1]
    old.execute("UPDATE chunks SET text = 'unseen' WHERE id = 1")
    assert not matching(old, "chunks_fts", "unseen")
    old.execute("DELETE FROM chunks WHERE id = 1")
    assert not matching(old, "chunks_fts", "trunk")
    old.execute(
        "INSERT INTO chunks (document_id, position, text, enriched_text, token_count) VALUES (1, 5, 'a', 'b', 1)"
    )
    assert matching(old, "chunks_fts", "b") == [old.last_insert_rowid()]


def test_files_of_an_old_database_are_found_by_name(old: apsw.Connection) -> None:
    migrations.init_schema(old)
    assert matching(old, "names_fts", "luggage suitcase") == [1]


def test_a_migration_that_fails_midway_leaves_the_old_form_whole(old: apsw.Connection) -> None:
    # A document that is not there: the second statement of many that change something fails for its chunk.
    old.execute("PRAGMA foreign_keys = OFF")
    old.execute("INSERT INTO chunks (document_id, position, text, token_count) VALUES (99, 0, 'lost', 1)")
    before = contents(old)
    with pytest.raises(apsw.ConstraintError):
        migrations.init_schema(old)
    assert contents(old) == before
    assert matching(old, "chunks_fts", "lost")
    old.execute("DELETE FROM chunks WHERE document_id = 99")
    assert migrations.init_schema(old) == ["enriched_text", "lanes", "reindex", "guarded_sources", "salvaged_vectors"]


def test_a_newer_database_is_refused_untouched(database: str) -> None:
    writer = Writer(database)
    writer.open()
    writer.run(lambda connection: connection.pragma("user_version", 99))
    writer.close()
    before = Path(database).read_bytes()
    with pytest.raises(StopEngine, match="99"):
        Writer(database).open()
    assert Path(database).read_bytes() == before


@pytest.mark.parametrize("journal_mode", ["delete", "wal"])
def test_a_database_of_another_program_is_refused_untouched(database: str, journal_mode: str) -> None:
    foreign = apsw.Connection(database)
    foreign.pragma("journal_mode", journal_mode)
    foreign.execute("CREATE TABLE bookmarks (url TEXT)")
    foreign.close()
    before = Path(database).read_bytes()
    with pytest.raises(StopEngine, match="another program"):
        Writer(database).open()
    assert Path(database).read_bytes() == before


def test_a_refused_database_can_be_opened_by_its_own_program_at_once(database: str) -> None:
    foreign = apsw.Connection(database)
    foreign.execute("CREATE TABLE bookmarks (url TEXT)")
    with pytest.raises(StopEngine):
        Writer(database).open()
    foreign.execute("BEGIN EXCLUSIVE; INSERT INTO bookmarks VALUES ('x'); COMMIT")
    foreign.close()


def test_other_rules_of_the_tokenizer_rebuild_both_full_text_indexes(connection: apsw.Connection) -> None:
    write_document(connection, made_update("h1", "apples and pears"), "/notes/orchard.md")
    ended = write_document(connection, made_update("h2", "cherries"), "/notes/garden.md")
    connection.execute("UPDATE origins SET live = 0 WHERE document_id = ?", (ended,))
    # What other rules left behind: other words in both indexes.
    connection.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('delete-all')")
    connection.execute("INSERT INTO chunks_fts (rowid, enriched_text) VALUES (1, 'stale')")
    connection.execute("DELETE FROM names_fts")
    connection.execute("INSERT INTO names_fts (rowid, name) VALUES (1, 'stale'), (77, 'stale')")
    meta.put(connection, meta.TOKENIZER, "0/older")
    assert migrations.init_schema(connection) == []
    assert matching(connection, "chunks_fts", "pears") == [1]
    assert matching(connection, "names_fts", "orchard") == [1]
    assert not matching(connection, "names_fts", "garden")
    assert not matching(connection, "chunks_fts", "stale")
    assert not matching(connection, "names_fts", "stale")
    assert meta.get(connection, meta.TOKENIZER) == tokenizer.VERSION
    assert count(connection, "names_fts_docsize") == 1


@pytest.mark.parametrize(("version", "hint"), [(1, "Start the daemon"), (99, "newer kbsync")])
def test_a_reader_takes_only_the_form_of_its_own_program(connection: apsw.Connection, version: int, hint: str) -> None:
    migrations.require_current(connection)
    connection.pragma("user_version", version)
    meta.put(connection, meta.SCHEMA, str(version))
    with pytest.raises(StopEngine) as caught:
        migrations.require_current(connection)
    assert hint in caught.value.hint


def test_a_reader_says_of_an_empty_database_that_it_is_built_anew() -> None:
    with pytest.raises(StopEngine, match="is empty or damaged") as caught:
        migrations.require_current(apsw.Connection(":memory:"))
    assert caught.value.hint == "`kbsync run` builds it anew."
