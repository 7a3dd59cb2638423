"""Brings a database of any older form to the current one: numbered SQL files, each in one transaction, recorded."""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Callable

import apsw

from kbsync.errors import DatabaseDamaged, StopEngine
from kbsync.failpoints import failpoint
from kbsync.store import meta, tokenizer
from kbsync.store.connection import whole

# "KBSN": tells kbsync's databases from others.
APPLICATION_ID = 0x4B42534E
# The migration that makes a database.
FIRST = "initial"
# No kbsync to come is so many schemas ahead: such a number is no number.
_MOST_AHEAD = 1000


def migrations() -> list[tuple[int, str, str]]:
    """Return (number, name, SQL) of every schema file, in order."""
    found = []
    for file in importlib.resources.files("kbsync.store").joinpath("schema").iterdir():
        match = re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name)
        if match:
            found.append((int(match[1]), match[2], file.read_text(encoding="utf-8")))
    return sorted(found)


def init_schema(connection: apsw.Connection, tells: Callable[[str], None] = lambda _doing: None) -> list[str]:
    """Run the migrations that are missing and return their names; [] when there was nothing to do.

    `tells` hears of what may take long, before it begins. Raises StopEngine, database untouched, for a database of a
    newer kbsync or of another program.
    """
    version = accept(connection)
    ran = []
    found = migrations()
    for number, name, sql in found:
        if number > version:
            tells(f"bringing the database to its current form (step {number} of {found[-1][0]})")
            with whole(connection):
                # Asked again under the write lock: another process may have been faster.
                if _version(connection) >= number:
                    continue
                connection.execute(sql)
                failpoint("migrations.executed")
                _number(connection, number)
                failpoint("migrations.numbered")
            failpoint("migrations.committed")
            ran.append(name)
    if _recorded(connection) is None:
        with whole(connection):  # an older kbsync made it, which wrote the number into the header alone
            _number(connection, _version(connection))
    _follow_tokenizer(connection, tells)
    return ran


def _number(connection: apsw.Connection, number: int) -> None:
    """Write the schema's number into the header and, to prove that against a damaged header, among the rows."""
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", number)
    meta.put(connection, meta.SCHEMA, str(number))


def accept(connection: apsw.Connection) -> int:
    """Return the schema's number, nothing changed.

    Raises StopEngine for a database of a newer kbsync or of another program, DatabaseDamaged for a header that says
    what cannot be.
    """
    version, newest = _version(connection), migrations()[-1][0]
    if version > newest:
        if version > newest + _MOST_AHEAD:
            raise _damaged_header(f"schema {version}")
        raise StopEngine(
            f"The database has schema {version}; this kbsync knows up to {newest}.",
            hint="Install the newer kbsync that wrote it. Nothing was changed.",
        )
    return version


def require_current(connection: apsw.Connection) -> None:
    """Raise StopEngine unless the database has the form that this program writes. For reading without migrating."""
    version, newest = _version(connection), migrations()[-1][0]
    if not version:
        raise StopEngine(
            f"The database {connection.filename} is empty or damaged: nothing is in it.",
            hint="`kbsync run` builds it anew.",
        )
    if version != newest:
        raise StopEngine(
            f"The database has schema {version}; this kbsync works with {newest}.",
            hint="Start the daemon of the newest kbsync once." if version < newest else "Install the newer kbsync.",
        )


def is_current(connection: apsw.Connection) -> bool:
    """Return whether a database has the form that this program writes."""
    return _version(connection) == migrations()[-1][0]


def altered_tables(connection: apsw.Connection) -> list[str]:
    """Return the tables of a current database that are not there, or have other columns than they were made with.

    Of a database with an older schema nothing is said.
    """
    if not is_current(connection):
        return []
    return [table for table, columns in columns_made().items() if _columns(connection, table) != columns]


@functools.cache
def columns_made() -> dict[str, tuple[tuple[object, ...], ...]]:
    """Return the columns (name, type, not null, default, place in the key) of every table of a current database.

    Full-text indexes are left out: they are made anew from the others.
    """
    fresh = apsw.Connection(":memory:")
    try:
        tokenizer.register(fresh)
        for _number_of, _name, sql in migrations():
            fresh.execute(sql)
        tables = fresh.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        names = [str(name) for (name,) in tables]
        return {name: _columns(fresh, name) for name in names if "_fts" not in name}
    finally:
        fresh.close()


def _columns(connection: apsw.Connection, table: str) -> tuple[tuple[object, ...], ...]:
    found = connection.execute('SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_xinfo(?)', (table,))
    return tuple(found.fetchall())


def _version(connection: apsw.Connection) -> int:
    version = int(connection.pragma("user_version"))
    application = int(connection.pragma("application_id"))
    recorded = _recorded(connection)
    if recorded is not None and (application != APPLICATION_ID or version < recorded):
        raise _damaged_header(f"program {application}, schema {version}")
    objects = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if application != APPLICATION_ID and objects:
        raise StopEngine("The database file belongs to another program.", hint="Move it away; nothing was changed.")
    return version


def _recorded(connection: apsw.Connection) -> int | None:
    """Return the schema's number as it stands among the rows; None where it was never written there."""
    if not connection.execute("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'meta')").get:
        return None
    try:
        value = meta.get(connection, meta.SCHEMA)
    except apsw.SQLError:
        return None  # another program's table of that name
    return None if value is None else int(value)


def _damaged_header(says: str) -> DatabaseDamaged:
    return DatabaseDamaged(
        f"The database's header is damaged: it says {says}.",
        hint="`kbsync run` and `kbsync check --repair` set it aside and build the index anew.",
    )


def _follow_tokenizer(connection: apsw.Connection, tells: Callable[[str], None]) -> None:
    """Rebuild the full-text indexes before any write where another version of the tokenizer's rules filled them."""
    if meta.get(connection, meta.TOKENIZER) == tokenizer.VERSION:
        return
    from kbsync.store import origins, schema_objects  # which compare with what is made here

    tells("filling the full-text index anew")
    with whole(connection):
        # Tables and all: of an index that is damaged as well, FTS5's own commands make nothing.
        schema_objects.make_fts(connection, "chunks_fts")
        connection.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('rebuild')")
        failpoint("migrations.words_rebuilt")
        # names_fts keeps no content of its own: it is filled again from the live origins.
        schema_objects.make_fts(connection, "names_fts")
        origins.index_names(connection)
        meta.put(connection, meta.TOKENIZER, tokenizer.VERSION)
        failpoint("migrations.names_rebuilt")
    failpoint("migrations.tokenizer_followed")
