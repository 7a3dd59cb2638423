"""A disk that is full while a backup or a restore is written to it: said so, nothing left there, nothing changed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.test_full_disk import on_small_disk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a disk of one's own takes Linux' namespaces")


def test_a_backup_and_a_restore_without_room_leave_nothing_and_succeed_when_there_is(
    tmp_path: Path, memory_disk: Path | None, told: Callable[[str], None]
) -> None:
    """D12 and D15: whichever write fails, of SQLite's or of a copied file."""
    folder = (memory_disk or tmp_path) / "full-backup-disk"
    folder.mkdir()
    seen = on_small_disk(tmp_path / "disk", "tests.faults.full_backup_disk", str(folder))
    told(f"full disk under a backup: {seen['backups']} times refused, under a restore {seen['restores']}; nothing left")
    assert seen["backups"] > 3
    assert seen["restores"] > 3
    assert seen["same"]
