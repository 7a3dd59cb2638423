"""The scenarios of the enrichment's specification, each in a test that carries its name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbsync.compose import Engine, open_engine
from kbsync.config.locations import locate
from kbsync.config.settings import Settings
from kbsync.interfaces.records import search_record
from kbsync.model import Priority
from kbsync.store import migrations, vectors
from kbsync.store.connection import Connection, connect_writer
from kbsync.store.writer import Writer
from tests.fakes.simulated_engine import NOTES, SimulatedEngine
from tests.store.made_documents import matching
from tests.store.test_migrations import open_old

LOCKS = ("Steve = 363", "Suitcase Locks")


def chunks(engine: SimulatedEngine) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in engine.read("SELECT text, enriched_text FROM chunks ORDER BY id")]


def test_note_ingestion_with_title_enrichment(engine: SimulatedEngine) -> None:
    engine.note(*LOCKS)
    assert chunks(engine) == [("Steve = 363", "Suitcase Locks\n\nSteve = 363")]


def test_markdown_chunk_with_section_header_enrichment(engine: SimulatedEngine) -> None:
    engine.write(f"{NOTES}/lab.md", "# DCG Lab Hardware\n\n## GRIMDAWN\n\n### motherboard\n\nMSI X870 Tomahawk\n")
    engine.settle()
    ((text, enriched),) = chunks(engine)
    assert text == "MSI X870 Tomahawk"
    assert enriched == "DCG Lab Hardware > GRIMDAWN > motherboard\n\nMSI X870 Tomahawk"


def test_chunk_without_section_header(engine: SimulatedEngine) -> None:
    engine.note("dbash() { docker exec -it $1 bash; }", "Docker Tips")
    assert chunks(engine)[0][1] == "Docker Tips\n\ndbash() { docker exec -it $1 bash; }"


def test_fts_search_matches_document_title(engine: SimulatedEngine) -> None:
    engine.note(*LOCKS)
    assert [hit.text for hit in engine.kb.search("suitcase locks", "lexical").hits] == ["Steve = 363"]


def test_fts_search_still_matches_chunk_content(engine: SimulatedEngine) -> None:
    engine.note("The board is an MSI X870 Tomahawk.", "Hardware")
    engine.note(*LOCKS)
    assert [hit.title for hit in engine.kb.search("MSI X870", "lexical").hits] == ["Hardware"]


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Engine]:
    """Return an engine with the real model, not started: what is asked runs in this thread."""
    engine = open_engine(locate({"KBSYNC_HOME": str(tmp_path / "home")}), Settings())
    yield engine
    engine.close()


@pytest.mark.timeout(300)  # it loads the model: 15 s when quiet
def test_vector_search_matches_document_title(real: Engine) -> None:
    real.kb.adding.add_note(*LOCKS)
    assert real.worker(lambda _source_id: None, "text", Priority.LOW).step()
    bare, query = real.batcher.embed(["Steve = 363"], Priority.LOW)[0], "luggage combination codes"
    asked = real.batcher.embed([query], Priority.QUERY)[0]
    ((_chunk, similarity),) = real.readers.read(lambda connection: vectors.nearest(connection, 1, asked.tobytes(), 5))
    assert similarity > float(bare @ asked) + 0.1
    assert [hit.title for hit in real.kb.search(query, "vector").hits] == ["Suitcase Locks"]


def test_reindex_uses_enriched_text(engine: SimulatedEngine) -> None:
    engine.note(*LOCKS)
    before = len(engine.embedded())
    engine.engine.reindexing.begin("vectors")
    engine.settle()
    assert engine.embedded()[before:] == ["Suitcase Locks\n\nSteve = 363"]


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Connection]:
    """Return a database of the form before the enriched text, with documents in it."""
    connection = open_old(str(tmp_path / "kb.sqlite3"))
    yield connection
    connection.close()


def test_first_startup_after_upgrade(old: Connection, tmp_path: Path) -> None:
    assert "enriched_text" not in [row[1] for row in old.execute("PRAGMA table_info(chunks)")]
    assert not matching(old, "chunks_fts", "suitcase")
    old.close()
    writer = Writer(str(tmp_path / "kb.sqlite3"))
    assert "enriched_text" in writer.open()
    try:
        enriched = writer.run(
            lambda connection: [row[0] for row in connection.execute("SELECT enriched_text FROM chunks ORDER BY id")]
        )
        assert enriched[:2] == [
            "Suitcase Locks\n\nSteve = 363",
            "DCG Lab Hardware > GRIMDAWN > motherboard\n\nMSI X870 Tomahawk",
        ]
        assert writer.run(lambda connection: matching(connection, "chunks_fts", "suitcase locks")) == [1]
        writer.run(lambda connection: connection.execute("UPDATE chunks SET enriched_text = 'Trunk' WHERE id = 1"))
        assert writer.run(lambda connection: matching(connection, "chunks_fts", "suitcase")) == []
        assert writer.run(lambda connection: matching(connection, "chunks_fts", "trunk")) == [1]
        writer.run(lambda connection: connection.execute("DELETE FROM chunks WHERE id = 1"))
        assert writer.run(lambda connection: matching(connection, "chunks_fts", "trunk")) == []
    finally:
        writer.close()


def test_subsequent_startup(tmp_path: Path) -> None:
    database = str(tmp_path / "kb.sqlite3")
    open_old(database).close()
    writer = Writer(database)
    writer.open()
    writer.close()
    again = connect_writer(database, migrations.accept)
    changes = again.total_changes()
    assert migrations.init_schema(again) == []
    assert again.total_changes() == changes
    assert matching(again, "chunks_fts", "suitcase locks") == [1]
    again.close()


def test_search_result_text_field(engine: SimulatedEngine) -> None:
    engine.note(*LOCKS)
    (hit,) = search_record(engine.kb.search("suitcase locks", "lexical"))["hits"]
    assert (hit["text"], hit["title"]) == ("Steve = 363", "Suitcase Locks")
