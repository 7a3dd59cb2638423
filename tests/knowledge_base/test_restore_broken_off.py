"""A restore that ends in the middle: the data of before are whole, or the next command carries it through."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kbsync import failpoints
from kbsync.errors import KbsyncError, RetryLater
from kbsync.knowledge_base import restore
from kbsync.knowledge_base.restore import Restored
from tests.fakes.backed_up import index_of, restored, tree, write_notes
from tests.fakes.simulated_engine import SimulatedEngine, World


class Killed(BaseException):
    """The process ended at this place."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    yield
    failpoints.listen(None)


_PLACES = (
    "restore.begun",
    "restore.file_copied",
    "restore.copied",
    "restore.prepared",
    "restore.deciding",
    "restore.decided",
    "restore.part_set_aside",
    "restore.part_placed",
    "restore.config_placed",
    "restore.finished",
)


def broken_off(disk: World, backup: Path, place: str, hit: int, error: Callable[[], BaseException]) -> bool:
    """Restore, and have it end at the so many-th coming to a place; return whether it came so far."""
    left = hit

    def listen(name: str) -> None:
        nonlocal left
        left -= name == place
        if name == place and left == 0:
            raise error()

    failpoints.listen(listen)
    try:
        restored(disk, backup)
    except (Killed, KbsyncError):
        return True
    finally:
        failpoints.listen(None)
    return False


def test_a_restore_that_is_killed_anywhere_is_not_begun_or_carried_through(
    tmp_path: Path, folder: Path, disk: World, backup: Path, told: Callable[[str], None]
) -> None:
    """D12: at every place either the old data are whole, or the next command ends what was begun."""
    new_index = index_of(disk)
    engine = SimulatedEngine(disk)
    write_notes(folder, 3, first=20)
    engine.rescan()
    engine.close()
    old_index = index_of(disk)
    Path(disk.locations.config_file).unlink()
    home = tmp_path / "kept home"
    shutil.copytree(disk.home, home)
    tried = 0
    for place in _PLACES:
        for hit in range(1, 5):
            shutil.rmtree(disk.home)
            shutil.copytree(home, disk.home)
            if not broken_off(disk, backup, place, hit, Killed):
                assert hit > 1, f"{place} is never come to"
                break
            tried += 1
            decided = _PLACES.index(place) >= _PLACES.index("restore.decided")
            disk.locations.make_folders()  # as every command does first
            said = restore.carry_through(disk.locations)
            assert restore.carry_through(disk.locations) is None
            assert (said is not None) == (decided and place != "restore.finished"), place
            assert Path(disk.locations.config_file).exists() == decided
            disk.configure(str(folder))
            assert index_of(disk) == (new_index if decided else old_index), place
            assert not Path(disk.locations.data_dir, "restoring").exists()
            [*aside] = Path(disk.locations.data_dir).glob("before-restore-*")
            assert len(aside) == decided
            if decided:
                assert (aside[0] / "kb.sqlite3").read_bytes() == (home / "data" / "kb.sqlite3").read_bytes()
    told(f"restore broken off: {tried} kills at {len(_PLACES)} places, nothing lost")


@pytest.mark.parametrize("place", _PLACES[:5])
def test_a_disk_that_is_full_before_it_is_decided_changes_nothing(disk: World, backup: Path, place: str) -> None:
    before = tree(Path(disk.locations.data_dir))
    assert broken_off(disk, backup, place, 1, lambda: OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert tree(Path(disk.locations.data_dir)) == before


def test_a_full_disk_is_told_as_one(disk: World, backup: Path) -> None:
    def full(name: str) -> None:
        if name == "restore.file_copied":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    failpoints.listen(full)
    with pytest.raises(RetryLater, match="is full"):
        restored(disk, backup)


def test_a_restore_that_fails_after_it_was_decided_says_that_the_next_command_goes_on(
    disk: World, backup: Path
) -> None:
    def fail(name: str) -> None:
        if name == "restore.part_placed":
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    failpoints.listen(fail)
    with pytest.raises(KbsyncError, match="the next command goes on"):
        restored(disk, backup)
    failpoints.listen(None)
    done: Restored = restored(disk, backup)  # which carries the first one through before
    assert done.set_aside is not None
    assert done.set_aside.endswith("-2")
