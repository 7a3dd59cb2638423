"""A database is looked at before it is opened: what is damaged, foreign, newer or no file at all is told apart."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import apsw
import pytest

from kbsync.errors import RetryLater, StopEngine
from kbsync.store import damage, meta, migrations
from kbsync.store.connection import connect_writer
from kbsync.store.soundness import Verdict, look
from kbsync.store.writer import Writer
from tests.store.made_documents import made_update, write_document

NOW = 1000.0
# Endings of the files of a database that is in use.
IN_USE = ("", "-wal", "-shm")
FINE = Verdict()


def closed_database(path: str, documents: int = 30) -> None:
    writer = Writer(path)
    writer.open()
    for number in range(documents):
        update = made_update(f"{number:064}", f"text {number} " + "word " * 100)
        writer.run(partial(write_document, update=update, path=f"/n/{number}.md"))
    writer.close()
    damage.opened(path, NOW)
    damage.closed(path)


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = str(tmp_path / "kb.sqlite3")
    closed_database(path)
    return path


def left_open(path: str, copy: str) -> None:
    """Copy a database as a process leaves it that is killed: its last commits are in the log only."""
    connection = connect_writer(path, migrations.accept)
    for number in range(20):
        meta.put(connection, f"late {number}", "x" * 500)
    for ending in IN_USE:
        shutil.copy(path + ending, copy + ending)
    connection.close()


def digests(path: str) -> dict[str, str]:
    """Return the SHA-256 of each of a database's files."""
    found = [path + ending for ending in IN_USE if os.path.exists(path + ending)]
    return {name: hashlib.sha256(Path(name).read_bytes()).hexdigest() for name in found}


def test_a_whole_database_is_fine_also_when_every_page_is_read(database: str) -> None:
    assert look(database, NOW) == FINE
    damage.suspect(database, "malformed")
    assert look(database, NOW) == Verdict(cleared="malformed")


def test_no_database_is_fine(tmp_path: Path) -> None:
    assert look(str(tmp_path / "kb.sqlite3"), NOW) == FINE


def text(path: Path) -> None:
    path.write_bytes(b"This was a shopping list.\n" * 400)


def other_magic(path: Path) -> None:
    path.write_bytes(b"sQLite" + path.read_bytes()[6:])


def minus_one_byte(path: Path) -> None:
    os.truncate(path, os.path.getsize(path) - 1)


def minus_a_page(path: Path) -> None:
    os.truncate(path, os.path.getsize(path) - 4096)


def half(path: Path) -> None:
    os.truncate(path, 4096 * (os.path.getsize(path) // 8192))


def empty(path: Path) -> None:
    os.truncate(path, 0)


def header_alone(path: Path) -> None:
    os.truncate(path, 100)


@pytest.mark.parametrize("spoil", [text, other_magic, minus_one_byte, minus_a_page, half, empty, header_alone])
def test_a_file_that_was_cut_off_or_written_over_is_damaged(database: str, spoil: Callable[[Path], None]) -> None:
    """D02: a database that is cut off by a byte, a page or to nothing, or text in its place, is named, not replaced."""
    spoil(Path(database))
    before = Path(database).read_bytes()
    assert look(database, NOW).damaged
    assert Path(database).read_bytes() == before


def test_an_empty_file_where_none_was_made_before_is_a_new_database(tmp_path: Path) -> None:
    path = tmp_path / "kb.sqlite3"
    path.touch()
    assert look(str(path), NOW) == FINE


@pytest.mark.parametrize("ending", damage.COMPANIONS)
@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: os.mkfifo(path)])
def test_what_is_no_file_is_refused(tmp_path: Path, make: Callable[[Path], None], ending: str) -> None:
    """D02 and D03: a folder in the place of the database, or of its log, is named and left alone."""
    path = tmp_path / "kb.sqlite3"
    if ending:
        closed_database(str(path))
    make(tmp_path / f"kb.sqlite3{ending}")
    with pytest.raises(StopEngine, match=rf"{ending} is (a folder|no file)\. Move it away"):
        look(str(path), NOW)


@pytest.mark.parametrize("ending", damage.COMPANIONS)
@pytest.mark.parametrize("target", ["away/kb.sqlite3", "kb.sqlite3"])
def test_a_link_that_leads_nowhere_is_named(tmp_path: Path, target: str, ending: str) -> None:
    """D02: its disk may only be away: no other database is made in its place."""
    path = tmp_path / "kb.sqlite3"
    if ending:
        closed_database(str(path))
    os.symlink(tmp_path / f"{target}{ending}", tmp_path / f"kb.sqlite3{ending}")
    with pytest.raises(StopEngine, match=rf"{target}{ending}, which cannot be reached"):
        look(str(path), NOW)


@pytest.mark.parametrize(
    ("offset", "value"),
    [(18, 3), (19, 7), (20, 8), (21, 65), (47, 5), (44, 1), (55, 1), (52, 4), (59, 3), (60, 1), (63, 1), (68, 0x0B)],
)
def test_a_header_that_says_what_cannot_be_is_damaged(database: str, offset: int, value: int) -> None:
    """D01: a wrong bit in the header is no other program's database, no newer one and no older one."""
    content = bytearray(Path(database).read_bytes())
    assert content[offset] != value
    content[offset] = value
    Path(database).write_bytes(content)
    assert look(database, NOW).damaged


def test_a_table_of_another_name_is_damage(database: str) -> None:
    content = Path(database).read_bytes()
    Path(database).write_bytes(content.replace(b"CREATE TABLE documents", b"CREATE TABLE eocuments"))
    assert "documents" in str(look(database, NOW).damaged)


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("UPDATE files SET reason = 'ignoreg'", "reason"),
        ("UPDATE documents SET metadata = '{'", "metadata"),
        ("UPDATE documents SET title = CAST(x'ff' AS TEXT)", "utf-8"),
    ],
)
def test_what_nobody_can_have_written_is_found_once_something_is_suspected(database: str, sql: str, names: str) -> None:
    connection = apsw.Connection(database)
    connection.execute(
        "INSERT INTO sources (path, added_at) VALUES (x'2f', 1); INSERT INTO files (source_id, path, path_nfc, state, "
        "rules, last_seen_at) VALUES (1, x'2f', '/', 'skipped', '', 1)"
    )
    connection.execute(sql)
    connection.close()
    assert look(database, NOW) == FINE
    damage.suspect(database, "a loop ended", is_told=False)
    assert names in str(look(database, NOW).damaged)


def test_a_look_at_every_page_ends_when_the_process_is_to_end(database: str) -> None:
    writer = Writer(database)
    writer.open()
    for number in range(2000):
        writer.run(partial(meta.put, key=f"many {number}", value="x" * 100))
    writer.close()
    damage.suspect(database, "malformed")
    with pytest.raises(RetryLater, match="stopping"):
        look(database, NOW, lambda: True)
    assert damage.is_noted(database)


def test_what_is_suspected_again_and_again_is_damaged_at_last(database: str) -> None:
    for _ in range(2):
        damage.suspect(database, "malformed")
        assert look(database, NOW) == Verdict(cleared="malformed")
        damage.clear(database, NOW)
    damage.suspect(database, "malformed")
    assert "again and again" in str(look(database, NOW).damaged)


# ---- write-ahead logs ----


def test_a_log_that_a_killed_process_left_is_recovered(database: str, tmp_path: Path) -> None:
    """D03: what was committed to the log before SIGKILL is there at the next start."""
    copy = str(tmp_path / "killed" / "kb.sqlite3")
    os.mkdir(os.path.dirname(copy))
    left_open(database, copy)
    assert look(copy, NOW) == FINE
    writer = Writer(copy)
    writer.open()
    assert writer.run(lambda connection: meta.get(connection, "late 19")) == "x" * 500
    writer.close()


def test_a_log_without_its_database_is_set_aside(database: str, tmp_path: Path) -> None:
    """D03: a log that lies where no database is belongs to none."""
    copy = str(tmp_path / "killed.sqlite3")
    left_open(database, copy)
    os.unlink(copy)
    assert look(copy, NOW) == Verdict(foreign_log=True)


def test_an_empty_file_with_a_log_is_damaged(database: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "killed.sqlite3")
    left_open(database, copy)
    os.truncate(copy, 0)
    size = os.path.getsize(copy + "-wal")
    assert look(copy, NOW).damaged
    assert os.path.getsize(copy + "-wal") == size


@pytest.mark.parametrize("documents", [0, 30, 200])
def test_a_log_of_another_database_is_told_from_its_own(database: str, tmp_path: Path, documents: int) -> None:
    """D03: frames of another database beside one that was closed cleanly are not taken for its own."""
    other, copy = str(tmp_path / "other.sqlite3"), str(tmp_path / "copy.sqlite3")
    writer = Writer(other)
    writer.open()
    for number in range(documents):
        update = made_update(f"{number:064}", f"others {number} " + "word " * 300)
        writer.run(partial(write_document, update=update))
    for ending in IN_USE:
        shutil.copy(other + ending, copy + ending)
    writer.close()
    shutil.copy(copy + "-wal", database + "-wal")
    before = Path(database).read_bytes()
    verdict = look(database, NOW)
    assert verdict.foreign_log
    assert verdict.damaged is None
    assert Path(database).read_bytes() == before


def test_a_log_whose_salt_is_another_one_changes_nothing(database: str, tmp_path: Path) -> None:
    """D03: SQLite leaves out frames that are not of the log's own round."""
    other, copy = str(tmp_path / "other.sqlite3"), str(tmp_path / "copy.sqlite3")
    closed_database(other, 1)
    left_open(other, copy)
    content = bytearray(Path(copy + "-wal").read_bytes())
    content[16] ^= 0xFF
    damage.opened(database, NOW)  # its own process was killed
    Path(database + "-wal").write_bytes(content)
    before = Path(database).read_bytes()
    assert look(database, NOW) == FINE
    writer = Writer(database)
    writer.open()
    assert writer.run(lambda connection: meta.get(connection, "late 19")) is None
    assert writer.run(lambda connection: connection.execute("PRAGMA integrity_check").get) == "ok"
    writer.close()
    assert Path(database).read_bytes()[:18] == before[:18]


@pytest.mark.parametrize("content", [b"", b"garbage" * 5000, b"\0" * 32768])
def test_an_index_of_the_log_that_is_garbage_is_made_anew(database: str, tmp_path: Path, content: bytes) -> None:
    """D03: what a -shm says is never believed after a crash."""
    copy = str(tmp_path / "copy.sqlite3")
    left_open(database, copy)
    Path(copy + "-shm").write_bytes(content)
    assert look(copy, NOW) == FINE
    writer = Writer(copy)
    writer.open()
    assert writer.run(lambda connection: meta.get(connection, "late 19")) == "x" * 500
    writer.close()


def test_a_log_that_belongs_to_a_folder_that_was_copied_is_recovered(database: str, tmp_path: Path) -> None:
    """D03: another inode is no other database, where every page of it fits the log."""
    copy = str(tmp_path / "copied" / "kb.sqlite3")
    os.mkdir(os.path.dirname(copy))
    damage.opened(database, NOW)
    left_open(database, copy)
    shutil.copy(tmp_path / "kb.mark", os.path.dirname(copy))
    assert look(copy, NOW) == FINE


def test_a_database_that_was_put_beside_a_log_is_told_from_the_one_that_the_log_is_of(
    database: str, tmp_path: Path
) -> None:
    """D03: an older copy put back beside the log of a killed process is taken alone."""
    older = str(tmp_path / "older.sqlite3")
    shutil.copy(database, older)
    writer = Writer(database)
    writer.open()
    for number in range(300):
        update = made_update(f"{number + 500:064}", f"later {number} " + "word " * 300)
        writer.run(partial(write_document, update=update))
    damage.opened(database, NOW)
    shutil.copy(database + "-wal", older + "-wal")
    writer.close()
    shutil.move(older, database)
    shutil.move(older + "-wal", database + "-wal")
    assert look(database, NOW) in (FINE, Verdict(foreign_log=True))
    if look(database, NOW) == FINE:  # the log holds every page that changed since
        writer.open()
        assert writer.run(lambda connection: connection.execute("PRAGMA integrity_check").get) == "ok"
        writer.close()


# ---- newer, foreign ----


@pytest.mark.parametrize("with_log", [False, True])
def test_a_newer_database_is_refused_and_no_byte_of_it_changes(database: str, tmp_path: Path, with_log: bool) -> None:
    """D04: an old program leaves the database of a newer one alone, its log included."""
    connection = connect_writer(database, migrations.accept)
    newest = migrations.migrations()[-1][0]
    connection.execute(f"PRAGMA user_version = {newest + 1}; CREATE TABLE news (id INTEGER)")
    meta.put(connection, meta.SCHEMA, str(newest + 1))
    copy = str(tmp_path / "copy.sqlite3")
    if not with_log:
        connection.close()
    for ending in IN_USE:
        if os.path.exists(database + ending):
            shutil.copy(database + ending, copy + ending)
    before = {name: digest for name, digest in digests(copy).items() if not name.endswith("-shm")}
    with pytest.raises(StopEngine, match=str(newest + 1)):
        look(copy, NOW)
    with pytest.raises(StopEngine, match=str(newest + 1)):
        Writer(copy).open()
    assert {name: digest for name, digest in digests(copy).items() if name in before} == before
    connection.close()


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kb.sqlite3"
    foreign = apsw.Connection(str(path))
    foreign.execute("CREATE TABLE meta (key TEXT, content TEXT); CREATE TABLE bookmarks (url TEXT)")
    foreign.close()
    before = path.read_bytes()
    with pytest.raises(StopEngine, match="another program"):
        look(str(path), NOW)
    assert path.read_bytes() == before


def test_what_was_broken_off_while_it_went_over_to_its_log_is_undone(database: str, tmp_path: Path) -> None:
    """P13: a restored database, or a new one, whose power went in that moment; whoever only reads cannot open it."""
    connection = apsw.Connection(database)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("PRAGMA cache_size = 2; BEGIN IMMEDIATE; UPDATE documents SET created_at = 7")
    connection.cache_flush()
    broken_off = str(tmp_path / "broken-off.sqlite3")
    for ending in ("", "-journal"):
        shutil.copy(database + ending, broken_off + ending)
    connection.execute("ROLLBACK")
    connection.close()
    assert look(broken_off, NOW) == FINE
    assert not os.path.exists(broken_off + "-journal")
    with closing(apsw.Connection(broken_off)) as after:
        assert after.execute("SELECT DISTINCT created_at FROM documents").fetchall() != [(7.0,)]


@pytest.mark.parametrize("ending", ["", "-shm"])
@pytest.mark.parametrize("refused", [os.R_OK, os.W_OK])
def test_a_file_that_may_not_be_read_or_written_is_named_and_no_damaged_one(
    database: str, ending: str, refused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(database + ending).touch()
    monkeypatch.setattr(os, "access", lambda path, mode: not (path == database + ending and mode & refused))
    with pytest.raises(StopEngine, match=f"kb.sqlite3{ending} may not be read and written by this user"):
        look(database, 0.0)
