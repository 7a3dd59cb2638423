"""How a project is: what it holds, what waits in sources/, what is not as it should be. Changes nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kbsync.errors import UsageError
from kbsync.projects import arrivals, files, manifest, parsed, recovery
from kbsync.projects.arrivals import Refusal
from kbsync.projects.manifest import BrokenManifest
from kbsync.projects.project import FOLDERS, Project


@dataclass(frozen=True, slots=True)
class ProjectState:
    """Counts of files, versions and files that wait; `last_ingest` as in the manifest; `problems` a sentence each."""

    name: str
    root: str
    files: int
    versions: int
    last_ingest: str | None
    waiting: tuple[str, ...]
    refused: tuple[Refusal, ...]
    problems: tuple[str, ...]


def state_of(project: Project) -> ProjectState:
    """Look at a project. Raises OSError where it cannot be read."""
    problems = [why for folder in FOLDERS if (why := _unfit(project, folder))]
    is_whole = not problems
    if not os.path.isfile(project.page):
        problems.append("project.md is gone; the next ingest makes it anew.")
    try:
        listed = manifest.read(project)
    except BrokenManifest as error:
        problems.append(f"{error.message} The next ingest makes it anew from the files; nothing of them is lost.")
        return ProjectState(project.name, project.root, 0, 0, None, (), (), tuple(problems))
    waiting: list[str] = []
    refused: list[Refusal] = []
    if is_whole:
        found, refused = arrivals.look(project, listed)
        waiting = [arrival.file for arrival in found]
        texts = {f"parsed/{name}" for name in parsed.names(project.parsed)}
        problems += [
            f"{entry.parsed} is gone: copy {entry.versions[-1].archived} to sources/{entry.name}{entry.ext} and ingest."
            for entry in listed.files
            if entry.parsed not in texts
        ]
        problems += [f"{path} is in no version list." for path in recovery.unlisted(project, listed)]
        problems += [
            f"{path} is gone." for path in sorted(listed.archived()) if not os.path.lexists(project.path(path))
        ]
    versions = sum(len(entry.versions) for entry in listed.files)
    return ProjectState(
        project.name,
        project.root,
        len(listed.files),
        versions,
        listed.last_ingest,
        tuple(waiting),
        tuple(refused),
        tuple(problems),
    )


def _unfit(project: Project, folder: str) -> str | None:
    try:
        files.must_be_folder(project.path(folder))
    except UsageError as error:
        return str(error)
    return None if os.path.isdir(project.path(folder)) else f"{folder}/ is gone; the next ingest makes it."
