"""A knowledge project on disk: a folder with project.md, manifest.json, parsed/, sources/ and archive/."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from kbsync.errors import EngineBusy, NotFound, UsageError
from kbsync.projects import files

PAGE, MANIFEST, PARSED, SOURCES, ARCHIVE = "project.md", "manifest.json", "parsed", "sources", "archive"
FOLDERS = (PARSED, SOURCES, ARCHIVE)


@dataclass(frozen=True, slots=True)
class Project:
    """A project by its folder, an absolute path."""

    root: str

    @property
    def name(self) -> str:
        return os.path.basename(self.root)

    @property
    def page(self) -> str:
        return self.path(PAGE)

    @property
    def manifest(self) -> str:
        return self.path(MANIFEST)

    @property
    def parsed(self) -> str:
        return self.path(PARSED)

    @property
    def sources(self) -> str:
        return self.path(SOURCES)

    @property
    def archive(self) -> str:
        return self.path(ARCHIVE)

    def path(self, relative: str) -> str:
        """Return the absolute path of something in the project."""
        return os.path.join(self.root, relative)

    def make_folders(self) -> None:
        """Put back the folders that are missing: git, for one, keeps no empty ones.

        Raises UsageError for one that is a link or no folder.
        """
        for folder in FOLDERS:
            files.must_be_folder(self.path(folder))
            os.makedirs(self.path(folder), exist_ok=True)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from changing the project meanwhile. Raises EngineBusy where one does."""
        with files.locked(self.root) as is_ours:
            if not is_ours:
                raise EngineBusy(f"Another program changes {self.root} just now.", hint="Try again when it has ended.")
            yield


def is_project(folder: str) -> bool:
    """Return whether a folder is a project, a damaged one too."""
    has_list = any(os.path.isfile(os.path.join(folder, name)) for name in (PAGE, MANIFEST))
    return has_list and any(os.path.isdir(os.path.join(folder, name)) for name in FOLDERS)


def projects_in(folder: str) -> list[str]:
    """Return the names of the projects in a folder, sorted."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir() and is_project(entry.path))
    except OSError:
        return []


def find(folder: str, name: str | None) -> Project:
    """Return the project that is meant in a folder.

    Without a name: the folder itself, else the only one in it. Raises UsageError with the list where that says
    nothing, NotFound for a name that is none here.
    """
    if name is not None:
        chosen = os.path.abspath(os.path.join(folder, name))
        if not is_project(chosen):
            raise NotFound(f"There is no project {name} in {folder}.", hint=_others(projects_in(folder)))
        return Project(chosen)
    if is_project(folder):
        return Project(os.path.abspath(folder))
    found = projects_in(folder)
    if len(found) == 1:
        return Project(os.path.join(os.path.abspath(folder), found[0]))
    if not found:
        raise UsageError(f"{folder} is no project and holds none.", hint="`kbsync project init NAME` makes one.")
    raise UsageError("Which project is meant?", hint=f"Give its name: {', '.join(found)}.")


def _others(names: list[str]) -> str:
    return f"There are: {', '.join(names)}." if names else "`kbsync project init NAME` makes one."


@lru_cache(maxsize=20_000)
def same_name(name: str) -> str:
    """Return what two names have in common that would be one file on some disk: case and composition do not count."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def local(now: float) -> datetime:
    """Return seconds since 1970 as this machine's local time."""
    return datetime.fromtimestamp(now, UTC).astimezone()
