"""Copies that kbsync keeps: staged files on their way in, stored documents. Each step reaches the disk before the next.

The order that loses nothing: fsync the staged copy, link it into `documents/` and fsync that folder, commit
`stored_path`, unlink the staged copy.
"""

from __future__ import annotations

import errno
import filecmp
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from kbsync.errors import RetryLater
from kbsync.reasons import Reason

# An ending in the name of a stored copy: anything else that stands after a dot is left out.
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,16}\Z")


class StoredFiles:
    """The folders `staging/` and `documents/` of the data folder."""

    def __init__(self, staging_dir: str, documents_dir: str) -> None:
        self.staging_dir = staging_dir
        self.documents_dir = documents_dir

    @contextmanager
    def staging(self, name: str) -> Iterator[tuple[str, BinaryIO]]:
        """Yield (path, file) for a new staged copy; it is on the disk when the block ends, gone if the block raises.

        Raises RetryLater(NO_SPACE) for a full disk.
        """
        path = os.path.join(self.staging_dir, uuid.uuid4().hex + _ending(name))
        with _no_space_told(self.staging_dir):
            file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
            try:
                with file:
                    yield path, file
                    file.flush()
                    os.fsync(file.fileno())
                _sync_folder(self.staging_dir)
            except BaseException:
                self.discard(path)
                raise

    def store(self, staged_path: str, content_hash: str, name: str) -> str:
        """Link a staged copy to its permanent place `{content_hash}.{ext}` and return that path. Twice does no harm."""
        path = os.path.join(self.documents_dir, content_hash + _ending(name))
        with _no_space_told(self.documents_dir):
            try:
                os.link(staged_path, path)
            except FileExistsError:
                # The same content was stored before: names are content hashes. A damaged copy is mended.
                if not filecmp.cmp(staged_path, path, shallow=False):
                    beside = os.path.join(self.documents_dir, f"{uuid.uuid4().hex}.new")
                    os.link(staged_path, beside)
                    os.replace(beside, path)
            _sync_folder(self.documents_dir)
        return path

    def discard(self, path: str) -> None:
        """Remove a staged or stored copy; one that is gone already is fine."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass  # removed before a crash that made us come again

    def sweep(self, needed: set[str]) -> list[str]:
        """Remove what a crash left behind and return the stored copies that no document claims; for a start.

        A stored copy goes only while its staged twin (a hard link) is there, whose job stores it again. Any other may
        be the only copy of somebody's file, whose index was lost, and stays.
        """
        unclaimed = []
        for path in _others(self.documents_dir, needed):
            if os.lstat(path).st_nlink > 1:
                self.discard(path)
            else:
                unclaimed.append(path)
        for path in _others(self.staging_dir, needed):
            self.discard(path)
        return unclaimed


def _others(folder: str, needed: set[str]) -> list[str]:
    """Return a folder's files that are not needed. Names count: a data folder may have been moved since."""
    names = {os.path.basename(path) for path in needed}
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name not in names]
    return [path for path in paths if not os.path.isdir(path)]


def _ending(name: str) -> str:
    match = _ENDING.search(name)
    return match[0].lower() if match else ""


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _no_space_told(folder: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise RetryLater(
                Reason.NO_SPACE, f"The disk that holds {folder} is full.", hint="Free some space and try again."
            ) from error
        raise
