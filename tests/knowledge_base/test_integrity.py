"""The check in one transaction says the same as the one beside others; of each damage T11 has an example."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbsync.errors import RetryLater
from kbsync.knowledge_base import integrity
from kbsync.knowledge_base.damage import SENTENCES, Damage
from kbsync.reasons import FileState, Reason
from kbsync.store import files, sources
from kbsync.store.connection import Connection
from kbsync.store.writer import Readers, Writer
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World
from tests.faults.damaged_library import behind_its_back
from tests.store.made_documents import NOW, made_update, write_document

FOLDER = "/notes"


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    writer = Writer(str(tmp_path / "kb.sqlite3"))
    writer.open()
    writer.run(lambda connection: placed(connection, "h1", ("apples", "pears"), f"{FOLDER}/a.md"))
    writer.run(lambda connection: placed(connection, "h2", ("plums",), f"{FOLDER}/b.md"))
    yield writer
    writer.close()


@pytest.fixture
def readers(writer: Writer) -> Iterator[Readers]:
    readers = Readers(writer.path)
    yield readers
    readers.close()


def placed(connection: Connection, content_hash: str, texts: tuple[str, ...], path: str) -> None:
    """Write a document as a job does for a file of a followed folder."""
    source_id = sources.ensure(connection, FOLDER, NOW)
    document_id = write_document(connection, made_update(content_hash, *texts), path)
    connection.execute("UPDATE origins SET source_id = ? WHERE document_id = ?", (source_id, document_id))
    files.account(
        connection, source_id, path, None, FileState.INDEXED, None, "", NOW,
        content_hash=content_hash, document_id=document_id,
    )  # fmt: skip


def test_a_good_database_has_no_problem(writer: Writer, readers: Readers) -> None:
    assert writer.run(integrity.check) == []
    assert integrity.check_beside(readers) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE documents SET title = 'Other' WHERE id = 1",
        "INSERT INTO chunks_fts (chunks_fts, rowid, enriched_text) VALUES ('delete', 1, 'wrong')",
        "DROP INDEX origins_path; DELETE FROM vectors_1 WHERE chunk_id = 2",
        "DROP TABLE chunks_fts_data",
        "DELETE FROM files",
    ],
)
def test_both_ways_find_the_same(writer: Writer, readers: Readers, statement: str) -> None:
    writer.run(lambda connection: connection.execute(statement))
    found = writer.run(integrity.check)
    assert found
    assert integrity.check_beside(readers) == found


def test_whoever_paces_the_check_may_end_it(readers: Readers) -> None:
    calls = []

    def pace(_seconds: float) -> None:
        calls.append(1)
        if len(calls) > 25:  # past the questions: in the middle of the words
            raise RetryLater(Reason.RETRY, "That is enough.")

    with pytest.raises(RetryLater, match="enough"):
        integrity.check_beside(readers, pace)
    assert len(calls) == 26


def test_every_damage_has_a_sentence() -> None:
    assert set(SENTENCES) == set(Damage)


@pytest.mark.parametrize("table", ["names_fts", "chunks_fts"])
def test_a_start_makes_a_full_text_index_anew_that_it_could_not_write_to(tmp_path: Path, table: str) -> None:
    """D06: what follows a source that was taken out ends in that index; no start may fail for it, again and again."""
    world = World.new(tmp_path / "home")
    world.configure(NOTES)
    engine = SimulatedEngine(world)
    engine.write(f"{NOTES}/oak.md", "# Oak\n\nIt grows.")
    engine.settle()
    engine.close()
    with behind_its_back(world.locations.database) as connection:
        connection.execute(f"DELETE FROM {table}_config")
    world.configure()
    engine = SimulatedEngine(world)
    engine.settle()
    assert [(problem.first, problem.repaired) for problem in engine.kb.check()] == [(table, True)]
    assert engine.kb.check() == [], "what the start mended is told once"
    assert engine.found("grows") == []
    engine.close()
