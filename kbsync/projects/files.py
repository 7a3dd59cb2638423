"""The writes of a project: whole or not at all, on the disk before the next one. All that changes files is here."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kbsync.errors import UsageError, disk_full
from kbsync.filesystem import sync_folder

# Of what is not finished; a run removes what another one left.
UNFINISHED = ".kbsync-"
# A name on nearly every file system, in bytes.
LONGEST_NAME = 255


@contextmanager
def locked(folder: str) -> Iterator[bool]:
    """Hold the folder's lock, which ends with the process; yields False where another process has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        except OSError:
            yield True  # a file system without locks of folders: two at once are the user's to avoid
        else:
            yield True
    finally:
        os.close(descriptor)


def replace(path: str, text: str) -> None:
    """Write a text beside a file, have it reach the disk, and rename it over the file. Raises StorageUnavailable."""
    folder = os.path.dirname(path)
    with told(path):
        descriptor, temporary = tempfile.mkstemp(prefix=UNFINISHED, dir=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode("utf-8", "surrogateescape"))
                file.flush()
                os.fchmod(file.fileno(), _mode(path))
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        sync_folder(folder)


def move(source: str, target: str) -> None:
    """Move a file to a name that is free, also to another disk. Raises StorageUnavailable and FileNotFoundError."""
    with told(target):
        try:
            # A link fails where the name is taken, which a rename would not.
            os.link(source, target, follow_symlinks=False)
        except OSError as error:
            if error.errno == errno.EEXIST:
                raise
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS):
                raise
            _copy(source, target)
        sync_folder(os.path.dirname(target))
    with told(source):
        try:
            os.unlink(source)
        except FileNotFoundError:
            pass  # whoever took it away meanwhile: it is in the archive
        except OSError:
            os.unlink(target)  # one that stays where it was is not to be in both places
            raise
        sync_folder(os.path.dirname(source))


def remove(path: str) -> None:
    """Take a file away whose content lies elsewhere in the project, on the disk before the next write."""
    with told(path):
        os.unlink(path)
        sync_folder(os.path.dirname(path))


def must_be_folder(path: str) -> None:
    """Raise UsageError where a folder of a project is a link, or no folder: what is done there would be done elsewhere.

    One that is missing is none of these.
    """
    if os.path.islink(path):
        raise UsageError(
            f"{path} is a symbolic link, and may lead out of the project.", hint="Put a real folder in its place."
        )
    if os.path.lexists(path) and not os.path.isdir(path):
        raise UsageError(f"{path} is no folder.", hint="Take it away: the next ingest makes one.")


def settle(folder: str) -> None:
    """Have the names in a folder reach the disk, whoever gave them."""
    with told(folder):
        sync_folder(folder)


def sweep(folder: str) -> None:
    """Remove what an earlier run left unfinished in a folder."""
    with os.scandir(folder) as entries:
        for name in [entry.name for entry in entries if entry.name.startswith(UNFINISHED)]:
            os.unlink(os.path.join(folder, name))


def set_aside(path: str) -> str:
    """Give a damaged file another name beside it and return that: nothing of it is lost."""
    aside = _aside(path)
    with told(path):
        os.rename(path, aside)
        sync_folder(os.path.dirname(path))
    return aside


def copy_aside(path: str) -> str:
    """Copy a file as `set_aside` moves one."""
    aside = _aside(path)
    with told(aside):
        _copy(path, aside)
    return aside


def _aside(path: str) -> str:
    number = 1
    while os.path.lexists(aside := f"{path}.damaged-{number}"):
        number += 1
    return aside


def shortened(name: str, room: int) -> str:
    """Return a name that takes no more than `room` bytes, cut between characters."""
    return name if len(os.fsencode(name)) <= room else os.fsencode(name)[:room].decode("utf-8", "ignore")


@contextmanager
def told(path: str) -> Iterator[None]:
    """Raise what the system says of a write as what a person can do about it."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(path) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise UsageError(f"{path} cannot be changed: {error.strerror}.", hint="Make it writable.") from error
        raise


def _copy(source: str, target: str) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=UNFINISHED, dir=os.path.dirname(target))
    try:
        os.close(descriptor)
        shutil.copy2(source, temporary)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.rename(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _mode(path: str) -> int:
    """Return the mode that a file has, or that a new one would get: a temporary one is private."""
    try:
        return os.stat(path).st_mode & 0o7777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
