"""Names in archive/: `{name}_{YYYYMMDDHHmm}{ext}`, a second one in the same minute with `-2` behind the time."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from datetime import datetime

from kbsync.projects import files

_NAME = re.compile(r"(?P<name>.*)_(?P<time>\d{12})(?:-(?P<number>\d{1,4}))?(?P<ext>\.[^.]*)?\Z", re.DOTALL)
# `_202602181600-9999` behind a name that fills what a file system takes.
_ROOM = len("_202602181600-9999")
_HASHED = 8


@dataclass(frozen=True, slots=True)
class Archived:
    """What the name of an archived file says. `at` is local time; `name` is cut where it was too long."""

    name: str
    ext: str
    at: datetime
    number: int


def free_name(folder: str, name: str, ext: str, at: datetime) -> str:
    """Return the name for a file that is archived at a local time, one that nothing in the folder has."""
    begun = stem(name, ext)
    number = 1
    while True:
        mark = "" if number == 1 else f"-{number}"
        found = f"{begun}_{at:%Y%m%d%H%M}{mark}{ext}"
        if not os.path.lexists(os.path.join(folder, found)):
            return found
        number += 1


def read_name(archived: str) -> Archived | None:
    """Return what a name in archive/ says, None where it is not of that form."""
    found = _NAME.match(archived)
    if found is None:
        return None
    try:
        at = datetime.strptime(found["time"], "%Y%m%d%H%M").astimezone()
    except ValueError:
        return None
    return Archived(found["name"], found["ext"] or "", at, int(found["number"] or 1))


def stem(name: str, ext: str) -> str:
    """Return a name as archived names begin with it: a very long one is cut and told apart by a hash."""
    room = files.LONGEST_NAME - _ROOM - len(os.fsencode(ext))
    if len(os.fsencode(name)) <= room:
        return name
    mark = hashlib.sha256(os.fsencode(name)).hexdigest()[:_HASHED]
    return f"{files.shortened(name, room - _HASHED - 1)}~{mark}"
