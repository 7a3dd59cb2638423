"""Puts a project right before anything else is done with it: what a killed run left, and lists that are damaged."""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress

from kbsync.projects import archive, arrivals, files, listing, manifest, page, parsed
from kbsync.projects.listing import Summarize
from kbsync.projects.manifest import BrokenManifest, Entry, Manifest, Version
from kbsync.projects.page import Row
from kbsync.projects.parsed import ParsedFile
from kbsync.projects.project import Project, local


def made_whole(project: Project, now: float, summarize: Summarize) -> tuple[Manifest, list[str]]:
    """Put a project right and return its manifest and what was done, a sentence each. The caller has it alone.

    A broken manifest is set aside and made anew from the files; project.md where it is gone; what an interrupted run
    had archived is listed. `now` in seconds since 1970. Raises StorageUnavailable and OSError.
    """
    project.make_folders()
    for folder in (project.root, project.parsed, project.archive):
        files.sweep(folder)
    notices: list[str] = []
    try:
        listed = manifest.read(project)
    except BrokenManifest as error:
        listed = _from_files(project, now, summarize)
        notices.append(f"{error.message} It was made anew from the files.")
        if os.path.lexists(project.manifest):
            notices[-1] += f" The old one is {os.path.basename(files.set_aside(project.manifest))}."
        manifest.write(project, listed)
    if not os.path.lexists(project.page):
        files.replace(project.page, _page_of(project, listed))
        notices.append("project.md was gone; it was made anew. `kbsync project rebuild` fills in what it says.")
    return _finished(project, listed, summarize, notices), notices


def unlisted(project: Project, listed: Manifest) -> list[str]:
    """Return what lies in archive/ and is in no version list, as paths in the project. Raises OSError."""
    known = listed.archived()
    found = (f"archive/{name}" for name in sorted(os.listdir(project.archive)) if not name.startswith("."))
    return [path for path in found if path not in known]


def _finished(project: Project, listed: Manifest, summarize: Summarize, notices: list[str]) -> Manifest:
    left = set(unlisted(project, listed))
    if not left:
        return listed
    for one in parsed.read_all(project.parsed):
        if one.archived not in left:
            continue
        name, ext = arrivals.split(one.source)
        content_hash = listing.hash_of(project.path(one.archived))
        version = Version(one.archived, f"sha256:{content_hash}", one.parsed_at.replace(" ", "T"))
        listed = listing.list_version(project, listed, name, ext, version, summarize)
        _forget_source(os.path.join(project.sources, one.source), content_hash)
        notices.append(f"{one.source} was taken in by a run that was interrupted; it is listed now.")
    return listed


def _forget_source(source: str, content_hash: str) -> None:
    """Take away what the interrupted run had archived and not yet removed from sources/: the very same bytes."""
    with suppress(FileNotFoundError):
        if not os.path.islink(source) and listing.hash_of(source) == content_hash:
            os.unlink(source)


def _from_files(project: Project, now: float, summarize: Summarize) -> Manifest:
    """Return a manifest as archive/ and parsed/ tell it."""
    texts = {one.name: one for one in parsed.read_all(project.parsed)}
    versions: dict[tuple[str, str], list[tuple[int, Version]]] = defaultdict(list)
    for file in sorted(os.listdir(project.archive)):
        found = archive.read_name(file)
        if found is None or file.startswith("."):
            continue
        name = _whole_name(found.name, found.ext, texts)
        path = f"archive/{file}"
        content_hash = listing.hash_of(project.path(path))
        version = Version(path, f"sha256:{content_hash}", listing.minute(found.at))
        versions[name, found.ext].append((found.number, version))
    entries = []
    for (name, ext), dated in sorted(versions.items()):
        if name not in texts:
            continue  # nothing to read of it: told by `status` as a file in no list
        ordered = sorted(dated, key=lambda one: (one[1].ingested_at, one[0]))
        summary = summarize(texts[name].text, f"{name}{ext}")
        entries.append(Entry(name, ext, f"parsed/{name}.md", tuple(version for _, version in ordered), summary))
    times = sorted(version.ingested_at for entry in entries for version in entry.versions)
    created = times[0] if times else listing.minute(local(now))
    return Manifest(project.name, created, times[-1] if times else None, tuple(entries))


def _whole_name(name: str, ext: str, texts: dict[str, ParsedFile]) -> str:
    """Return the name of a file whose archived name may be cut."""
    if name in texts:
        return name
    return next((whole for whole in texts if archive.stem(whole, ext) == name), name)


def _page_of(project: Project, listed: Manifest) -> str:
    rows = [Row(entry.name, entry.parsed, entry.versions[-1].archived, entry.summary) for entry in listed.files]
    return page.composed(listed.project, "", "", rows, record_of(listed))


def record_of(listed: Manifest) -> list[str]:
    """Return the entries of the update record that the versions tell, the oldest first."""
    dated = [
        (version.ingested_at, listing.entry_of(f"{entry.name}{entry.ext}", version.ingested_at))
        for entry in listed.files
        for version in entry.versions
    ]
    return list(dict.fromkeys(entry for _, entry in sorted(dated, key=lambda one: one[0])))
