"""What lies in sources/: files to take in, and those that cannot be, with the reason. Decides, changes nothing."""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from kbsync.projects import parsed
from kbsync.projects.files import LONGEST_NAME
from kbsync.projects.manifest import Manifest
from kbsync.projects.project import Project, same_name
from kbsync.sources.ignore import is_noise, is_secret

# What ends a line, or turns what stands behind it; spaces and joiners of any script belong to names.
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]")
# In bytes: behind a name that is cut, a time and a number it fits into a file's name.
_LONGEST_ENDING = 200


@dataclass(frozen=True, slots=True)
class Arrival:
    """A file to take in: its name in sources/, and that in its two parts."""

    file: str
    name: str
    ext: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A file or folder that stays where it is, and why. `again`: it may go well by itself another time."""

    file: str
    message: str
    again: bool = False


def split(file: str) -> tuple[str, str]:
    """Return (name, ending with its dot) of a file's name."""
    return os.path.splitext(file)


def is_left_out(file: str) -> bool:
    """Return whether a name in sources/ is not spoken of at all: hidden files, and those that are still being made."""
    return is_noise(file) and not is_secret(file)


def look(project: Project, manifest: Manifest) -> tuple[list[Arrival], list[Refusal]]:
    """Return what is to be taken in, by name, and what is refused: nothing of these is touched. Raises OSError."""
    arrivals: list[Arrival] = []
    refusals: list[Refusal] = []
    with os.scandir(project.sources) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if is_left_out(entry.name):
                continue
            why = _unfit(entry)
            if why is not None:
                refusals.append(Refusal(entry.name, why))
            else:
                arrivals.append(Arrival(entry.name, *split(entry.name)))
    clashes = _clashes(project, arrivals, manifest)
    refusals += [Refusal(arrival.file, clashes[arrival.file]) for arrival in arrivals if arrival.file in clashes]
    return [arrival for arrival in arrivals if arrival.file not in clashes], refusals


def _unfit(entry: os.DirEntry[str]) -> str | None:
    if is_secret(entry.name):
        return f"{entry.name}: files of this name hold keys or passwords and are never read. Take it out."
    mode = entry.stat(follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode):
        return f"{entry.name} is a folder: only files right in sources/ are taken in. Move what it holds up."
    if stat.S_ISLNK(mode):
        return f"{entry.name} is a symbolic link: put the file itself there."
    if not stat.S_ISREG(mode):
        return f"{entry.name} is no file."
    try:
        entry.name.encode()
    except UnicodeEncodeError:
        return f"{os.fsencode(entry.name)!r}: its name is no UTF-8, and the manifest cannot hold it. Rename it."
    if _STEERING.search(entry.name):
        return f"{entry.name!r}: its name holds characters that no list can show. Rename it."
    name, ext = split(entry.name)
    if len(os.fsencode(f"{name}.md")) > LONGEST_NAME or len(os.fsencode(ext)) > _LONGEST_ENDING:
        return f"{entry.name}: its name is too long for a parsed file. Rename it."
    return None


def _clashes(project: Project, arrivals: Iterable[Arrival], manifest: Manifest) -> dict[str, str]:
    """Return the files whose parsed text would overwrite that of another file, with what to do."""
    by_name: dict[str, list[Arrival]] = defaultdict(list)
    for arrival in arrivals:
        by_name[same_name(arrival.name)].append(arrival)
    found: dict[str, str] = {}
    for same in by_name.values():
        known = manifest.entry(same[0].name)
        are_apart = len({other.ext.lower() for other in same}) == len(same)
        for number, arrival in enumerate(same, 2):
            others = [other.file for other in same if other is not arrival]
            if known is not None and (known.name, known.ext.lower()) != (arrival.name, arrival.ext.lower()):
                others.append(f"{known.name}{known.ext}, which the project holds")
            elif known is None and _is_a_persons(project.path(f"parsed/{arrival.name}.md")):
                others.append("a text that somebody put into parsed/")
            if others:
                # Each another name: what is renamed so must not clash again.
                mark = arrival.ext[1:].lower() if are_apart and arrival.ext[1:] else number
                found[arrival.file] = (
                    f"{arrival.file} has the same name as {' and '.join(others)}; both would become "
                    f"parsed/{arrival.name}.md. Rename it, for example {arrival.name}-{mark}{arrival.ext}."
                )
    return found


def _is_a_persons(path: str) -> bool:
    """Return whether a text is there that no ingest wrote: it exists nowhere else."""
    return os.path.isfile(path) and not parsed.read(path).source
