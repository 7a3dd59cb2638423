"""A child that keeps a folder, is stopped by its parent while much happens there, and prints what it made of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.fakes.watched_disk import WatchedDisk


def main(home: Path, root: Path) -> dict[str, object]:
    """Say that the folder is watched, wait for a line, and index what is there, without a timer's rescan."""
    disk = WatchedDisk(home, [root])
    try:
        disk.settle()
        print("READY", flush=True)
        sys.stdin.readline()
        disk.hear()
        disk.settle()
        return {
            "status": disk.watched(),
            "indexed": disk.read("SELECT count(*) FROM files WHERE state = 'indexed'")[0][0],
            "seen": disk.read("SELECT count(*) FROM files WHERE state <> 'gone'")[0][0],
            "told": len(disk.told),
        }
    finally:
        disk.close()


if __name__ == "__main__":
    print("SEEN " + json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]))), flush=True)
