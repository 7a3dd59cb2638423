"""The engine that faults are done to: its fixtures."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.lives import engine, started, world

__all__ = ["engine", "home", "started", "world"]


@pytest.fixture
def home() -> Iterator[Path]:
    """Return a home for kbsync in memory, where the system has such a place: a commit need not wait for the disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="kbsync-", dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)
