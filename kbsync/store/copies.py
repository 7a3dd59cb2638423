"""Copies files byte by byte, with their hash: a backup shares no block with what it was made of."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import BinaryIO

from kbsync.filesystem import sync_folder

_PIECE = 1 << 20


def copy_file(source: str, target: str, go_on: Callable[[], None] = lambda: None) -> tuple[str, int]:
    """Copy an ordinary file to a new one (0600) and return (SHA-256 in hex, bytes). The caller syncs it.

    `go_on` is asked before each piece and raises to end it. Raises OSError; what was written so far stays.
    """
    reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(reading, "rb") as original:
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(writing, "wb") as copy:
            return _read_through(original, copy.write, go_on)


def hash_file(path: str, go_on: Callable[[], None] = lambda: None) -> tuple[str, int]:
    """Return (SHA-256 in hex, bytes) of an ordinary file. Raises OSError."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        return _read_through(file, lambda _piece: None, go_on)


def write_file(path: str, content: bytes) -> None:
    """Write a new file (0600). The caller syncs it. Raises OSError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content)


def sync_tree(folder: str) -> None:
    """Have a folder reach the disk with all that is in it: files first, then the folders that name them."""
    for path, _, names in os.walk(folder, topdown=False):
        for name in names:
            _sync(os.path.join(path, name))
        sync_folder(path)


def _read_through(file: BinaryIO, sink: Callable[[bytes], object], go_on: Callable[[], None]) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    go_on()
    while piece := file.read(_PIECE):
        digest.update(piece)
        size += len(piece)
        sink(piece)
        go_on()
    return digest.hexdigest(), size


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
