"""Starts on a disk without a byte of room, and prints what it saw as JSON.

`python -m tests.faults.full_disk_start DISK HOME` runs in a mount namespace of its own, where DISK is a small tmpfs.
HOME, with the messages, lies elsewhere.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from kbsync.daemon.lock import owner_of
from tests.fakes.eventually import eventually
from tests.faults.full_disk import Ballast
from tests.faults.nursery import Nursery

# A start fails on its database, in its migrations.
ROOMS = (12_288, 300_000)


def main(disk: Path, home: Path) -> dict[str, object]:
    """Begin a daemon on the full disk and end it; begin another, try a command, free the disk, and see it serve."""
    seen: dict[str, object] = {}
    ballast = Ballast(disk)
    (disk / "data").mkdir(mode=0o700)
    (home / "data").symlink_to(disk / "data")
    (home / "config.toml").write_text("")
    ballast.fill()
    with Nursery() as nursery:
        nursery.begin(home)
        eventually(lambda: "is full" in nursery.messages(), within_s=60.0)
        begun = time.monotonic()
        nursery.signal(signal.SIGTERM)
        seen["ended"] = nursery.ended()
        seen["end_s"] = time.monotonic() - begun
        nursery.begin(home)
        eventually(lambda: nursery.messages().count("is full") == 2, within_s=60.0)
        seen["served_too_early"] = nursery.client() is not None
        command = subprocess.run(
            [sys.executable, "-m", "kbsync", "add", "--note", "the quince ripens late"],
            env={**os.environ, "KBSYNC_HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        seen["command"] = [command.returncode, command.stderr]
        ballast.free()
        client = eventually(nursery.client, within_s=60.0)
        assert client is not None
        seen["notices"] = client.get("status")["notices"]
        nursery.signal(signal.SIGTERM)
        seen["ended_again"] = nursery.ended()
        seen["messages"] = nursery.messages()
        for room in ROOMS:
            seen[f"with {room} bytes"] = _with_little_room(nursery, ballast, disk, home.parent, room)
    return seen


def _with_little_room(nursery: Nursery, ballast: Ballast, disk: Path, base: Path, room: int) -> dict[str, object]:
    """Begin a daemon where so many bytes are left, so that its start gets so far, free the disk, and see it serve."""
    home, data = base / f"home-{room}", disk / f"data-{room}"
    (home / "notes").mkdir(parents=True)
    (home / "notes" / "a.md").write_text("the quince ripens late\n")
    data.mkdir(mode=0o700)
    (home / "data").symlink_to(data)
    (home / "config.toml").write_text(f'[[sources]]\npath = "{home}/notes"\n')
    ballast.fill(leave=room)
    nursery.begin(home)
    eventually(lambda: "is full" in nursery.messages(), within_s=60.0)
    held_up = eventually(lambda: _held_up(nursery), within_s=60.0)
    ballast.free()
    client = eventually(nursery.client, within_s=60.0)
    assert client is not None
    ticket = client.post("local/rescan")["ticket"]
    eventually(lambda: client.get("local/settled", ticket=ticket)["settled"], within_s=60.0)
    answer = client.get("status")
    nursery.signal(signal.SIGTERM)
    assert nursery.ended() == 0
    return {"files": answer["files"]["states"], "notices": answer["notices"], "held_up": held_up}


def _held_up(nursery: Nursery) -> str | None:
    """Return what others are told of a daemon that cannot start."""
    owner = owner_of(nursery.places.lock_file)
    return owner.doing if owner is not None and owner.pid == nursery.pid and owner.is_held_up else None


if __name__ == "__main__":
    print("SEEN " + json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]))))
