"""Every kind of damage to a good database is named; a good one has none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kbsync.knowledge_base import integrity
from kbsync.store.connection import Connection
from kbsync.store.writer import Writer
from tests.store.made_documents import made_update, write_document

NAN = np.full(16, np.nan, dtype=np.float32).tobytes()
ZERO = np.zeros(16, dtype=np.float32).tobytes()
LARGE = np.full(16, np.inf, dtype=np.float32).tobytes()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    writer = Writer(str(tmp_path / "kb.sqlite3"))
    writer.open()
    writer.run(lambda connection: write_document(connection, made_update("h1", "apples", "pears"), "/notes/a.md"))
    writer.run(lambda connection: write_document(connection, made_update("h2", "plums"), "/notes/b.md"))
    yield writer
    writer.close()


def damage(writer: Writer, statement: str, bindings: tuple[bytes, ...]) -> None:
    """Change the database as another program might, behind every guard of ours."""
    # Foreign keys can be switched off outside a transaction only.
    connections: list[Connection] = []
    writer.run(connections.append)
    connections[0].execute("PRAGMA foreign_keys = OFF")
    connections[0].execute(statement, bindings)
    connections[0].execute("PRAGMA foreign_keys = ON")


def kinds(writer: Writer) -> dict[str, int]:
    def check(connection: Connection) -> dict[str, int]:
        return {problem.kind: problem.count for problem in integrity.check(connection)}

    return writer.run(check)


def test_a_good_database_has_no_problem(writer: Writer) -> None:
    assert kinds(writer) == {}


@pytest.mark.parametrize(
    ("statement", "bindings", "expected"),
    [
        (
            "INSERT INTO chunks_fts (chunks_fts, rowid, enriched_text) "
            "SELECT 'delete', id, enriched_text FROM chunks WHERE id = 1",
            (),
            {"fts": 1, "fts_missing": 1},
        ),
        (
            "DROP TRIGGER chunks_fts_update; UPDATE chunks SET enriched_text = 'behind' WHERE id = 1",
            (),
            {"fts": 1},
        ),
        ("INSERT INTO chunks_fts (rowid, enriched_text) VALUES (99, 'ghost')", (), {"fts": 1, "fts_extra": 1}),
        ("DELETE FROM vectors_1 WHERE chunk_id < 3", (), {"vectors_missing": 2}),
        ("UPDATE vectors_1 SET embedding = ? WHERE chunk_id = 1", (NAN,), {"vectors_bad": 1}),
        ("UPDATE vectors_1 SET embedding = ? WHERE chunk_id = 1", (ZERO,), {"vectors_bad": 1}),
        ("UPDATE vectors_1 SET embedding = ? WHERE chunk_id = 1", (LARGE,), {"vectors_bad": 1}),
        ("UPDATE vectors_1 SET embedding = x'00ff' WHERE chunk_id = 1", (), {"vectors_bad": 1}),
        (
            "INSERT INTO vectors_1 SELECT 99, text_hash, embedding FROM vectors_1 WHERE chunk_id = 1",
            (),
            {"vectors_extra": 1, "foreign_keys": 1},
        ),
        ("DELETE FROM origins WHERE document_id = 2", (), {"names": 1, "documents_unexplained": 1}),
        ("DELETE FROM names_fts WHERE rowid = 1", (), {"names": 1}),
        ("DELETE FROM documents WHERE id = 2", (), {"foreign_keys": 2}),
    ],
    ids=[
        "full-text row dropped",
        "chunk changed behind the trigger",
        "full-text row without chunk",
        "vectors removed",
        "nan vector",
        "zero vector",
        "infinite vector",
        "short vector",
        "orphan vector",
        "document without origin",
        "name lost",
        "document gone",
    ],
)
def test_each_damage_is_named_and_counted(
    writer: Writer, statement: str, bindings: tuple[bytes, ...], expected: dict[str, int]
) -> None:
    damage(writer, statement, bindings)
    assert kinds(writer) == expected
