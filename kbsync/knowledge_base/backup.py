"""Writes a backup while everything runs: one moment of the database and the copies that it names, in a new folder.

Order: the database first, which says what belongs to it, then the files. A document that was removed meanwhile has
taken its stored copy along: then the database is copied anew. Staged copies wait until they are copied.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from kbsync.clock import Clock
from kbsync.config.locations import Locations
from kbsync.errors import EngineBusy, KbsyncError, RetryLater, UsageError
from kbsync.failpoints import failpoint
from kbsync.filesystem import as_text, stat_of, sync_folder
from kbsync.knowledge_base import manifest
from kbsync.knowledge_base.manifest import CONFIG, CONVERSIONS, DATABASE, DOCUMENTS, MANIFEST, STAGING, Manifest
from kbsync.model import Source
from kbsync.reasons import Reason
from kbsync.store import backup_contents, copies, documents, migrations
from kbsync.store.backup_contents import Contents
from kbsync.store.connection import Connection
from kbsync.store.database_copy import copy_database
from kbsync.store.stored_files import StoredFiles
from kbsync.store.writer import Readers, Writer
from kbsync.version import version

# Between the copy of the database and that of the last file a purge may come; not again and again.
_TRIES = 5
_HOLD_UP = "Look for it with `kbsync check --repair`."


@dataclass(frozen=True, slots=True)
class Written:
    """A backup that is there. `seconds`: how long it took."""

    path: str
    manifest: Manifest
    seconds: float


@dataclass(slots=True)
class _Files:
    """What is in the folder so far: relative path -> (SHA-256 in hex, bytes); and what is not whole."""

    files: dict[str, tuple[str, int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class Backups:
    """Writes backups of an open engine, one at a time. Any thread may ask; search and indexing go on."""

    def __init__(
        self,
        locations: Locations,
        writer: Writer,
        readers: Readers,
        stored: StoredFiles,
        clock: Clock,
        sources: Callable[[], Sequence[Source]],
        entries: Callable[[], Mapping[str, str]],
        own: frozenset[tuple[int, int]],
        stops: Callable[[], bool],
    ) -> None:
        """`entries`: each source as config.toml spells it -> where it leads; `stops`: the process is to end."""
        self._locations = locations
        self._writer = writer
        self._readers = readers
        self._stored = stored
        self._clock = clock
        self._sources = sources
        self._entries = entries
        self._own = own
        self._stops = stops
        self._one = threading.Lock()

    def write(self, folder: str) -> Written:
        """Write a backup to a folder that is new or empty; it is there whole, or not at all.

        Raises UsageError for a folder that cannot take one, EngineBusy while another one is written, RetryLater for a
        disk that is full and for a process that is to end.
        """
        if not self._one.acquire(blocking=False):
            raise EngineBusy("A backup is being written.", hint="Wait for it to end.")
        try:
            return self._whole(os.path.realpath(folder))
        except OSError as error:
            raise _failed(folder, error) from error
        finally:
            self._one.release()

    def _whole(self, target: str) -> Written:
        begun = self._clock.monotonic()
        self._refuse(target)
        # What an interrupted one left. Nobody else writes there: one process has the data folder, and one at a time.
        beside, name = os.path.split(target)
        left = re.compile(re.escape(name) + r"\.partial-[0-9a-f]{8}")
        for other in os.listdir(beside):
            if left.fullmatch(other):
                shutil.rmtree(os.path.join(beside, other))
        partial = f"{target}.partial-{uuid.uuid4().hex[:8]}"
        os.mkdir(partial, 0o700)
        failpoint("backup.begun")
        try:
            found = self._written(partial)
            copies.sync_tree(partial)
            failpoint("backup.synced")
            os.rename(partial, target)
        except BaseException:
            with suppress(OSError):  # what raised says more
                shutil.rmtree(partial)
            raise
        sync_folder(beside)
        failpoint("backup.renamed")
        return Written(target, found, self._clock.monotonic() - begun)

    def _refuse(self, target: str) -> None:
        shown = as_text(target)
        manifest.refuse_odd(target)
        if not os.path.isdir(os.path.dirname(target)):
            raise UsageError(f"There is no folder {as_text(os.path.dirname(target))}.", hint="Make it first.")
        if os.path.lexists(target):
            if not os.path.isdir(target):
                raise UsageError(f"{shown} is a file.", hint="Name a folder that is not there yet.")
            if os.path.ismount(target):
                raise UsageError(f"{shown} is a disk's own folder.", hint="Name a new folder in it.")
            if os.listdir(target):
                raise UsageError(
                    f"{shown} is not empty.", hint="Each backup goes to a folder of its own: name a new one."
                )
        for source in self._sources():
            if _lies_in(target, source.path):
                raise UsageError(
                    f"{shown} lies in the source {as_text(source.path)}: the backup would be indexed.",
                    hint="Name a folder outside of your sources.",
                )
        above = os.path.dirname(target)
        while True:
            stat = stat_of(os.stat(above))
            if (stat.device, stat.inode) in self._own:
                raise UsageError(
                    f"{shown} lies in kbsync's own folder.", hint="Name one elsewhere, best on another disk."
                )
            if above == os.path.dirname(above):
                return
            above = os.path.dirname(above)

    def _written(self, partial: str) -> Manifest:
        for part in (DOCUMENTS, STAGING, CONVERSIONS):
            os.mkdir(os.path.join(partial, part), 0o700)
        done = _Files()
        hold = self._stored.hold
        with hold.held():
            named = self._snapshot(partial)
            hold.only(named.staged)
            tries = 1
            while gone := self._copied(partial, named, done):
                if tries == _TRIES:
                    raise RetryLater(
                        Reason.RETRY, f"{len(gone)} documents were removed while they were copied.", hint="Try again."
                    )
                tries += 1
                hold.all()
                named = self._snapshot(partial)
                hold.only(named.staged)
        self._without_extra(partial, named, done)
        with suppress(FileNotFoundError):
            done.files[CONFIG] = copies.copy_file(
                os.path.realpath(self._locations.config_file), os.path.join(partial, CONFIG)
            )
        failpoint("backup.files_copied")
        done.files[DATABASE] = copies.hash_file(os.path.join(partial, DATABASE), self._go_on)
        found = Manifest(
            version(),
            migrations.migrations()[-1][0],
            self._clock.now(),
            os.path.expanduser("~"),
            dict(self._entries()),
            named.documents,
            named.chunks,
            sum(name.startswith(f"{DOCUMENTS}/") for name in done.files),
            done.files,
            (*(f"{count} {what}. {_HOLD_UP}" for what, count in named.out_of_step), *done.problems),
        )
        copies.write_file(os.path.join(partial, MANIFEST), manifest.written(found))
        failpoint("backup.manifest_written")
        return found

    def _go_on(self) -> None:
        if self._stops():
            raise RetryLater(Reason.RETRY, "kbsync is stopping; nothing was left of the backup.")

    def _snapshot(self, partial: str) -> Contents:
        """Copy the database, look whether the copy is whole, and return what it names. Raises KbsyncError."""
        path = os.path.join(partial, DATABASE)
        with suppress(FileNotFoundError):
            os.unlink(path)
        copy_database(self._writer, path, self._go_on)
        reader = Readers(path)
        try:
            named = reader.read(backup_contents.look)
        finally:
            reader.close()
        if named.complaints:
            raise KbsyncError(
                f"The copy of the database is damaged ({named.complaints} complaints), so the database may be.",
                hint="`kbsync check` tells.",
            )
        failpoint("backup.snapshot_checked")
        return named

    def _copied(self, partial: str, named: Contents, done: _Files) -> list[str]:
        """Copy what is not there yet; return the stored copies that are gone because their documents are."""
        vanished = []
        for name, content_hash in sorted(named.stored.items()):
            relative = f"{DOCUMENTS}/{name}"
            if relative in done.files:
                continue
            if not self._copy(partial, relative, self._locations.documents_dir, done):
                vanished.append(name)
            elif done.files[relative][0] != content_hash:
                done.problems.append(f"The stored copy {name} is damaged. {_HOLD_UP}")
        if vanished:
            living = self._readers.read(_stored_names)
            gone = [name for name in vanished if name not in living]
            if gone:
                return gone
            done.problems += [f"The stored copy {name} is missing. {_HOLD_UP}" for name in vanished]
        for name in sorted(named.staged):
            relative = f"{STAGING}/{name}"
            if relative not in done.files and not self._copy(partial, relative, self._locations.staging_dir, done):
                done.problems.append(f"The staged copy {name} of a job is missing. {_HOLD_UP}")
        for name in sorted(os.listdir(self._locations.conversions_dir)):
            # One that is replaced at this moment can be made again.
            relative = f"{CONVERSIONS}/{name}"
            if name.partition("-")[0] in named.hashes and relative not in done.files:
                self._copy(partial, relative, self._locations.conversions_dir, done)
        return []

    def _copy(self, partial: str, relative: str, folder: str, done: _Files) -> bool:
        try:
            done.files[relative] = copies.copy_file(
                os.path.join(folder, os.path.basename(relative)), os.path.join(partial, relative), self._go_on
            )
        except FileNotFoundError:
            return False
        failpoint("backup.file_copied")
        return True

    def _without_extra(self, partial: str, named: Contents, done: _Files) -> None:
        """Take out what an earlier copy of the database named, and this one does not."""
        wanted = {f"{DOCUMENTS}/{name}" for name in named.stored} | {f"{STAGING}/{name}" for name in named.staged}
        for relative in [name for name in done.files if name not in wanted]:
            if not relative.startswith(f"{CONVERSIONS}/"):
                os.unlink(os.path.join(partial, relative))
                del done.files[relative]


def _stored_names(connection: Connection) -> set[str]:
    return {os.path.basename(path) for path in documents.stored_paths(connection)}


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _failed(folder: str, error: OSError) -> KbsyncError:
    shown = as_text(folder)
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return RetryLater(
                Reason.NO_SPACE,
                f"The disk that holds {shown} is full.",
                hint="Free some space, or name another folder.",
            )
        case errno.ENOTEMPTY | errno.EEXIST:
            return UsageError(f"{shown} is not empty any more.", hint="Name a new folder.")
        case _:
            at = f" ({as_text(os.fsdecode(error.filename))})" if error.filename else ""
            return KbsyncError(f"The backup to {shown} failed: {error.strerror}{at}.", hint="Nothing was left of it.")
