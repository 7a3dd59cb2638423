"""A migration that ends anywhere is done wholly or not at all, and the next start ends it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from kbsync import failpoints
from kbsync.store import damage, meta, migrations
from kbsync.store.connection import connect_reader, connect_writer
from kbsync.store.writer import Writer
from tests.store.made_documents import matching
from tests.store.test_migrations import contents, open_old

NEWEST = migrations.migrations()[-1][0]
OLDER = range(1, NEWEST)
# Of the statements each such one fails in a run of its own.
_STRIDE = 4
WORDS = ("steve", "suitcase", "依赖")


def made_old(path: str, version: int) -> apsw.Connection:
    """Make a database of an older form, with rows that have come all the way from the first one."""
    connection = open_old(path)
    connection.execute(
        "INSERT INTO sources (path, added_at, last_scan_at) VALUES (x'2f6e', 1.0, 2.0);"
        "INSERT INTO files (source_id, path, path_nfc, size, mtime_ns, ctime_ns, inode, device, document_id, state, "
        "rules, last_seen_at) VALUES (1, x'2f6e2f61', '/n/a', 1, 2, 3, 4, 5, 1, 'indexed', 'r', 1.0);"
        "INSERT INTO jobs (state, kind, source_id, path, priority, sequence, created_at, updated_at) "
        "VALUES ('queued', 'path', 1, x'2f6e2f61', 3, 1.0, 1.0, 1.0);"
        "INSERT INTO events (at, kind, source_id, path) VALUES (1.0, 'indexed', 1, x'2f6e2f61');"
        "INSERT INTO embedders (fingerprint, model_name, dimension, created_at) VALUES ('f', 'm', 2, 1.0);"
        "INSERT INTO meta VALUES ('live_embedder', '1');"
        "CREATE TABLE vectors_1 (chunk_id INTEGER PRIMARY KEY REFERENCES chunks (id), text_hash BLOB NOT NULL, "
        "embedding BLOB NOT NULL) STRICT; INSERT INTO vectors_1 VALUES (1, x'00', x'0000803f00000000')"
    )
    for number, _name, sql in migrations.migrations()[1:version]:
        connection.execute(sql)
        connection.pragma("user_version", number)
    return connection


def whole(connection: apsw.Connection) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, contents(connection)), key=repr)


def after_migrating(path: str, version: int) -> list[tuple[Any, ...]]:
    connection = made_old(path, version)
    migrations.init_schema(connection)
    found = whole(connection)
    connection.close()
    return found


@pytest.mark.parametrize("version", OLDER)
def test_every_older_form_comes_up_with_all_its_rows(database: str, version: int) -> None:
    """D04: a database of any form before becomes the one of today, its rows and words in it."""
    connection = made_old(database, version)
    before = {
        table: connection.execute(f"SELECT count(*) FROM {table}").get
        for table in ("documents", "chunks", "origins", "sources", "files", "jobs", "events", "embedders", "vectors_1")
    }
    ran = migrations.init_schema(connection)
    assert len(ran) == NEWEST - version
    after = {table: connection.execute(f"SELECT count(*) FROM {table}").get for table in before}
    assert after == before
    assert migrations.altered_tables(connection) == []
    assert meta.get(connection, meta.SCHEMA) == str(NEWEST)
    assert all(matching(connection, "chunks_fts", word) for word in WORDS)
    connection.execute("INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('integrity-check', 1)")
    assert connection.execute("PRAGMA integrity_check").get == "ok"
    assert connection.execute("SELECT count(*) FROM pragma_foreign_key_check").get == 0
    connection.close()


def each_statement(path: str, version: int, meet: Callable[[int], None]) -> int:
    """Migrate, calling `meet` with the number of each statement before it runs; return how many there were."""
    connection = made_old(path, version)
    count = 0

    def trace(_cursor: object, _sql: str, _bindings: object) -> bool:
        nonlocal count
        count += 1
        meet(count)
        return True

    connection.exec_trace = trace
    try:
        migrations.init_schema(connection)
    finally:
        connection.exec_trace = None
        connection.close()
    return count


def test_a_migration_that_is_killed_at_any_statement_is_whole_or_not_begun(
    tmp_path: Path, told: Callable[[str], None]
) -> None:
    """D04 and P01: what is on the disk before each statement opens as one form or the next one, and comes up."""
    wanted = after_migrating(str(tmp_path / "clean.sqlite3"), 1)
    forms = {}
    for number in range(1, NEWEST + 1):
        connection = made_old(str(tmp_path / f"form {number}.sqlite3"), number)
        forms[number] = connection.execute("SELECT count(*) FROM sqlite_schema").get
        connection.close()
    path, copy = str(tmp_path / "kb.sqlite3"), str(tmp_path / "copy.sqlite3")

    def killed(_count: int) -> None:
        for ending in damage.COMPANIONS:
            if os.path.exists(path + ending):
                shutil.copy(path + ending, copy + ending)
        reader = connect_reader(copy)
        number = int(reader.pragma("user_version"))
        assert reader.execute("SELECT count(*) FROM sqlite_schema").get == forms[number]
        reader.close()
        writer = Writer(copy)
        writer.open()
        assert writer.run(whole) == wanted
        writer.close()
        for ending in damage.COMPANIONS:
            Path(copy + ending).unlink(missing_ok=True)

    killed_at = each_statement(path, 1, killed)
    told(f"D04: migrations killed at {killed_at} statements, by halves 0")
    assert killed_at > 50


class Failure(Exception):
    """What a statement fails with."""


def test_a_statement_that_fails_undoes_its_migration_and_the_next_start_does_it(tmp_path: Path) -> None:
    """D04: where a statement fails nothing of its migration is kept."""
    wanted = after_migrating(str(tmp_path / "clean.sqlite3"), 1)
    statements = each_statement(str(tmp_path / "counted.sqlite3"), 1, lambda _count: None)
    for failing in range(1, statements + 1, _STRIDE):
        path = str(tmp_path / f"{failing}.sqlite3")

        def fail(count: int, failing: int = failing) -> None:
            if count == failing:
                raise Failure

        with pytest.raises(Failure):
            each_statement(path, 1, fail)
        connection = connect_writer(path, migrations.accept)
        migrations.init_schema(connection)
        assert whole(connection) == wanted
        connection.close()


def test_a_start_that_ends_at_a_named_place_is_repeated(tmp_path: Path) -> None:
    """D04: at every failpoint of a start on an older database, at every pass through it."""
    wanted = after_migrating(str(tmp_path / "clean.sqlite3"), 1)
    passed: list[str] = []
    failpoints.listen(passed.append)
    try:
        after_migrating(str(tmp_path / "counted.sqlite3"), 1)
    finally:
        failpoints.listen(None)
    assert passed
    for failing in range(len(passed)):
        path = str(tmp_path / f"{failing}.sqlite3")
        made_old(path, 1).close()
        seen = 0

        def fail(_name: str, failing: int = failing) -> None:
            nonlocal seen
            seen += 1
            if seen > failing:
                raise Failure

        failpoints.listen(fail)
        try:
            with pytest.raises(Failure):
                Writer(path).open()
        finally:
            failpoints.listen(None)
        writer = Writer(path)
        writer.open()
        assert writer.run(whole) == wanted
        writer.close()
