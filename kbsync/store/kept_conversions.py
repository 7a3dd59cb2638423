"""Kept conversions: what a converter made of a content, so that new chunk settings or a new model never convert again.

One compressed file for each content and converter in `conversions/`, replaced whole or not at all. They can all be
made again: losing one costs time, nothing else.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Set as AbstractSet


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
        self.forget(content_hash)
        temporary = os.path.join(self._folder, f".{uuid.uuid4().hex}")
        try:
            with os.fdopen(
                os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb"
            ) as file:
                file.write(document)
            os.replace(temporary, self._path(content_hash, converter))
        except OSError:
            _unlink(temporary)

    def forget(self, content_hash: str) -> None:
        """Remove what is kept of a content."""
        for name in os.listdir(self._folder):
            if name.startswith(content_hash):
                _unlink(os.path.join(self._folder, name))

    def sweep(self, content_hashes: AbstractSet[str]) -> None:
        """Remove what belongs to no document, and what a crash left half written."""
        for name in os.listdir(self._folder):
            if name.partition("-")[0] not in content_hashes:
                _unlink(os.path.join(self._folder, name))

    def _path(self, content_hash: str, converter: str) -> str:
        mark = hashlib.sha256(converter.encode()).hexdigest()[:16]
        return os.path.join(self._folder, f"{content_hash}-{mark}.json.z")


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # gone already
