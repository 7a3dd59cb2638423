"""Kept conversions: what a converter made of a content, so that new chunk settings or a new model never convert again.

One compressed file for each content and converter in `conversions/`, replaced whole or not at all. They can all be
made again: losing one costs time, nothing else.
"""

from __future__ import annotations

import hashlib
import math
import os
import uuid
from collections.abc import Set as AbstractSet
from contextlib import suppress

from kbsync.failpoints import failpoint


class KeptConversions:
    """The folder `conversions/` of the data folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find(self, content_hash: str, converter: str) -> str | None:
        """Return the path of the conversion of a content by a converter, None where none is kept."""
        path = self._path(content_hash, converter)
        return path if os.path.exists(path) else None

    def keep(self, content_hash: str, converter: str, document: bytes) -> None:
        """Keep a conversion in place of any other of the same content. A disk that is full keeps nothing."""
        with suppress(OSError):  # somebody removed it; where its parent went too, nothing is kept
            os.mkdir(self._folder, 0o700)
        self.forget(content_hash)
        temporary = os.path.join(self._folder, f".{uuid.uuid4().hex}")
        try:
            with os.fdopen(
                os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb"
            ) as file:
                file.write(document)
            failpoint("kept_conversions.written")
            os.replace(temporary, self._path(content_hash, converter))
            failpoint("kept_conversions.renamed")
        except BaseException as error:
            _unlink(temporary)
            if not isinstance(error, OSError):
                raise

    def forget(self, content_hash: str) -> None:
        """Remove what is kept of a content."""
        for name in _names(self._folder):
            if name.startswith(content_hash):
                _unlink(os.path.join(self._folder, name))
                failpoint("kept_conversions.forgotten")

    def listed(self) -> list[tuple[str, str, int]]:
        """Return (content hash, path, bytes) of everything that is kept."""
        found = []
        for name in _names(self._folder):
            content_hash, dash, _ = name.partition("-")
            path = os.path.join(self._folder, name)
            if dash:
                try:
                    found.append((content_hash, path, os.lstat(path).st_size))
                except FileNotFoundError:
                    continue  # it went meanwhile
        return found

    def discard(self, path: str) -> None:
        """Remove one kept conversion; one that is gone already is fine."""
        _unlink(path)

    def sweep(self, content_hashes: AbstractSet[str], until: float = math.inf) -> None:
        """Remove what belongs to no document, and what a crash left half written, if it was written before `until`.

        While documents are converted the newest are of those that come yet. `until` in seconds since 1970.
        """
        for name in _names(self._folder):
            path = os.path.join(self._folder, name)
            if name.partition("-")[0] not in content_hashes and _written_at(path) < until:
                _unlink(path)

    def _path(self, content_hash: str, converter: str) -> str:
        mark = hashlib.sha256(converter.encode()).hexdigest()[:16]
        return os.path.join(self._folder, f"{content_hash}-{mark}.json.z")


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []  # gone, or not to be read now: what is not found is made again


def _written_at(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return math.inf  # gone meanwhile


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # gone already, or a disk that nothing can be removed from: it is found again by its content's hash
