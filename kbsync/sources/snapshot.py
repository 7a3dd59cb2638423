"""Reads one version of a file: the bytes, their hash and the stat they had, or the news that they changed meanwhile."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from kbsync.errors import FailFile, FileChanged, FileGone, KbsyncError, RetryLater, SkipFile, Unready
from kbsync.filesystem import FileSystem, Stat
from kbsync.reasons import Reason
from kbsync.sources.full_disk_access import AccessWithheld

_BLOCK = 1 << 20
# Windows: ERROR_SHARING_VIOLATION and ERROR_LOCK_VIOLATION, which come as a permission that is denied.
_IN_USE = (32, 33)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`head` holds the first bytes (all of them unless `size` is larger), `content_hash` is SHA-256 (hex) of all."""

    stat: Stat
    content_hash: str
    head: bytes

    @property
    def size(self) -> int:
        return self.stat.size


def read_snapshot(
    fs: FileSystem, path: str, keep_bytes: int, sink: Callable[[bytes], object] = lambda block: None
) -> Snapshot:
    """Read a regular file once, hashing all of it and keeping the first `keep_bytes`; `sink` gets every block.

    Raises FileGone, FileChanged (it changed while it was read), SkipFile (no regular file), FailFile(PERMISSION) and
    RetryLater(IO).
    """
    try:
        with fs.open_file(path) as file:
            before = file.fstat()
            if before.cloud_only:
                raise SkipFile(Reason.CLOUD_ONLY, f"{path} is in the cloud only now.")
            digest, head, size = hashlib.sha256(), bytearray(), 0
            while block := file.read(_BLOCK):
                digest.update(block)
                sink(block)
                size += len(block)
                if len(head) < keep_bytes:
                    head += block[: keep_bytes - len(head)]
            after = file.fstat()
        there = fs.lstat(path)
    except OSError as error:
        raise reading_failed(path, error) from error
    if before != after or size != after.size or there != after:
        raise FileChanged(f"{path} changed while it was read.")
    return Snapshot(after, digest.hexdigest(), bytes(head))


def reading_failed(path: str, error: OSError) -> KbsyncError:
    """Return the decision that follows from a failure to read."""
    if getattr(error, "winerror", None) in _IN_USE:
        return RetryLater(Reason.IO, f"Another program keeps {path} to itself.")
    if isinstance(error, AccessWithheld):
        return FailFile(Reason.PERMISSION, f"Permission to read {path} was denied: {error.strerror}.")
    match error.errno:
        case errno.EMFILE | errno.ENFILE | errno.ENOMEM:
            return Unready(Reason.IO, f"Reading {path} has to wait: {error.strerror}.")  # no fault of the file
        case errno.ENOENT | errno.ENOTDIR:
            return FileGone(f"{path} is not there any more.")
        case errno.EACCES | errno.EPERM:
            return FailFile(
                Reason.PERMISSION, f"Permission to read {path} was denied.", hint="Give yourself read permission."
            )
        case errno.ELOOP:
            return SkipFile(Reason.SYMLINK, f"{path} is or lies behind a symbolic link.")
        case errno.EISDIR | errno.EINVAL | errno.ENXIO:
            return SkipFile(Reason.SPECIAL, f"{path} is not an ordinary file.")
        case _:
            return RetryLater(Reason.IO, f"Reading {path} failed: {error.strerror}.")
