"""Brings a database of any older form to the current one: numbered SQL files, each in one transaction, recorded."""

from __future__ import annotations

import importlib.resources
import re

import apsw

from kbsync.errors import StopEngine
from kbsync.store import meta, tokenizer
from kbsync.store.connection import whole

# "KBSN": tells kbsync's databases from others.
APPLICATION_ID = 0x4B42534E


def migrations() -> list[tuple[int, str, str]]:
    """Return (number, name, SQL) of every schema file, in order."""
    found = []
    for file in importlib.resources.files("kbsync.store").joinpath("schema").iterdir():
        match = re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name)
        if match:
            found.append((int(match[1]), match[2], file.read_text(encoding="utf-8")))
    return sorted(found)


def init_schema(connection: apsw.Connection) -> list[str]:
    """Run the migrations that are missing and return their names; [] when there was nothing to do.

    Raises StopEngine, database untouched, for a database of a newer kbsync or of another program.
    """
    version = accept(connection)
    ran = []
    for number, name, sql in migrations():
        if number > version:
            with whole(connection):
                # Asked again under the write lock: another process may have been faster.
                if _version(connection) >= number:
                    continue
                connection.execute(sql)
                connection.pragma("application_id", APPLICATION_ID)
                connection.pragma("user_version", number)
            ran.append(name)
    _follow_tokenizer(connection)
    return ran


def accept(connection: apsw.Connection) -> int:
    """Return the schema's number, nothing changed.

    Raises StopEngine for a database of a newer kbsync or of another program.
    """
    version, newest = _version(connection), migrations()[-1][0]
    if version > newest:
        raise StopEngine(
            f"The database has schema {version}; this kbsync knows up to {newest}.",
            hint="Install the newer kbsync that wrote it. Nothing was changed.",
        )
    return version


def require_current(connection: apsw.Connection) -> None:
    """Raise StopEngine unless the database has the form that this program writes. For reading without migrating."""
    version, newest = _version(connection), migrations()[-1][0]
    if version != newest:
        raise StopEngine(
            f"The database has schema {version}; this kbsync works with {newest}.",
            hint="Start the daemon of the newest kbsync once." if version < newest else "Install the newer kbsync.",
        )


def _version(connection: apsw.Connection) -> int:
    version = int(connection.pragma("user_version"))
    application = int(connection.pragma("application_id"))
    objects = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if application != APPLICATION_ID and objects:
        raise StopEngine("The database file belongs to another program.", hint="Move it away; nothing was changed.")
    return version


def _follow_tokenizer(connection: apsw.Connection) -> None:
    """Rebuild the full-text indexes before any write where another version of the tokenizer's rules filled them."""
    if meta.get(connection, meta.TOKENIZER) == tokenizer.VERSION:
        return
    with whole(connection):
        connection.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('rebuild')")
        # names_fts keeps no content of its own: it is filled again from the live origins.
        connection.execute("DELETE FROM names_fts")
        from kbsync.store import origins

        origins.index_names(connection)
        meta.put(connection, meta.TOKENIZER, tokenizer.VERSION)
