"""A child for the limit of watches: keeps a folder under a kernel that grants few, and prints what it saw as JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.fakes.watched_disk import WatchedDisk


def main(home: Path, root: Path) -> dict[str, object]:
    """Start, have a file written where no watch is, then a burst of folders, then a limit that is raised."""
    for number in range(30):
        (root / f"folder{number:02}").mkdir()
    disk = WatchedDisk(home, [root])
    seen: dict[str, object] = {}
    try:
        disk.settle()
        seen["start"] = disk.watched()
        watches = disk.natives[0]._watches()
        assert watches is not None
        unwatched = sorted(watches.refused)
        (Path(unwatched[0]) / "a.md").write_text("written where nobody watches\n")
        seen["before_the_poll"] = disk.found("nobody")
        disk.supervise(32)
        seen["after_the_poll"] = disk.found("nobody")
        for number in range(40):
            burst = root / f"burst{number:02}" / "inner"
            burst.mkdir(parents=True)
            (burst / "b.md").write_text(f"in the burst {number}\n")
        disk.supervise(60)
        seen["burst"] = sum(bool(disk.found(f'"burst {number}"')) for number in range(40))
        seen["after_the_burst"] = disk.watched()
        Path("/proc/sys/user/max_inotify_watches").write_text("1000")
        disk.supervise(60)
        seen["raised"] = disk.watched()
        (Path(unwatched[-1]) / "c.md").write_text("written where somebody watches now\n")
        disk.hear()
        disk.settle()
        seen["told"] = [os.path.basename(path) for path in disk.found("somebody") if path]
    finally:
        disk.close()
    return seen


if __name__ == "__main__":
    print("SEEN " + json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]))))
