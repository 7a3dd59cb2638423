"""The one way by which a file is taken out of a folder: out of an inbox, and only bytes that are kept already.

Everything else reads. A mirror has no such door: it cannot be made for one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
from errno import EACCES, EAGAIN, EINVAL, ENOLCK, ENOSYS, EOPNOTSUPP, EPERM, EROFS
from typing import Protocol

from kbsync.errors import FailFile, FileChanged, KbsyncError
from kbsync.filesystem import READ_ONLY, Stat, stat_of, walked_to
from kbsync.model import Source
from kbsync.reasons import Reason
from kbsync.sources.snapshot import reading_failed

_BLOCK = 1 << 20
# The system, or this disk, does not tell who writes to a file.
_NOT_TOLD = (EACCES, EPERM, EINVAL, ENOLCK, ENOSYS, EOPNOTSUPP)
# Where nobody can say whether a file is still open, it is taken in when it has been left alone for so many seconds.
UNTOLD_QUIET_S = 30.0
# One that somebody holds open is looked at again after as long as it has been quiet by now, within these bounds.
_SHORTEST_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0


class Inbox(Protocol):
    """What may be done to the files of one inbox."""

    def is_open_for_writing(self, path: str) -> bool | None:
        """Say whether a program has the file open for writing, None where the system does not tell. Raises OSError."""
        ...

    def remove(self, path: str, stat: Stat, content_hash: str) -> None:
        """Remove the file, if it is still that very version with that very content and nobody has it open for writing.

        Raises FileGone, FileChanged (it stays), FailFile(PERMISSION) and RetryLater(IO).
        """
        ...


def writing_wait(is_open: bool | None, quiet_s: float) -> float:
    """Return in how many seconds a file may be taken in that was written last `quiet_s` seconds ago; 0: now.

    A download that stalls looks settled; taken in and removed, its rest would be written into nowhere.
    """
    if is_open:
        return min(max(quiet_s, _SHORTEST_WAIT_S), _LONGEST_WAIT_S)
    # A time ahead of the clock is no sign of a recent change.
    if is_open is None and 0 <= quiet_s < UNTOLD_QUIET_S:
        return UNTOLD_QUIET_S - quiet_s
    return 0.0


class RealInbox:
    """The files of an inbox on the real disk. Raises ValueError for a source that is none, and for a path outside."""

    def __init__(self, source: Source) -> None:
        if source.mode != "inbox":
            raise ValueError(f"{source.path} is no inbox: nothing is ever removed there")
        self._prefix = source.path.rstrip(os.sep) + os.sep

    def is_open_for_writing(self, path: str) -> bool | None:
        self._raise_outside(path)
        with walked_to(path) as (parent, name):
            descriptor = os.open(name, READ_ONLY, dir_fd=parent)
        try:
            leased = _leased(descriptor)
        finally:
            os.close(descriptor)  # ends the lease
        return None if leased is None else not leased

    def remove(self, path: str, stat: Stat, content_hash: str) -> None:
        try:
            self._remove(path, stat, content_hash)
        except OSError as error:
            raise _removing_failed(path, error) from error

    def _remove(self, path: str, stat: Stat, content_hash: str) -> None:
        self._raise_outside(path)
        with walked_to(path) as (parent, name):
            descriptor = os.open(name, READ_ONLY, dir_fd=parent)
            try:
                leased = _leased(descriptor)
                if leased is False or not _is_version(descriptor, stat, content_hash):
                    raise _changed(path)
                # Who opens it for writing meanwhile waits for the lease's end: then it is not quiet after all.
                if leased and fcntl.fcntl(descriptor, fcntl.F_GETLEASE) != fcntl.F_RDLCK:
                    raise _changed(path)
                if stat_of(os.stat(name, dir_fd=parent, follow_symlinks=False)) != stat:
                    raise _changed(path)
                os.unlink(name, dir_fd=parent)
            finally:
                os.close(descriptor)

    def _raise_outside(self, path: str) -> None:
        if not path.startswith(self._prefix) or ".." in path.split(os.sep):
            raise ValueError(f"{path!r} does not lie in the inbox {self._prefix}")


def _leased(descriptor: int) -> bool | None:
    """Take a read lease, which Linux gives only where nobody has the file open for writing: then False.

    None where the system does not tell. The lease ends when the descriptor is closed.
    """
    if not hasattr(fcntl, "F_SETLEASE"):
        return None
    try:
        # Who breaks a lease has its holder signalled, by default with one that ends the process: this one is ignored.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        if error.errno == EAGAIN:
            return False
        if error.errno in _NOT_TOLD:
            return None
        raise
    return True


def _is_version(descriptor: int, stat: Stat, content_hash: str) -> bool:
    if stat_of(os.fstat(descriptor)) != stat:
        return False
    digest = hashlib.sha256()
    while block := os.read(descriptor, _BLOCK):
        digest.update(block)
    return digest.hexdigest() == content_hash and stat_of(os.fstat(descriptor)) == stat


def _changed(path: str) -> FileChanged:
    return FileChanged(f"{path} changed after it was taken in; it is taken in again.")


def _removing_failed(path: str, error: OSError) -> KbsyncError:
    if error.errno in (EACCES, EPERM, EROFS):
        return FailFile(
            Reason.PERMISSION,
            f"{path} was taken in and is searchable, but may not be removed from the inbox: {error.strerror}.",
            hint="Remove it yourself, or give yourself permission to write to its folder.",
        )
    return reading_failed(path, error)
