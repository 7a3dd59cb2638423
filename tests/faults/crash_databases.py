"""What is done to a whole database while the road is broken off: forms, models, backups, repairs; and all scenarios."""

from __future__ import annotations

import contextlib
import hashlib

import apsw

from kbsync.errors import UsageError
from kbsync.interfaces.operations import Operations
from kbsync.store import damage, migrations, vectors
from kbsync.store.connection import Connection, connect_writer
from tests.fakes.backed_up import restored
from tests.fakes.hash_embedder import hash_vectors
from tests.faults.crash_scenarios import (
    DAY,
    Scenario,
    documents_come,
    files_come,
    inbox_is_fed,
    things_are_brought,
)
from tests.faults.crash_stage import DIMENSIONS, Stage
from tests.faults.damaged_library import behind_its_back

_OLD_NOTES = {"Suitcase": "The lock says 363.", "Router": "Restart the modem first.", "Starter": "Feed it every day."}
_FREE_BYTES = 24 << 20
# By then the table of vectors that was replaced is dropped.
_OLD_TABLE_S = 400.0


def library(stage: Stage) -> None:
    """Index some documents of each way in, and end."""
    stage.open()
    files_come(stage)
    inbox_is_fed(stage)
    things_are_brought(stage)
    documents_come(stage)
    stage.engine.settle()
    stage.engine.rescan()
    stage.write("notes/plum.md", "# Damson\n\nIt was a damson after all.\n")
    stage.engine.settle()
    stage.engine.rescan()
    stage.close()


def nothing(_stage: Stage) -> None:
    """Start and settle."""


def library_of_a_dead_process(stage: Stage) -> None:
    """Leave a job that was under way, and copies whose folder was moved since."""
    library(stage)
    stage.outside(
        "INSERT INTO jobs (state, kind, source_id, path, priority, sequence, attempts, lease_until, created_at, "
        "updated_at) SELECT 'processing', 'path', source_id, path, 3, 1, 1, 9e9, 1, 1 FROM files "
        "WHERE CAST(path AS TEXT) LIKE '%quince.txt'; "
        "UPDATE documents SET stored_path = replace(stored_path, '/home/', '/before/')"
    )


# ---- forms ----


def old_form(stage: Stage) -> None:
    """Make a database of the first form, with notes and their vectors."""
    stage.open()
    stage.close()  # for the folders
    path = stage.data / "kb.sqlite3"
    for file in stage.data.glob("kb.sqlite3*"):
        file.unlink()
    with contextlib.closing(connect_writer(str(path), migrations.accept)) as connection:
        number, _name, sql = migrations.migrations()[0]
        connection.execute(sql)
        connection.pragma("application_id", migrations.APPLICATION_ID)
        connection.pragma("user_version", number)
        vectors_of = f"vectors_{_embedder(connection)}"
        for title, text in _OLD_NOTES.items():
            connection.execute(
                "INSERT INTO documents (title, type, content_hash, size_bytes, converter_fingerprint, "
                "chunker_fingerprint, created_at, updated_at) VALUES (?, 'note', ?, 1, 'note-1', 'note-1', 1.0, 1.0)",
                (title, hashlib.sha256(f"{title}\0{text}".encode()).hexdigest()),
            )
            document_id = connection.last_insert_rowid()
            connection.execute(
                "INSERT INTO chunks (document_id, position, text, token_count) VALUES (?, 0, ?, 3)",
                (document_id, text),
            )
            enriched = f"{title}\n\n{text}"
            connection.execute(
                f"INSERT INTO {vectors_of} (chunk_id, text_hash, embedding) VALUES (?, ?, ?)",
                (
                    connection.last_insert_rowid(),
                    vectors.text_hash(enriched),
                    hash_vectors([enriched], DIMENSIONS[0])[0].tobytes(),
                ),
            )
            connection.execute("INSERT INTO origins (document_id, kind, since) VALUES (?, 'note', 1.0)", (document_id,))


def _embedder(connection: Connection) -> int:
    connection.execute(
        "INSERT INTO embedders (fingerprint, model_name, dimension, created_at) VALUES (?, 'hashed words', ?, 1.0)",
        (f"hashed-words-{DIMENSIONS[0]}", DIMENSIONS[0]),
    )
    row = connection.last_insert_rowid()
    connection.execute(
        f"CREATE TABLE vectors_{row} (chunk_id INTEGER PRIMARY KEY REFERENCES chunks (id), "
        "text_hash BLOB NOT NULL, embedding BLOB NOT NULL) STRICT"
    )
    connection.execute(f"CREATE INDEX vectors_{row}_text ON vectors_{row} (text_hash)")
    connection.execute("INSERT INTO meta (key, value) VALUES ('live_embedder', ?)", (str(row),))
    return int(row)


def library_of_other_words(stage: Stage) -> None:
    library(stage)
    stage.outside("UPDATE meta SET value = 'of another version' WHERE key = 'tokenizer'")


# ---- models ----


def another_model(stage: Stage) -> None:
    stage.numbers["dimension"] = DIMENSIONS[1]
    stage.restart()
    stage.engine.settle()
    stage.clock.advance(_OLD_TABLE_S)


def vectors_are_made_anew(stage: Stage) -> None:
    stage.engine.engine.reindexing.begin("vectors")
    stage.engine.settle()
    stage.clock.advance(_OLD_TABLE_S)


# ---- room ----


def what_nothing_holds_is_purged(stage: Stage) -> None:
    stage.clock.advance(10.0)
    stage.engine.kb.retention.purge()


def library_with_much_room(stage: Stage) -> None:
    library(stage)
    stage.outside(f"CREATE TABLE large AS SELECT zeroblob({_FREE_BYTES}) AS bytes; DROP TABLE large")


def room_is_given_back(stage: Stage) -> None:
    stage.engine.kb.compaction.compact()


# ---- backups ----


def a_backup_is_written(stage: Stage) -> None:
    with contextlib.suppress(UsageError):  # it lies there, whole
        Operations(stage.engine.engine, stage.engine.daemon).backup(str(stage.path("backup")))


def a_note_comes_after_it(stage: Stage) -> None:
    # Nobody is promised anything: whoever restores wants what was before.
    stage.engine.kb.adding.add_note("It is in no backup.", "Later")


def the_backup_is_restored(stage: Stage) -> None:
    if stage.is_open:
        stage.close()
    (stage.home / "config.toml").unlink(missing_ok=True)  # as on another machine
    restored(stage.world(), stage.path("backup"))
    stage.open()


# ---- damage ----


# One damage for each step of the repair; the titles and paths are the library's.
_DAMAGES = """
DROP INDEX origins_document;
INSERT INTO chunks_fts (chunks_fts) VALUES ('delete-all');
DELETE FROM names_fts WHERE rowid = (SELECT min(id) FROM names_fts_docsize);
DROP INDEX files_path;
CREATE INDEX files_path ON files (path) WHERE id > 3;
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = 'CREATE INDEX files_path ON files (path)' WHERE name = 'files_path';
PRAGMA writable_schema = RESET;
INSERT INTO vectors_1 SELECT 9999, text_hash, embedding FROM vectors_1 LIMIT 1;
DELETE FROM vectors_1 WHERE chunk_id = (SELECT min(chunk_id) FROM vectors_1);
CREATE TABLE vectors_9 (chunk_id INTEGER PRIMARY KEY, text_hash, embedding);
DELETE FROM origins WHERE document_id = (SELECT id FROM documents WHERE title = 'Recipe');
DELETE FROM files WHERE reason = 'removed_by_you';
UPDATE files SET content_hash = 'abc' WHERE CAST(path AS TEXT) LIKE '%quince.txt';
INSERT INTO jobs (state, kind, source_id, path, priority, sequence, created_at, updated_at)
SELECT 'processing', 'path', source_id, path, 3, 1, 1, 1 FROM files WHERE CAST(path AS TEXT) LIKE '%yield.csv';
UPDATE documents SET state = 'missing' WHERE title = 'manual';
UPDATE documents SET title = 'Desert' WHERE title = 'sort';
INSERT INTO jobs (state, kind, path, priority, sequence, staged_path, created_at, updated_at)
VALUES ('queued', 'staged', CAST('sent.md' AS BLOB), 1, 1, ?, 1, 1);
"""


def damage_much(stage: Stage) -> None:
    """Damage what the check looks at, behind a running daemon's back; once."""
    mark = stage.path("damaged")
    if mark.exists():
        return
    mark.touch()
    with behind_its_back(str(stage.data / "kb.sqlite3")) as connection:
        connection.execute(_DAMAGES, (str(stage.data / "staging" / "sent.md"),))
    content = b"# Found\n\nA copy of which no row tells.\n"
    documents = stage.data / "documents"
    (documents / f"{hashlib.sha256(content).hexdigest()}.md").write_bytes(content)
    (stage.data / "staging" / "left.md").write_bytes(b"left behind")
    for copy in documents.iterdir():
        if b"plan of the orchard" in copy.read_bytes():
            copy.unlink()
            copy.write_bytes(b"The plan of the orchard, and then the disk failed")


def library_that_something_was_taken_out_of(stage: Stage) -> None:
    library(stage)
    stage.open()
    [twin] = [document.id for document, _paths in stage.engine.kb.documents()[0] if document.title == "Twin"]
    stage.engine.kb.remove_document(twin)
    stage.engine.settle()
    stage.close()


def much_is_damaged_and_repaired(stage: Stage) -> None:
    damage_much(stage)
    Operations(stage.engine.engine, stage.engine.daemon).check(repair=True)


def full_text_is_repaired_at_once(stage: Stage) -> None:
    stage.engine.engine.writer.index_damaged.set()
    stage.engine.kb.checkup.mend_full_text()


def library_with_a_damaged_file(stage: Stage) -> None:
    """Overwrite a page of the database, as a failing disk does."""
    library(stage)
    path = stage.data / "kb.sqlite3"
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        page, size = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'files'").get, 4096
        assert connection.pragma("page_size") == size
    content = bytearray(path.read_bytes())
    content[(page - 1) * size : page * size] = b"\xaa" * size
    path.write_bytes(content)
    damage.suspect(str(path), "a page of it is damaged")


SCENARIOS = (
    *DAY,
    Scenario("after a crash", (nothing,), prepare=library_of_a_dead_process),
    Scenario("old form", (nothing,), prepare=old_form),
    Scenario("other words", (nothing,), prepare=library_of_other_words),
    Scenario(
        "another model",
        (another_model, vectors_are_made_anew),
        prepare=library,
        embedded_again=64,
    ),
    Scenario("purge", (what_nothing_holds_is_purged,), prepare=library, removes=True),
    Scenario("compaction", (room_is_given_back,), prepare=library_with_much_room),
    Scenario(
        "backup",
        (a_backup_is_written, a_note_comes_after_it, the_backup_is_restored),
        prepare=library,
        removes=True,
    ),
    Scenario(
        "repair",
        (much_is_damaged_and_repaired, full_text_is_repaired_at_once),
        prepare=library_that_something_was_taken_out_of,
        mends=True,
    ),
    Scenario("rebuild", (nothing,), prepare=library_with_a_damaged_file, mends=True),
)
