"""Rows are read from a database's pages as SQLite reads them, and around what is damaged."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbsync.store import migrations
from kbsync.store.damaged_file import Columns, DamagedFile, Row

TABLE: Columns = (
    ("id", "INTEGER", False),
    ("name", "TEXT", False),
    ("number", "REAL", True),
    ("blob", "BLOB", True),
    ("more", "INTEGER", True),
)
SCHEMA = "CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT NOT NULL, number REAL, blob BLOB, more INTEGER) STRICT"
VALUES = st.tuples(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=200),
    st.none() | st.floats(allow_nan=False),
    st.none() | st.binary(max_size=30_000),
    st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
)


def made(path: Path, rows: list[tuple[object, ...]], *, wal: bool = False) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}")
    connection.execute(SCHEMA)
    connection.executemany("INSERT INTO things (name, number, blob, more) VALUES (?, ?, ?, ?)", rows)
    return connection


def read(path: Path, wanted: dict[str, Columns] | None = None) -> dict[str, list[Row]]:
    with DamagedFile(str(path)) as damaged:
        return {
            name: list(damaged.rows(leaves)) for name, leaves in damaged.tables(wanted or {"things": TABLE}).items()
        }


def as_sqlite_reads(connection: apsw.Connection) -> list[Row]:
    # Of a REAL that is a whole number the file holds an integer.
    return [(row[0], (None, *row[1:])) for row in connection.execute("SELECT * FROM things ORDER BY id")]


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(VALUES, max_size=30))
def test_every_row_is_read_as_sqlite_reads_it(
    rows: list[tuple[object, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("made") / "a.db"
    connection = made(path, rows)
    assert read(path).get("things", []) == as_sqlite_reads(connection)
    connection.close()


def test_what_was_committed_to_the_log_is_read_and_what_was_not_is_not(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.db", tmp_path / "copy.db"
    connection = made(path, [(f"row {number}", 0.5, b"x" * 6000, number) for number in range(50)], wal=True)
    connection.execute("DELETE FROM things WHERE id % 2 = 0; UPDATE things SET name = 'new' WHERE id = 7")
    wanted = as_sqlite_reads(connection)
    connection.execute("PRAGMA cache_size = 5; BEGIN; UPDATE things SET name = 'half', blob = zeroblob(9000)")
    for ending in ("", "-wal"):
        shutil.copy(f"{path}{ending}", f"{copy}{ending}")
    connection.close()
    assert len(wanted) == 25
    assert read(copy)["things"] == wanted


def test_a_log_of_another_round_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    made(path, [("here", None, None, None)]).close()
    wal = made(tmp_path / "b.db", [("elsewhere", None, None, None)], wal=True)
    content = bytearray((tmp_path / "b.db-wal").read_bytes())
    wal.close()
    content[32 + 8] ^= 1  # the salt of the first frame
    (tmp_path / "a.db-wal").write_bytes(content)
    assert [row[1][1] for row in read(path)["things"]] == ["here"]


def garbled_header(content: bytearray) -> None:
    content[:4096] = random.Random(1).randbytes(4096)


def no_schema(content: bytearray) -> None:
    content[100:4096] = bytes(3996)


def wrong_page_size(content: bytearray) -> None:
    content[16] ^= 0x10


@pytest.mark.parametrize("spoil", [garbled_header, no_schema, wrong_page_size])
def test_rows_are_known_by_their_form_where_nothing_leads_to_them(
    connection: apsw.Connection, database: str, tmp_path: Path, spoil: Callable[[bytearray], None]
) -> None:
    for number in range(300):
        connection.execute(
            "INSERT INTO events (at, kind, path, detail) VALUES (?, 'indexed', ?, 'here')", (number, b"/a/%d" % number)
        )
        connection.execute("INSERT INTO sources (path, added_at) VALUES (?, 1.5)", (b"/folder/%d" % number,))
    connection.close()
    content = bytearray(Path(database).read_bytes())
    spoil(content)
    (tmp_path / "spoiled.db").write_bytes(content)
    wanted: dict[str, Columns] = {
        name: [(str(row[0]), str(row[1]), not row[2] or row[3] is not None) for row in rows]
        for name, rows in migrations.columns_made().items()
    }
    found = read(tmp_path / "spoiled.db", wanted)
    assert [row[1][2] for row in found["events"]] == ["indexed"] * 300
    assert sorted(row[0] for row in found["sources"]) == list(range(1, 301))


def test_what_was_deleted_does_not_come_back(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = made(path, [(f"row {number}", None, b"x" * 500, None) for number in range(200)])
    connection.execute("DELETE FROM things WHERE id > 3")
    connection.close()
    assert [row[0] for row in read(path)["things"]] == [1, 2, 3]


@pytest.mark.parametrize("seed", range(20))
def test_of_a_spoiled_page_only_its_own_rows_are_missing(tmp_path: Path, seed: int) -> None:
    path, rng = tmp_path / "a.db", random.Random(seed)
    connection = made(path, [(f"row {number}", 0.25, b"x" * 300, number) for number in range(1000)])
    pages = int(connection.pragma("page_count"))
    wanted = dict(as_sqlite_reads(connection))
    connection.close()
    content = bytearray(path.read_bytes())
    page = rng.randrange(1, pages)  # not the first: that is tried above
    content[page * 4096 : page * 4096 + 4096] = rng.randbytes(4096)
    path.write_bytes(content)
    found = dict(read(path)["things"])
    assert len([number for number, row in found.items() if wanted.get(number) == row]) >= 980


@pytest.mark.parametrize("seed", range(30))
def test_nothing_that_is_written_into_a_file_makes_reading_end_badly(tmp_path: Path, seed: int) -> None:
    path, rng = tmp_path / "a.db", random.Random(seed)
    made(path, [(f"row {number}", 0.25, b"x" * rng.randrange(9000), number) for number in range(100)]).close()
    content = bytearray(path.read_bytes())
    for _ in range(300):
        content[rng.randrange(len(content))] = rng.randrange(256)
    path.write_bytes(content[: rng.randrange(len(content))])
    read(path)


def test_a_file_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert read(tmp_path / "absent.db") == {}
