"""The damages of T11: what is done to a good library, and the kinds by which the check must name it, no other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw
import numpy as np

from tests.fakes.simulated_engine import NOTES, SimulatedEngine
from tests.faults.damaged_library import Mutation


def _set_vector(vector: np.ndarray) -> Callable[[SimulatedEngine, apsw.Connection], None]:
    blob = vector.astype(np.float32).tobytes()

    def set_it(_engine: SimulatedEngine, connection: apsw.Connection) -> None:
        connection.execute(
            "UPDATE vectors_1 SET embedding = ? WHERE chunk_id = (SELECT min(chunk_id) FROM vectors_1)", (blob,)
        )

    return set_it


def _stored(engine: SimulatedEngine, name: str) -> Path:
    (path,) = engine.read("SELECT stored_path FROM documents WHERE original_filename = ?", name)[0]
    return Path(path)


def _lose_copy(engine: SimulatedEngine, _connection: apsw.Connection) -> None:
    _stored(engine, "letter.md").unlink()


def _spoil_copy(engine: SimulatedEngine, _connection: apsw.Connection) -> None:
    path = _stored(engine, "letter.md")
    path.write_bytes(path.read_bytes().replace(b"hand", b"land"))


def _spoil_only_copy(engine: SimulatedEngine, _connection: apsw.Connection) -> None:
    _stored(engine, "sent.md").write_bytes(b"# Sent\n\nWhat is it?")


def _leave_staged(engine: SimulatedEngine, _connection: apsw.Connection) -> None:
    Path(engine.world.locations.staging_dir, "left.md").write_text("half of it")


def _spoil_conversion(engine: SimulatedEngine, _connection: apsw.Connection) -> None:
    first = min(Path(engine.world.locations.conversions_dir).iterdir())
    first.write_bytes(first.read_bytes()[:-7])


def _lose_staged(engine: SimulatedEngine, _connection: apsw.Connection) -> None:
    engine.kb.adding.add_note("It gets lost on its way.", None)
    for staged in Path(engine.world.locations.staging_dir).iterdir():
        staged.unlink()


def _redirect_index(_engine: SimulatedEngine, connection: apsw.Connection) -> None:
    (sql,) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'files_path'").fetchall()[0]
    connection.execute("DROP INDEX files_path; CREATE INDEX files_path ON files (path) WHERE id > 3")
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'files_path'", (sql,))
    connection.execute("PRAGMA writable_schema = RESET")


def _ghost(engine: SimulatedEngine, connection: apsw.Connection) -> None:
    connection.execute(
        "INSERT INTO origins (document_id, kind, source_id, path, since) "
        "SELECT document_id, 'path', source_id, ?, 1 FROM origins WHERE path = ? AND live = 1",
        (f"{NOTES}/never.md".encode(), f"{NOTES}/plain.txt".encode()),
    )


_OF = "(SELECT id FROM documents WHERE title = '{}' AND state = 'current')"
_ORCHARD, _PLAIN, _LETTER, _THOUGHT, _BUY = (
    _OF.format(title)
    for title in ("Orchard", "plain", "Letter", "A thought that is nowhere else. It has two parts.", "To buy")
)
_PATH = f"CAST('{NOTES}/{{}}' AS BLOB)"
_PLAIN_PATH, _SAME_PATH = _PATH.format("plain.txt"), _PATH.format("same.md")
_UPDATE_TRIGGER = (
    "CREATE TRIGGER chunks_fts_update AFTER UPDATE OF enriched_text ON chunks BEGIN\n"
    "    INSERT INTO chunks_fts (chunks_fts, rowid, enriched_text) VALUES ('delete', old.id, old.enriched_text);\n"
    "    INSERT INTO chunks_fts (rowid, enriched_text) VALUES (new.id, new.enriched_text);\nEND"
)


def _of(*kinds: str) -> frozenset[str]:
    return frozenset(kinds)


MUTATIONS: tuple[Mutation, ...] = (
    # ---- full text and names (D06) ----
    Mutation(
        "full-text row deleted",
        "INSERT INTO chunks_fts (chunks_fts, rowid, enriched_text) SELECT 'delete', id, enriched_text FROM chunks "
        "WHERE id = (SELECT min(id) FROM chunks)",
        _of("fts", "fts_missing"),
    ),
    Mutation(
        "full-text row deleted with a wrong text",
        "INSERT INTO chunks_fts (chunks_fts, rowid, enriched_text) "
        "VALUES ('delete', (SELECT min(id) FROM chunks), 'quite another text')",
        _of("fts", "fts_missing"),
    ),
    Mutation(
        "full-text row of nothing",
        "INSERT INTO chunks_fts (rowid, enriched_text) VALUES (9999, 'ghost')",
        _of("fts", "fts_extra", "row_ids"),
    ),
    Mutation(
        "text changed behind the trigger",
        "DROP TRIGGER chunks_fts_update; UPDATE chunks SET enriched_text = enriched_text || ' behind' "
        f"WHERE document_id = {_PLAIN}; {_UPDATE_TRIGGER}",
        _of("fts", "texts", "vectors_stale"),
        embedded=1,
    ),
    Mutation("full-text data emptied", "DELETE FROM chunks_fts_data", _of("fts")),
    Mutation("full-text structure spoilt", "UPDATE chunks_fts_data SET block = x'00010203' WHERE id = 10", _of("fts")),
    Mutation("full-text part dropped", "DROP TABLE chunks_fts_config", _of("schema")),
    Mutation("full-text table dropped", "DROP TABLE chunks_fts", _of("schema")),
    Mutation(
        "name deleted", "DELETE FROM names_fts WHERE rowid = (SELECT min(id) FROM names_fts_docsize)", _of("names")
    ),
    Mutation(
        "name of another file",
        "DELETE FROM names_fts WHERE rowid = (SELECT max(id) FROM origins WHERE path IS NOT NULL AND live = 1); "
        "INSERT INTO names_fts (rowid, name) SELECT max(id), 'somebody else' FROM origins WHERE path IS NOT NULL "
        "AND live = 1",
        _of("names"),
    ),
    Mutation("names dropped", "DROP TABLE names_fts", _of("schema")),
    Mutation("names of an unknown form", "DELETE FROM names_fts_config", _of("names")),
    Mutation("full text of an unknown form", "DELETE FROM chunks_fts_config", _of("fts")),
    Mutation("other words", "UPDATE meta SET value = '0/1.0' WHERE key = 'tokenizer'", _of("tokenizer")),
    # ---- the form of the database ----
    Mutation("trigger dropped", "DROP TRIGGER chunks_fts_insert", _of("schema")),
    Mutation(
        "trigger that does nothing",
        "DROP TRIGGER chunks_fts_delete; CREATE TRIGGER chunks_fts_delete AFTER DELETE ON chunks BEGIN SELECT 1; END",
        _of("schema"),
    ),
    Mutation(
        "trigger of another program",
        "CREATE TRIGGER foreign_one AFTER INSERT ON documents BEGIN DELETE FROM events; END",
        _of("schema"),
    ),
    Mutation("index dropped", "DROP INDEX origins_document", _of("schema")),
    Mutation("index without rows", _redirect_index, _of("indexes")),
    Mutation("history dropped", "DROP TABLE events", _of("schema")),
    Mutation("numbers begin again", "UPDATE sqlite_sequence SET seq = 1 WHERE name = 'chunks'", _of("row_ids")),
    # ---- vectors (D07, D09) ----
    Mutation(
        "vectors deleted",
        f"DELETE FROM vectors_1 WHERE chunk_id IN (SELECT id FROM chunks WHERE document_id = {_PLAIN})",
        _of("vectors_missing"),
        embedded=1,
    ),
    Mutation(
        "vector of nothing",
        "INSERT INTO vectors_1 SELECT 9999, text_hash, embedding FROM vectors_1 LIMIT 1",
        _of("vectors_extra", "foreign_keys", "row_ids"),
    ),
    Mutation("vector that is no number", _set_vector(np.full(16, np.nan)), _of("vectors_bad"), embedded=1),
    Mutation("infinite vector", _set_vector(np.full(16, np.inf)), _of("vectors_bad"), embedded=1),
    Mutation("vector of zeros", _set_vector(np.zeros(16)), _of("vectors_bad"), embedded=1),
    Mutation("short vector", _set_vector(np.ones(3)), _of("vectors_bad"), embedded=1),
    Mutation(
        "vector of another text",
        f"UPDATE vectors_1 SET text_hash = randomblob(32) WHERE chunk_id = "
        f"(SELECT id FROM chunks WHERE document_id = {_PLAIN})",
        _of("vectors_stale"),
        embedded=1,
    ),
    Mutation("vectors dropped", "DROP TABLE vectors_1", _of("vector_tables"), embedded=1000),
    Mutation("embedder deleted", "DELETE FROM embedders", _of("vector_tables"), embedded=1000),
    Mutation("another model live", "UPDATE meta SET value = '7' WHERE key = 'live_embedder'", _of("vector_tables")),
    Mutation("no model live", "DELETE FROM meta WHERE key = 'live_embedder'", _of("vector_tables")),
    Mutation("another dimension", "UPDATE embedders SET dimension = 17", _of("vector_tables", "vectors_bad")),
    Mutation(
        "vectors of nobody",
        "CREATE TABLE vectors_9 (chunk_id INTEGER PRIMARY KEY, text_hash, embedding)",
        _of("vector_tables"),
    ),
    Mutation("index of vectors dropped", "DROP INDEX vectors_1_text", _of("vector_tables")),
    # ---- documents ----
    Mutation(
        "origin of a file deleted",
        f"DELETE FROM origins WHERE document_id = {_PLAIN}",
        _of("documents_unexplained", "names", "paths_missing"),
    ),
    Mutation(
        "origin of what was brought deleted",
        f"DELETE FROM origins WHERE document_id = {_LETTER}",
        _of("documents_unexplained", "names"),
    ),
    Mutation(
        "origin of a note deleted", f"DELETE FROM origins WHERE document_id = {_BUY}", _of("documents_unexplained")
    ),
    Mutation("document deleted", f"DELETE FROM documents WHERE id = {_PLAIN}", _of("foreign_keys", "ledger")),
    Mutation("note deleted", f"DELETE FROM documents WHERE id = {_BUY}", _of("foreign_keys")),
    Mutation(
        "note deleted with its origin",
        f"DELETE FROM origins WHERE document_id = {_THOUGHT}; DELETE FROM documents WHERE id = {_THOUGHT}",
        _of("foreign_keys"),
    ),
    Mutation(
        "chunk deleted",
        f"DELETE FROM chunks WHERE document_id = {_ORCHARD} AND position = 1",
        _of("chunks_missing", "vectors_extra", "foreign_keys"),
    ),
    Mutation(
        "last chunk deleted",
        f"DELETE FROM chunks WHERE document_id = {_ORCHARD} AND position = "
        f"(SELECT max(position) FROM chunks WHERE document_id = {_ORCHARD})",
        _of("vectors_extra", "foreign_keys"),
    ),
    Mutation(
        "all chunks deleted",
        f"DELETE FROM vectors_1 WHERE chunk_id IN (SELECT id FROM chunks WHERE document_id = {_LETTER}); "
        f"DELETE FROM chunks WHERE document_id = {_LETTER}",
        _of("chunks_missing"),
        embedded=1,
    ),
    Mutation(
        "older version without its text",
        "DELETE FROM vectors_1 WHERE chunk_id IN (SELECT chunks.id FROM chunks JOIN documents ON documents.id = "
        "document_id WHERE state = 'superseded'); DELETE FROM chunks WHERE document_id IN "
        "(SELECT id FROM documents WHERE state = 'superseded')",
        _of("chunks_missing"),
    ),
    Mutation("title changed", f"UPDATE documents SET title = 'Desert' WHERE id = {_ORCHARD}", _of("texts")),
    Mutation(
        "text changed",
        f"UPDATE chunks SET text = 'x' || text WHERE document_id = {_ORCHARD} AND position = 0",
        _of("texts"),
    ),
    Mutation(
        "text changed through the trigger",
        f"UPDATE chunks SET text = 'x' || text, enriched_text = replace(enriched_text, text, 'x' || text) "
        f"WHERE document_id = {_PLAIN}",
        _of("vectors_stale"),
        embedded=1,
    ),
    Mutation(
        "section changed",
        f"UPDATE chunks SET metadata = json_set(metadata, '$.section_header', 'Spring') WHERE document_id = {_ORCHARD} "
        "AND position = 2",
        _of("texts"),
    ),
    Mutation("metadata spoilt", f"UPDATE chunks SET metadata = '{{\"kind' WHERE document_id = {_LETTER}", _of("texts")),
    Mutation(
        "text of a note changed", f"UPDATE chunks SET text = 'forgotten' WHERE document_id = {_THOUGHT}", _of("texts")
    ),
    Mutation("title of a note changed", f"UPDATE documents SET title = 'To sell' WHERE id = {_BUY}", _of("texts")),
    Mutation("document hidden", f"UPDATE documents SET state = 'missing' WHERE id = {_PLAIN}", _of("documents_state")),
    Mutation(
        "older version shown",
        "UPDATE documents SET state = 'current' WHERE state = 'superseded'",
        _of("documents_state"),
    ),
    # ---- the ledger of paths ----
    Mutation("path forgotten", f"DELETE FROM files WHERE path = {_PLAIN_PATH}", _of("paths_ghost")),
    Mutation("exclusion forgotten", "DELETE FROM files WHERE reason = 'removed_by_you'", _of("exclusions")),
    Mutation("path of nothing", _ghost, _of("paths_ghost", "names")),
    Mutation("origin ended", f"UPDATE origins SET live = 0 WHERE path = {_SAME_PATH}", _of("paths_missing", "names")),
    Mutation(
        "another hash in the ledger", f"UPDATE files SET content_hash = 'abc' WHERE path = {_PLAIN_PATH}", _of("ledger")
    ),
    Mutation(
        "another document in the ledger",
        f"UPDATE files SET document_id = {_ORCHARD} WHERE path = {_PLAIN_PATH}",
        _of("ledger"),
    ),
    Mutation(
        "path of no folder",
        f"UPDATE files SET source_id = 99 WHERE path = {_PLAIN_PATH}",
        _of("foreign_keys", "paths_ghost"),
    ),
    Mutation(
        "two documents at a path",
        "DROP INDEX origins_live_path; INSERT INTO origins (document_id, kind, source_id, path, since) "
        f"SELECT {_ORCHARD}, kind, source_id, path, 1 FROM origins WHERE path = {_PLAIN_PATH} AND live = 1",
        _of("schema", "paths_twice", "names"),
    ),
    # ---- the queue ----
    Mutation(
        "two jobs for a path",
        "DROP INDEX jobs_live_path; INSERT INTO jobs (state, kind, source_id, path, priority, sequence, created_at, "
        "updated_at) SELECT 'queued', 'path', source_id, path, 3, 1, 1, 1 FROM files JOIN (VALUES (1), (2)) "
        f"WHERE path = {_PLAIN_PATH}",
        _of("schema", "jobs_twice"),
    ),
    Mutation(
        "job of nobody",
        "INSERT INTO jobs (state, kind, source_id, path, priority, sequence, created_at, updated_at) "
        f"SELECT 'processing', 'path', source_id, path, 3, 1, 1, 1 FROM files WHERE path = {_PLAIN_PATH}",
        _of("jobs_stuck"),
    ),
    Mutation("staged copy lost", _lose_staged, _of("staged_gone")),
    # ---- files of our own ----
    Mutation("stored copy lost", _lose_copy, _of("stored_gone")),
    Mutation("stored copy changed", _spoil_copy, _of("stored_damaged")),
    Mutation("only copy changed", _spoil_only_copy, _of("stored_damaged"), left=_of("stored_gone")),
    Mutation(
        "stored copy forgotten",
        f"UPDATE documents SET stored_path = NULL WHERE id = {_LETTER}",
        _of("stored_unclaimed"),
    ),
    Mutation("staged copy of no job", _leave_staged, _of("staging")),
    Mutation("kept conversion cut off", _spoil_conversion, _of("conversions")),
)
