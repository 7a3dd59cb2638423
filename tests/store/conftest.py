"""A real database in a temporary folder, current and empty."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from kbsync.store import migrations
from kbsync.store.connection import connect_writer


@pytest.fixture
def database(tmp_path: Path) -> str:
    return str(tmp_path / "kb.sqlite3")


@pytest.fixture
def connection(database: str) -> Iterator[apsw.Connection]:
    connection = connect_writer(database, migrations.accept)
    migrations.init_schema(connection)
    yield connection
    connection.close()
