"""How programs save files, as real events of a real folder: one final version, and never a moment without any."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbsync.reasons import FileState
from tests.fakes.watched_disk import WatchedDisk
from tests.faults.editor_saves import SAVES, Save

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these are inotify's events")


@pytest.fixture
def disk(home: Path, tmp_path: Path) -> Iterator[WatchedDisk]:
    root = tmp_path.resolve() / "notes"
    root.mkdir()
    for name in ("report.md", "other.md"):
        (root / name).write_text(f"# {name}\n\nThe first orchard of {name}.\n")
    disk = WatchedDisk(home, [root])
    disk.rescan()
    yield disk
    disk.close()


@pytest.mark.parametrize("save", SAVES)
def test_w12_a_save_is_one_new_version_and_the_file_is_found_at_every_moment(disk: WatchedDisk, save: Save) -> None:
    """W12: also the temporary names are never indexed."""
    file = disk.roots[0] / "report.md"
    save(file, "# report.md\n\nThe second orchard of report.md.\n")
    disk.hear()
    for _ in range(80):
        disk.loops.producer.step()
        disk.loops.rescans.step()
        for worker in disk.loops.workers:
            worker.step()
        assert str(file) in disk.found("orchard report"), "it must never be missing"
        disk.clock.advance(0.1)
    disk.settle()
    assert disk.found("second") == [str(file)]
    versions = disk.read("SELECT count(*) FROM documents WHERE title = 'report.md'")
    assert versions == [(2,)]
    ledger = {Path(os.fsdecode(path)).name for (path,) in disk.read("SELECT path FROM files WHERE state = 'indexed'")}
    assert ledger == {"report.md", "other.md", "cookie-0.md"}
    assert disk.state(str(file)) == (FileState.INDEXED, None)
