"""What tests of projects share: a project in a folder, and an ingest with a converter that needs no Docling."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.projects.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)
