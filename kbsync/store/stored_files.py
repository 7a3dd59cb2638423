"""Copies that kbsync keeps: staged files on their way in, stored documents. Each step reaches the disk before the next.

The order that loses nothing: fsync the staged copy, link it into `documents/` and fsync that folder, commit
`stored_path`, unlink the staged copy.
"""

from __future__ import annotations

import errno
import filecmp
import os
import re
import stat
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO

from kbsync.errors import StorageUnavailable, disk_full, folder_gone
from kbsync.failpoints import failpoint
from kbsync.filesystem import sync_folder
from kbsync.reasons import Reason
from kbsync.store.staging_hold import StagingHold

# An ending in the name of a stored copy: anything else that stands after a dot is left out.
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,16}\Z")
# A second link to a staged copy, about to take the place of a stored one that is damaged.
_BESIDE = re.compile(r"[0-9a-f]{32}\.new")
# The folder among the stored copies for those that are damaged.
_SET_ASIDE = "damaged"
# What our own disk answers when it is full, or was made read-only, broke or went while it was in use: no file's doing.
_FULL = (errno.ENOSPC, errno.EDQUOT)
_UNUSABLE = (errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM, errno.ESTALE, errno.ENOTCONN, errno.ENXIO, errno.ENODEV)
# What the process has too little of, whatever the disk says.
_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_MISSING = (errno.ENOENT, errno.ENOTDIR)
# A disk on which this much can be written has room again.
_PROOF_BYTES = 1 << 16


class StagedFile:
    """A staged copy that is being written."""

    def __init__(self, file: BinaryIO, folder: str) -> None:
        self._file = file
        self._folder = folder

    def write(self, block: bytes) -> int:
        """Write all of a block. Raises StorageUnavailable: a full disk here is no error of what is copied."""
        with _storage_told(self._folder):
            return self._file.write(block)


class StoredFiles:
    """The folders `staging/` and `documents/` of the data folder."""

    def __init__(self, staging_dir: str, documents_dir: str) -> None:
        self.staging_dir = staging_dir
        self.documents_dir = documents_dir
        # For a backup, which copies what was staged when it began.
        self.hold = StagingHold(self._remove)
        # Handed out by this process and not removed yet: a private copy that is being read belongs to no job's row.
        self._in_hand: set[str] = set()

    @contextmanager
    def staging(self, name: str) -> Iterator[tuple[str, StagedFile]]:
        """Yield (path, file) for a new staged copy; it is on the disk when the block ends, gone if the block raises.

        Raises StorageUnavailable for a disk that is full or cannot be written any more.
        """
        path = os.path.join(self.staging_dir, uuid.uuid4().hex + _ending(name))
        with _storage_told(self.staging_dir):
            file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
            self._in_hand.add(path)
            try:
                with file:
                    yield path, StagedFile(file, self.staging_dir)
                    file.flush()
                    failpoint("stored_files.staged")
                    os.fsync(file.fileno())
                    failpoint("stored_files.staged_synced")
                sync_folder(self.staging_dir)
                failpoint("stored_files.staging_synced")
            except BaseException:
                self._remove(path)
                raise

    def store(self, staged_path: str, content_hash: str, name: str) -> str:
        """Link a staged copy to its permanent place `{content_hash}.{ext}` and return that path. Twice does no harm.

        Raises StorageUnavailable as `staging` does.
        """
        path = os.path.join(self.documents_dir, content_hash + _ending(name))
        with _storage_told(self.documents_dir):
            try:
                os.link(staged_path, path)
                failpoint("stored_files.linked")
            except FileExistsError:
                # The same content was stored before: names are content hashes. A damaged copy is mended.
                if not filecmp.cmp(staged_path, path, shallow=False):
                    beside = os.path.join(self.documents_dir, f"{uuid.uuid4().hex}.new")
                    os.link(staged_path, beside)
                    try:
                        failpoint("stored_files.linked_beside")
                        os.replace(beside, path)
                    except BaseException:
                        self._remove(beside)
                        raise
            sync_folder(self.documents_dir)
            failpoint("stored_files.documents_synced")
        return path

    def discard(self, path: str) -> None:
        """Remove a staged or stored copy; one that is gone already is fine.

        Raises StorageUnavailable for a stored copy that cannot be removed; a staged one is left to the next start.
        """
        if os.path.dirname(path) != self.staging_dir or not self.hold.takes(path):
            self._remove(path)

    def _remove(self, path: str) -> None:
        try:
            with _storage_told(os.path.dirname(path)):
                os.unlink(path)
        except FileNotFoundError:
            pass  # removed before a crash that made us come again
        except StorageUnavailable:
            if os.path.dirname(path) != self.staging_dir:
                raise
        self._in_hand.discard(path)
        failpoint("stored_files.discarded")

    def prove_room(self) -> None:
        """Write something and remove it; a folder that was removed is made anew, where the data folder is there.

        Raises StorageUnavailable where that does not go.
        """
        for folder in (self.staging_dir, self.documents_dir):
            with _storage_told(folder), suppress(FileExistsError):
                os.mkdir(folder, 0o700)
        with self.staging(".room") as (path, file):
            file.write(b"\0" * _PROOF_BYTES)
        self.discard(path)

    def room(self) -> int | None:
        """Return how many bytes are free on the disk of these folders; None where the system does not say."""
        try:
            there = os.statvfs(self.staging_dir)
        except OSError:
            return None
        return there.f_bavail * there.f_frsize

    def stage_again(self, name: str) -> str:
        """Link a stored copy into `staging/`, for a job that takes it in anew; return that path. Raises OSError."""
        path = os.path.join(self.staging_dir, uuid.uuid4().hex + _ending(name))
        self._in_hand.add(path)
        with _storage_told(self.staging_dir):
            os.link(os.path.join(self.documents_dir, name), path)
        return path

    def sync_staging(self) -> None:
        """Have what was linked into `staging/` reach the disk."""
        with _storage_told(self.staging_dir):
            sync_folder(self.staging_dir)

    def names(self) -> tuple[set[str], set[str]]:
        """Return the names of the files in `staging/` and in `documents/`."""
        staged, stored = (
            {entry.name for entry in _listed(folder) if entry.is_file(follow_symlinks=False)}
            for folder in (self.staging_dir, self.documents_dir)
        )
        return staged, stored

    def stored(self) -> list[tuple[str, int]]:
        """Return (path, how many links) of every file among the stored copies."""
        return _files(self.documents_dir)

    def staged(self) -> list[str]:
        """Return every staged file."""
        return [path for path, _links in _files(self.staging_dir)]

    def in_hand(self) -> set[str]:
        """Return the staged files that this process made and did not remove yet."""
        return set(self._in_hand)

    def aside_of(self, paths: Sequence[str]) -> list[str]:
        """Return where damaged copies of these lie."""
        folder = os.path.join(self.documents_dir, _SET_ASIDE)
        names = {os.path.basename(path) for path in paths}
        there = [path for path, _links in _files(folder)] if os.path.isdir(folder) else []
        return [path for path in there if any(path.endswith(name) for name in names)]

    def set_aside(self, path: str) -> str:
        """Move a stored copy that is damaged out of the way, and return where it lies then. It is never removed."""
        folder = os.path.join(self.documents_dir, _SET_ASIDE)
        with _storage_told(self.documents_dir):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            name = os.path.basename(path)
            place, number = os.path.join(folder, name), 1
            while os.path.lexists(place):
                number += 1
                place = os.path.join(folder, f"{number}-{name}")
            os.rename(path, place)
            failpoint("stored_files.set_aside")
            sync_folder(folder)
            sync_folder(self.documents_dir)
        return place

    def sweep(self, needed: set[str], *, keep_stored: bool = False) -> list[str]:
        """Remove what a crash left behind and return the stored copies that no document claims; for a start.

        `keep_stored`: no stored copy goes, for the index is being built anew from them and a job may fail.

        A stored copy goes only while its staged twin (a hard link) waits for a job, which stores it again. Any other
        may be the only copy of somebody's file, whose index was lost, and stays. One whose twin waits for nobody was
        just being stored from an inbox, as a rule, and is again: it is told at the next start, if it is unclaimed then.
        """
        names, unclaimed = {os.path.basename(path) for path in needed}, []
        twins = {os.lstat(path).st_ino for path in self.staged() if os.path.basename(path) in names}
        for path in _others(self.documents_dir, needed):
            there = os.lstat(path)
            if _BESIDE.fullmatch(os.path.basename(path)):
                self.discard(path)  # it was to take the place of a damaged copy, and is made again
            elif there.st_nlink == 1:
                unclaimed.append(path)
            elif there.st_ino in twins and not keep_stored:
                self.discard(path)
        for path in _others(self.staging_dir, needed):
            self.discard(path)
        return unclaimed


def _others(folder: str, needed: set[str]) -> list[str]:
    """Return a folder's files that are not needed. Names count: a data folder may have been moved since."""
    names = {os.path.basename(path) for path in needed}
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name not in names]
    return [path for path in paths if not os.path.isdir(path)]


def _files(folder: str) -> list[tuple[str, int]]:
    """Return (path, how many links) of the ordinary files in a folder."""
    found = []
    for name in sorted(entry.name for entry in _listed(folder)):
        try:
            there = os.lstat(os.path.join(folder, name))
        except FileNotFoundError:
            continue  # it went meanwhile
        if stat.S_ISREG(there.st_mode):
            found.append((os.path.join(folder, name), there.st_nlink))
    return found


def _listed(folder: str) -> list[os.DirEntry[str]]:
    """List a folder of ours. Raises StorageUnavailable where it is gone: that says nothing about what it held."""
    with _storage_told(folder), os.scandir(folder) as entries:
        return list(entries)


def _ending(name: str) -> str:
    match = _ENDING.search(name)
    return match[0].lower() if match else ""


@contextmanager
def _storage_told(folder: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise disk_full(folder) from error
        if error.errno in _UNUSABLE:
            raise StorageUnavailable(
                Reason.IO,
                f"Nothing can be written to {folder}: {error.strerror}.",
                hint="Have its disk checked and mounted again.",
            ) from error
        if error.errno in _SHORT:
            raise StorageUnavailable(
                Reason.IO,
                f"Nothing can be written to {folder}: {error.strerror}.",
                hint="Close other programs, or start kbsync with higher limits (`ulimit -n`, LimitNOFILE=).",
            ) from error
        if error.errno in _MISSING and not os.path.isdir(folder):
            raise folder_gone(folder) from error
        raise
