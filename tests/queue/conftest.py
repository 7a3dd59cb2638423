"""A real database with one source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from kbsync.store import migrations, sources
from kbsync.store.connection import connect_writer


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = connect_writer(str(tmp_path / "kb.sqlite3"), migrations.accept)
    migrations.init_schema(connection)
    yield connection
    connection.close()


@pytest.fixture
def source_id(connection: apsw.Connection) -> int:
    return sources.ensure(connection, "/notes", 1.0)
