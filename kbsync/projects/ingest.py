"""Takes new files of sources/ in: parsed, archived, listed. Interrupted anywhere, the next run finishes it.

The order is what makes that so. A file's text is written first, then the file moves into archive/, then its row goes
into project.md, and the manifest is the last: a version that it names is whole. What lies in archive/ and is not named
yet is brought to its end by `recovery`, from the comments of its parsed file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from kbsync.clock import Clock
from kbsync.errors import FileChanged, KbsyncError, RetryLater, StopEngine, StorageUnavailable, UsageError
from kbsync.projects import archive, arrivals, files, listing, parsed, reading, recovery
from kbsync.projects.arrivals import Arrival, Refusal
from kbsync.projects.listing import Summarize
from kbsync.projects.manifest import Manifest, Version
from kbsync.projects.project import Project, local
from kbsync.projects.reading import Converter

# A file that is written while it is read is read again so often; then it is left for the next run.
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Taken:
    """A file that was taken in: its name in sources/, its parsed file, where the original lies now, which version."""

    file: str
    parsed: str
    archived: str
    version: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an ingest did. `notices`: what was put right before, a sentence each."""

    taken: tuple[Taken, ...]
    refused: tuple[Refusal, ...]
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tools:
    """What an ingest works with."""

    clock: Clock
    converter: Converter
    summarize: Summarize
    encodings: tuple[str, ...] = ()


def ingest(
    project: Project,
    tools: Tools,
    only: Callable[[str], bool] = lambda _file: True,
    tell: Callable[[str], None] = lambda _file: None,
    took: Callable[[Taken], None] = lambda _taken: None,
) -> Outcome:
    """Take in every new file; those that cannot be stay and say why, the others go on.

    `only` says which names in sources/ are ready; `tell` hears of each before it is read, `took` after it is in.
    Raises EngineBusy, and StorageUnavailable where the disk is full: what was not taken in by then stays.
    """
    with project.alone():
        listed, notices = recovery.made_whole(project, tools.clock.now(), tools.summarize)
        found, refused = arrivals.look(project, listed)
        taken: list[Taken] = []
        for arrival in found:
            if not only(arrival.file):
                continue
            tell(arrival.file)
            try:
                listed, one = _take_in(project, listed, arrival, tools)
            except FileNotFoundError:
                continue  # it was taken back
            except (StorageUnavailable, StopEngine, UsageError):
                raise  # the project's own folders: no file is to blame
            except KbsyncError as error:
                refused.append(Refusal(arrival.file, str(error), isinstance(error, RetryLater | FileChanged)))
            except OSError as error:
                place = error.filename2 or error.filename
                refused.append(Refusal(arrival.file, f"{arrival.file} cannot be taken in: {error.strerror}: {place}."))
            else:
                taken.append(one)
                took(one)
    return Outcome(tuple(taken), tuple(refused), tuple(notices))


def _take_in(project: Project, listed: Manifest, arrival: Arrival, tools: Tools) -> tuple[Manifest, Taken]:
    source = os.path.join(project.sources, arrival.file)
    at = local(tools.clock.now())
    archived = f"archive/{archive.free_name(project.archive, arrival.name, arrival.ext, at)}"
    text_file = f"parsed/{arrival.name}.md"

    def parse(path: str) -> str:
        """Write the parsed file of what lies at a path; return the hash of the bytes that it was made of."""
        for _ in range(_TRIES):
            content_hash = listing.hash_of(path)
            text = reading.read(path, arrival.file, content_hash, tools.converter, tools.encodings)
            if listing.hash_of(path) == content_hash:
                content = parsed.composed(arrival.file, archived, f"{at:%Y-%m-%d %H:%M}", text)
                files.replace(project.path(text_file), content)
                return content_hash
        raise FileChanged(f"{arrival.file} is being written.", hint="Run it again when that has ended.")

    content_hash = parse(source)
    files.move(source, project.path(archived))
    # Whoever had it open may have written to it until now: what is archived is what counts.
    if listing.hash_of(project.path(archived)) != content_hash:
        content_hash = parse(project.path(archived))
    version = Version(archived, f"sha256:{content_hash}", listing.minute(at))
    known = listed.entry(arrival.name)
    listed = listing.list_version(project, listed, arrival.name, arrival.ext, version, tools.summarize)
    return listed, Taken(arrival.file, text_file, archived, 1 if known is None else len(known.versions) + 1)
