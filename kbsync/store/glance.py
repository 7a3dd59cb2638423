"""A look at a database that leaves nothing behind: no lock, no file beside it, no note that it looked damaged."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Callable
from typing import TypeVar

import apsw

from kbsync.errors import DatabaseDamaged
from kbsync.store.connection import require_file

T = TypeVar("T")


def glance(path: str, work: Callable[[apsw.Connection], T]) -> T:
    """Return what `work` reads of the file as it is, without what lies in its write-ahead log.

    For when nobody writes it. Raises DatabaseDamaged for what cannot be read, StopEngine for what is no file, and what
    `work` raises.
    """
    require_file(path)
    uri = "file:" + urllib.parse.quote(os.fsencode(os.path.abspath(path))) + "?immutable=1"
    try:
        connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        try:
            return work(connection)
        finally:
            connection.close()
    except (apsw.Error, UnicodeDecodeError) as error:
        raise DatabaseDamaged(
            f"The database {path} cannot be read: {error}.", hint="`kbsync check --repair` sets right what can be."
        ) from error
