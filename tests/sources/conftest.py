"""A real folder and a watcher on it that has not started yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbsync.model import Source
from kbsync.sources.watcher import NativeWatcher
from tests.sources.watch_reports import Reports


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def watcher(root: Path, reports: Reports) -> Iterator[NativeWatcher]:
    watcher = NativeWatcher(Source(7, str(root)), reports.sink, reports.note_dirty)
    yield watcher
    watcher.stop()
