"""Makes a new project: its folder, the three inside it, and the two empty lists."""

from __future__ import annotations

import os

from kbsync.clock import Clock
from kbsync.errors import UsageError
from kbsync.projects import files, listing, manifest, page
from kbsync.projects.manifest import Manifest
from kbsync.projects.project import Project, is_project, local


def start(folder: str, name: str, clock: Clock) -> Project:
    """Make the project `name` in a folder. Raises UsageError for a name that cannot be one or is taken."""
    if not name.strip() or name in (".", "..") or "/" in name or not name.isprintable() or name != name.strip():
        raise UsageError(f"{name!r} cannot be a project's name.", hint="Give the name of a folder to make here.")
    if len(os.fsencode(name)) > files.LONGEST_NAME:
        raise UsageError("This name is too long for a folder.", hint="Give a shorter one.")
    project = Project(os.path.join(os.path.abspath(folder), name))
    if is_project(project.root):
        raise UsageError(f"{name} is a project already; nothing was changed.")
    if os.path.lexists(project.root) and (not os.path.isdir(project.root) or os.listdir(project.root)):
        raise UsageError(f"{project.root} is there already and not empty.", hint="Give another name.")
    with files.told(project.root):
        os.makedirs(project.root, exist_ok=True)
        project.make_folders()
    files.replace(project.page, page.new_page(name))
    # The last: without it the rest is put right by the first ingest.
    manifest.write(project, Manifest(name, listing.minute(local(clock.now())), None))
    return project
