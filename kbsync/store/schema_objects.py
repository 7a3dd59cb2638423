"""The tables, indexes and triggers that a database has, beside those that this program makes: what differs, and how to
bring it back.

What lies in a table cannot be made again here: a missing one comes back empty, and whoever checks next finds what is
missing in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import apsw

from kbsync.store import migrations, tokenizer

# Made by FTS5 with its table; they come and go with it.
_FTS_PARTS = ("data", "idx", "content", "docsize", "config")
_VECTORS = re.compile(r"vectors_(\d+)(_text)?\Z")


@dataclass(frozen=True, slots=True)
class SchemaObject:
    """A table, index or trigger as `sqlite_schema` names it."""

    kind: str
    name: str
    table: str
    sql: str


@dataclass(frozen=True, slots=True)
class Difference:
    """An object that is missing, that is made otherwise than by us, or that is none of ours."""

    what: Literal["missing", "other", "foreign"]
    object: SchemaObject

    def __str__(self) -> str:
        return f"{self.object.kind} {self.object.name} ({self.what})"


def differences(connection: apsw.Connection) -> list[Difference]:
    """Return what differs from a freshly made database, tables first. Tables and views of others do no harm.

    Tables of vectors are not looked at: which there are, the table `embedders` says.
    """
    wanted, there = _fresh(), {found.name: found for found in _objects(connection)}
    found = []
    for name, fresh in wanted.items():
        if name not in there:
            found.append(Difference("missing", fresh))
        elif _plain(there[name].sql) != _plain(fresh.sql) or there[name].kind != fresh.kind:
            found.append(Difference("other", fresh))
    found += [
        Difference("foreign", extra)
        for name, extra in there.items()
        if name not in wanted and extra.kind in ("index", "trigger") and extra.table in _fresh_tables()
    ]
    order = {"table": 0, "index": 1, "trigger": 2}
    return sorted(found, key=lambda one: (order.get(one.object.kind, 3), one.object.name))


def mend(connection: apsw.Connection, difference: Difference) -> bool:
    """Make or drop an object so that it is as in a fresh database; full-text tables `make_fts` makes.

    False, with nothing done, for a table of another form, and where rows stand in the way of a unique index.
    """
    found = difference.object
    if difference.what == "foreign":
        connection.execute(f"DROP {found.kind} {quoted(found.name)}")
        return True
    if difference.what == "other" and found.kind == "table":
        return False
    if difference.what == "other":
        connection.execute(f"DROP {found.kind} IF EXISTS {quoted(found.name)}")
    try:
        connection.execute(found.sql)
    except apsw.ConstraintError:
        return False
    return True


def make_fts(connection: apsw.Connection, name: str) -> None:
    """Make a full-text table anew, whatever is left of it; empty."""
    # A table that cannot even be opened cannot be dropped either: its row in the schema goes, then its parts.
    connection.execute("PRAGMA writable_schema = ON")
    try:
        connection.execute("DELETE FROM sqlite_schema WHERE name = ? AND type = 'table'", (name,))
    finally:
        connection.execute("PRAGMA writable_schema = RESET")
    for part in _FTS_PARTS:
        connection.execute(f"DROP TABLE IF EXISTS {quoted(f'{name}_{part}')}")
    connection.execute(_fresh()[name].sql)


def vector_tables(connection: apsw.Connection) -> set[int]:
    """Return the numbers of the tables of vectors that are there, whoever knows of them."""
    matches = (_VECTORS.match(found.name) for found in _objects(connection) if found.kind == "table")
    return {int(match[1]) for match in matches if match and not match[2]}


def vector_indexes(connection: apsw.Connection) -> set[int]:
    """Return the numbers of the tables of vectors that have their index by text."""
    matches = (_VECTORS.match(found.name) for found in _objects(connection) if found.kind == "index")
    return {int(match[1]) for match in matches if match and match[2]}


def columns_are_missing(found: Iterable[Difference]) -> bool:
    """Return whether questions about rows cannot be asked: a table is not there, or has another form."""
    return any(one.object.kind == "table" and one.what != "foreign" for one in found)


def full_text_of(name: str) -> str | None:
    """Return the full-text table that an object is, or is a part of; None for every other one."""
    whole = name.rpartition("_")[0] if name.rpartition("_")[2] in _FTS_PARTS else name
    return whole if whole in ("chunks_fts", "names_fts") else None


@cache
def _fresh() -> dict[str, SchemaObject]:
    connection = apsw.Connection(":memory:")
    try:
        tokenizer.register(connection)
        for _number, _name, sql in migrations.migrations():
            connection.execute(sql)
        return {found.name: found for found in _objects(connection)}
    finally:
        connection.close()


@cache
def _fresh_tables() -> frozenset[str]:
    return frozenset(found.name for found in _fresh().values() if found.kind == "table")


def _objects(connection: apsw.Connection) -> list[SchemaObject]:
    # Indexes that a constraint makes have no SQL of their own, and come with their table.
    rows = connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' "
        "ESCAPE '\\' ORDER BY rowid"
    )
    return [SchemaObject(str(kind), str(name), str(table), str(sql)) for kind, name, table, sql in rows]


def _is_virtual(found: SchemaObject) -> bool:
    return found.sql.upper().startswith("CREATE VIRTUAL")


def _plain(sql: str) -> str:
    return " ".join(sql.split())


def ordinary_tables(connection: apsw.Connection) -> list[str]:
    """Return the names of all tables with rows of their own, parts of full-text indexes among them."""
    return [found.name for found in _objects(connection) if found.kind == "table" and not _is_virtual(found)]


def quoted(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
