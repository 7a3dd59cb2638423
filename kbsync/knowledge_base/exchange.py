"""Puts a restored data folder in the place of the one that is there, which is set aside: all of it, or nothing.

The new data is whole in `restoring/` of the data folder before a file in it says so; from then on whoever comes next
carries it through, by renames alone. The lock and what no backup holds (models that were fetched) stay where they are.
Set aside is within the data folder: on the same disk whatever is mounted where, and never taken for a user's files.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress

from kbsync.config.file import place
from kbsync.config.locations import Locations
from kbsync.failpoints import failpoint
from kbsync.filesystem import sync_folder
from kbsync.knowledge_base.manifest import CONFIG, DATABASE, PARTS
from kbsync.store import copies, damage

_DECIDED = "decided.json"
# What belongs to a database: its own file last, so that a file without its log is never there alone.
_WITH_DATABASE = ("-wal", "-shm", "-journal", "")


def begin(locations: Locations) -> str:
    """Return a new, empty folder for what is restored; what an interrupted restore left there is gone."""
    new = locations.restoring_dir
    with suppress(FileNotFoundError):
        shutil.rmtree(new)
    os.mkdir(new, 0o700)
    return new


def abandon(locations: Locations) -> None:
    """Remove what was restored so far, unless it was decided that it counts."""
    new = locations.restoring_dir
    if not os.path.exists(os.path.join(new, _DECIDED)):
        shutil.rmtree(new, ignore_errors=True)


def decide(locations: Locations, stamp: str, configuration: str | None = None) -> None:
    """Say that `restoring/` is whole: from now on it counts. `stamp` names the folder that is set aside.

    `configuration`: the text of the config.toml here that the new one may take the place of; None: of none.
    """
    new = locations.restoring_dir
    aside = _free(locations.data_dir, f"before-restore-{stamp}")
    copies.write_file(os.path.join(new, "deciding"), json.dumps({"aside": aside, "over": configuration}).encode())
    copies.sync_tree(new)
    failpoint("restore.deciding")
    os.rename(os.path.join(new, "deciding"), os.path.join(new, _DECIDED))
    sync_folder(new)
    failpoint("restore.decided")


def is_pending(locations: Locations) -> bool:
    """Return whether a restore was interrupted after it was decided."""
    return os.path.exists(os.path.join(locations.restoring_dir, _DECIDED))


def finish(locations: Locations) -> str | None:
    """Carry a restore through that was decided, and return the folder that holds what was there before.

    None where there was nothing to do, or nothing before. What was not decided goes. The caller holds the lock, and has
    nothing open. Raises OSError; then the next call goes on.
    """
    data, new = locations.data_dir, locations.restoring_dir
    if not is_pending(locations):
        abandon(locations)
        return None
    with open(os.path.join(new, _DECIDED), encoding="utf-8") as file:
        decided = json.load(file)
    aside = os.path.join(data, decided["aside"])
    for part in PARTS:
        if not os.path.lexists(os.path.join(new, part)):
            continue  # it is in its place already
        for name in [part + ending for ending in _WITH_DATABASE] if part == DATABASE else [part]:
            _set_aside(os.path.join(data, name), aside)
        if part == DATABASE:
            _forget(locations.database)
        failpoint("restore.part_set_aside")
        os.rename(os.path.join(new, part), os.path.join(data, part))
        sync_folder(data)
        failpoint("restore.part_placed")
    config = os.path.join(new, CONFIG)
    if os.path.exists(config):
        with open(config, encoding="utf-8") as file:
            place(locations.config_file, file.read(), decided.get("over"))
        failpoint("restore.config_placed")
    # First what says that there is something to do.
    os.unlink(os.path.join(new, _DECIDED))
    shutil.rmtree(new)
    sync_folder(data)
    failpoint("restore.finished")
    return aside if os.path.isdir(aside) else None


def _forget(database: str) -> None:
    """What was noted of the database of before, and a rebuild of it that has not ended, say nothing about this one."""
    damage.forget(database)
    if damage.pending(database) is not None:
        damage.end_pending(database)


def _set_aside(path: str, aside: str) -> None:
    if not os.path.lexists(path):
        return
    if os.path.isdir(path) and not os.listdir(path):
        os.rmdir(path)  # a command made it anew, or it was never used
        return
    os.makedirs(aside, mode=0o700, exist_ok=True)
    os.rename(path, os.path.join(aside, _free(aside, os.path.basename(path))))
    sync_folder(aside)


def _free(folder: str, name: str) -> str:
    """Return a name that nothing in the folder has."""
    number, found = 1, name
    while os.path.lexists(os.path.join(folder, found)):
        number += 1
        found = f"{name}-{number}"
    return found
