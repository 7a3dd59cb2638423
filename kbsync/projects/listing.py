"""Brings one version of a file into the two lists: its row and entry in project.md, then, last, the manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime

from kbsync.projects import archive, files, manifest, page, parsed
from kbsync.projects.manifest import Manifest, Version
from kbsync.projects.page import Row
from kbsync.projects.project import Project

_BLOCK = 1 << 20

# Gets a parsed text and its original's name; returns one line, empty where there is nothing to say.
Summarize = Callable[[str, str], str]


def list_version(
    project: Project, listed: Manifest, name: str, ext: str, version: Version, summarize: Summarize
) -> Manifest:
    """Write a version into both lists and return the manifest. Twice does no harm: the manifest is what counts.

    Raises StorageUnavailable and OSError.
    """
    text_file = f"parsed/{name}.md"
    summary = summarize(parsed.read(project.path(text_file)).text, f"{name}{ext}")
    known = listed.entry(name)
    written_before = "" if known is None else known.summary
    text = read_page(project)
    row = Row(name, text_file, version.archived, summary)
    changed = page.with_file(text, row, entry_of(f"{name}{ext}", version), written_before)
    if changed != text:
        files.replace(project.page, changed)
    # A person's words in the row's place are none of ours: what was written is remembered, not what stands there.
    listed = listed.with_version(name, ext, text_file, version, summary)
    manifest.write(project, listed)
    return listed


def read_page(project: Project) -> str:
    """Return project.md, that of an empty project where it is gone."""
    try:
        with open(project.page, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return page.new_page(project.name)


def hash_of(path: str) -> str:
    """Return the SHA-256 of a file's bytes, in hex. Raises OSError."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def minute(at: datetime) -> str:
    """Return a local time as manifests have it: `2026-02-18T16:00`."""
    return f"{at:%Y-%m-%dT%H:%M}"


def entry_of(file: str, version: Version) -> str:
    """Return the entry of a file's version in the update record; of another one in the same minute it says which."""
    named = archive.read_name(version.archived.removeprefix("archive/"))
    again = f" ({named.number})" if named is not None and named.number > 1 else ""
    return f"- {version.ingested_at.replace('T', ' ')}: 解析 {page.unbroken(file)}{again}"
