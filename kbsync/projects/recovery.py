"""Puts a project right before anything else is done with it: what a killed run left, and lists that are damaged."""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress

from kbsync.errors import SkipFile
from kbsync.pipelines.decode import decoded
from kbsync.projects import archive, arrivals, files, listing, manifest, page, parsed
from kbsync.projects.archive import Archived
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
    if os.path.lexists(project.page):
        notices += _in_unicode(project)  # one that cannot be read is told before anything moves
    else:
        files.replace(project.page, _page_of(project, listed))
        notices.append("project.md was gone; it was made anew. `kbsync project rebuild` fills in what it says.")
    return _finished(project, listed, summarize, notices), notices


def _in_unicode(project: Project) -> list[str]:
    """Make UTF-8 of a project.md that an editor wrote in another encoding: rows in UTF-8 would spoil it."""
    try:
        found = decoded(listing.read_page(project).encode("utf-8", "surrogateescape"))
    except SkipFile:
        return []
    if found.encoding in ("utf-8", "ascii"):
        return []
    aside = files.copy_aside(project.page)
    files.replace(project.page, found.text)
    return [f"project.md was in {found.encoding}; it is in UTF-8 now. The old one is {os.path.basename(aside)}."]


def unlisted(project: Project, listed: Manifest) -> list[str]:
    """Return what lies in archive/ and is in no version list, as paths in the project. Raises OSError."""
    known = listed.archived()
    return [path for path in (f"archive/{name}" for name in _archived_files(project)) if path not in known]


def _archived_files(project: Project) -> list[str]:
    with os.scandir(project.archive) as entries:
        return sorted(
            entry.name for entry in entries if not entry.name.startswith(".") and entry.is_file(follow_symlinks=False)
        )


def _finished(project: Project, listed: Manifest, summarize: Summarize, notices: list[str]) -> Manifest:
    left = set(unlisted(project, listed))
    if not left:
        return listed
    # The run that was killed may not have come to it, and what follows takes the other name away.
    files.settle(project.archive)
    for one in parsed.read_all(project.parsed):
        name, ext = arrivals.split(one.source)
        if one.archived not in left or name != one.name:  # its own comments, or somebody's invention
            continue
        content_hash = listing.hash_of(project.path(one.archived))
        version = Version(one.archived, f"sha256:{content_hash}", one.parsed_at.replace(" ", "T"))
        # First: a version that is listed while it still lies in sources/ would be taken in once more.
        _forget_source(os.path.join(project.sources, one.source), content_hash)
        listed = listing.list_version(project, listed, name, ext, version, summarize)
        notices.append(f"{one.source} was taken in by a run that was interrupted; it is listed now.")
    return listed


def _forget_source(source: str, content_hash: str) -> None:
    """Take away what the interrupted run had archived and not yet removed from sources/: the very same bytes."""
    with suppress(FileNotFoundError):
        if not os.path.islink(source) and listing.hash_of(source) == content_hash:
            files.remove(source)


def _from_files(project: Project, now: float, summarize: Summarize) -> Manifest:
    """Return a manifest as archive/ and parsed/ tell it."""
    texts = {one.name: one for one in parsed.read_all(project.parsed)}
    versions: dict[str, list[tuple[Archived, Version]]] = defaultdict(list)
    for file in _archived_files(project):
        found = archive.read_name(file)
        if found is None:
            continue
        name = _whole_name(found.name, found.ext, texts)
        if name not in texts or not _is_source(texts[name], f"{name}{found.ext}"):
            continue  # nothing to read of it: told by `status` as a file in no list
        path = f"archive/{file}"
        content_hash = listing.hash_of(project.path(path))
        versions[name].append((found, Version(path, f"sha256:{content_hash}", listing.minute(found.at))))
    entries = []
    for name, dated in sorted(versions.items()):
        # The one that was parsed is the last, whatever the clock said: it may have been set back.
        ordered = sorted(dated, key=lambda one: (one[1].archived == texts[name].archived, one[0].at, one[0].number))
        # The ending is the first one's, as `with_version` has it.
        ext = ordered[0][0].ext
        summary = summarize(texts[name].text, f"{name}{ext}")
        entries.append(Entry(name, ext, f"parsed/{name}.md", tuple(version for _, version in ordered), summary))
    times = sorted(version.ingested_at for entry in entries for version in entry.versions)
    created = times[0] if times else listing.minute(local(now))
    return Manifest(project.name, created, times[-1] if times else None, tuple(entries))


def _is_source(text: ParsedFile, file: str) -> bool:
    """Return whether a parsed file is of a file of this name, in any case; one without comments is of any."""
    return not text.source or text.source.casefold() == file.casefold()


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
        (version.ingested_at, listing.entry_of(f"{entry.name}{entry.ext}", version))
        for entry in listed.files
        for version in entry.versions
    ]
    return list(dict.fromkeys(entry for _, entry in sorted(dated, key=lambda one: one[0])))
