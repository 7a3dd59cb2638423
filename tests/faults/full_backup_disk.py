"""A backup to, and a restore on, a disk that becomes full after more and more of it was written; then there is room.

`python -m tests.faults.full_backup_disk DISK FOLDER` runs where DISK is a small tmpfs and FOLDER is elsewhere. It
prints what it saw as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import structlog

from kbsync.errors import RetryLater
from kbsync.reasons import Reason
from tests.fakes.backed_up import backed_up, disk_world, index_of, restored, tree, write_notes
from tests.fakes.simulated_engine import SimulatedEngine

_STEPS = 10
_PAGE = 4096


def leave(disk: Path, room: int) -> None:
    """Fill a disk so that so many bytes are left."""
    with (disk / "ballast").open("wb") as file, suppress(OSError):
        left = os.statvfs(disk)
        file.write(b"\0" * max(0, left.f_bavail * left.f_frsize - room))


def refused(deed: Callable[[], object]) -> str | None:
    """Return what a person is told where there is no room, None where there was; anything else is raised."""
    try:
        deed()
    except RetryLater as error:
        if error.reason is Reason.NO_SPACE:
            return str(error)
        raise
    return None


def tried(disk: Path, needed: int, deed: Callable[[], object], left: Callable[[], object]) -> int:
    """Do something with ever more room until it succeeds; return how often it was refused, leaving nothing."""
    before = left()
    for step in range(_STEPS + 1):
        leave(disk, needed * step // _STEPS // _PAGE * _PAGE)
        told = refused(deed)
        (disk / "ballast").unlink()
        if told is None:
            return step
        assert "is full" in told, told
        assert left() == before, (step, told)
    leave(disk, 0)
    (disk / "ballast").unlink()
    assert refused(deed) is None
    return _STEPS + 1


def main(disk: Path, folder: Path) -> None:
    structlog.configure(processors=[lambda *_: (_ for _ in ()).throw(structlog.DropEvent())])
    write_notes(folder / "notes", 30)
    world = disk_world(folder / "home", folder / "notes")
    engine = SimulatedEngine(world)
    engine.rescan()
    for number in range(10):
        path = folder / f"brought-{number}.md"
        path.write_text(f"# Brought {number}\n\n" + f"quince {number} " * 1500)
        engine.add(str(path))
    backed_up(engine, folder / "measured")
    # The last tries have room for all of it, and little more.
    size = sum(len(content) for content in tree(folder / "measured").values()) * 3 // 2
    backups = tried(disk, size, lambda: backed_up(engine, disk / "backup"), lambda: sorted(os.listdir(disk)))
    engine.close()
    whole = index_of(world)
    other = disk_world(disk / "home")
    other.locations.make_folders()
    data = Path(other.locations.data_dir)
    restores = tried(disk, size, lambda: restored(other, folder / "measured"), lambda: sorted(tree(data)))
    same = index_of(other)["chunks"] == whole["chunks"]
    print("SEEN " + json.dumps({"size": size, "backups": backups, "restores": restores, "same": same}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
