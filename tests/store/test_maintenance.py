"""What is asked of the database as a whole."""

from __future__ import annotations

import os

import apsw

from kbsync.store import maintenance


def test_the_size_is_that_of_the_file(connection: apsw.Connection, database: str) -> None:
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert maintenance.size_bytes(connection) == os.stat(database).st_size
