"""What the SQLite of this process can do, for who examines the machine."""

from __future__ import annotations

from dataclasses import dataclass

import apsw

from kbsync.store import vector_functions
from kbsync.store.connection import OLDEST_SQLITE


@dataclass(frozen=True, slots=True)
class Capabilities:
    """`sqlite` and `oldest` are versions; `vectors` is sqlite-vec's, None where `no_vectors` says why it has none."""

    driver: str
    sqlite: str
    oldest: str
    has_full_text: bool
    vectors: str | None
    no_vectors: str | None


def capabilities() -> Capabilities:
    """Find out what there is. In memory: no database is opened."""
    missing = vector_functions.missing()
    return Capabilities(
        apsw.apsw_version(),
        apsw.sqlite_lib_version(),
        ".".join(map(str, OLDEST_SQLITE)),
        _has_full_text(),
        None if missing is not None else vector_functions.loaded_version(),
        None if missing is None else missing.removesuffix(vector_functions.REMEDY).rstrip(),
    )


def _has_full_text() -> bool:
    connection = apsw.Connection(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE words USING fts5 (word)")
    except apsw.Error:
        return False
    finally:
        connection.close()
    return True
