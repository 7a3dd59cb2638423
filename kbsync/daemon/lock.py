"""One process works on a data folder at a time: a lock file that names the process and its socket."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Literal

from kbsync.errors import EngineBusy, StopEngine, disk_full
from kbsync.filesystem import is_at

Role = Literal["daemon", "command"]

# Between two tries; and how long the shared locks of those who only look may be in the way, one after another.
_RETRY_S = 0.05
_LOOK_S = 0.5
# More than the file ever holds.
_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds the lock. `socket` is None for a command, and for a daemon that is still starting.

    `doing`: what such a daemon's start is busy with, `since` (Unix seconds) when; `is_held_up`: it waits for something
    that a person must mend, so nobody should wait for it.
    """

    pid: int
    role: Role
    socket: str | None
    doing: str | None = None
    since: float | None = None
    is_held_up: bool = False


class DataLock:
    """An advisory lock (flock) on `{data_dir}/kb.lock`; the operating system lets go of it when the process ends.

    The file names the holder, and anybody may remove it. So the folder itself is locked too.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._folder: int | None = None

    def acquire(self, role: Role, wait_s: float = 0.0, ends: Callable[[], bool] = lambda: False) -> None:
        """Take the lock, waiting up to `wait_s` seconds for a command to end. Raises EngineBusy naming the owner.

        A running daemon is not waited for: it will not end. Nor is anybody once `ends` says that we shall end.
        """
        with _room_told(self._path):
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        begun = time.monotonic()
        deadline = begun + wait_s
        while not self._try():
            owner, now = _read(self._path), time.monotonic()
            # A look by `owner_of` holds it for an instant too, while the file still names a daemon that was killed.
            daemon_holds = owner is not None and owner.role == "daemon" and now - begun >= _LOOK_S
            if now >= max(deadline, begun + _LOOK_S) or daemon_holds or ends():
                raise _busy(owner, self._path)
            time.sleep(_RETRY_S)
        try:
            self.publish(role, None)
        except BaseException:
            self.release()
            raise

    def _try(self) -> bool:
        """Take both locks where nobody has them; return whether they are taken. Raises StopEngine."""
        with _room_told(self._path):
            descriptor = _open(self._path)
        try:
            _require_file(descriptor, self._path)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Removed since it was opened, a lock on it keeps nobody out.
            if is_at(descriptor, self._path):
                self._folder = _locked_folder(os.path.dirname(self._path))
                self._descriptor = descriptor
        except BlockingIOError:
            pass
        except OSError as error:
            raise _no_locks(self._path, error) from error
        finally:
            if self._descriptor is None:
                os.close(descriptor)
        return self._descriptor is not None

    @property
    def is_held(self) -> bool:
        return self._descriptor is not None

    def publish(
        self,
        role: Role,
        socket: str | None,
        doing: str | None = None,
        since: float | None = None,
        *,
        is_held_up: bool = False,
    ) -> None:
        """Write who holds the lock, where its socket is, and what its start is busy with, as in Owner.

        Only the holder calls it. Raises StorageUnavailable.
        """
        if self._descriptor is None:
            raise ValueError("the lock is not held")
        content = json.dumps(asdict(Owner(os.getpid(), role, socket, doing, since, is_held_up))).encode()
        with _room_told(self._path):
            # In one piece, the end of a longer one before it blank: whoever reads meanwhile finds this or that.
            os.pwrite(self._descriptor, content.ljust(os.fstat(self._descriptor).st_size), 0)
            os.ftruncate(self._descriptor, len(content))

    def keep(self) -> None:
        """Put the lock file back where somebody removed or replaced it: commands find the daemon by it.

        Raises StopEngine where another folder stands in the place of ours: it is another kbsync's.
        """
        folder = os.path.dirname(self._path)
        if self._folder is not None and os.path.isdir(folder) and not is_at(self._folder, folder):
            raise StopEngine(
                f"Another folder is at {folder} now; the one that this process works on was moved away or removed.",
                hint="Start kbsync again: it takes what is there.",
            )
        held = self._descriptor
        if held is None or is_at(held, self._path):
            return
        try:
            descriptor = _open(self._path)
        except OSError:
            return  # no room, or a folder in its place: tried again
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = os.pread(held, _LONGEST, 0)
            os.pwrite(descriptor, content, 0)
            os.ftruncate(descriptor, len(content))
        except OSError:
            os.close(descriptor)  # somebody looks at it right now: tried again
            return
        os.close(held)
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go. Twice does no harm."""
        descriptor, self._descriptor = self._descriptor, None
        folder, self._folder = self._folder, None
        if descriptor is not None:
            # A byte stays, and with it the file's room: the next holder can write its name on a full disk too.
            os.ftruncate(descriptor, 1)
            try:
                os.pwrite(descriptor, b"\n", 0)
            except OSError:
                pass  # half a name names nobody either
            os.close(descriptor)
        if folder is not None:
            os.close(folder)


@contextmanager
def _room_told(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(path) from error
        raise


def owner_of(path: str) -> Owner | None:
    """Return who holds the lock now, None where nobody does.

    Raises StopEngine where that cannot be seen, such as for data of another user.
    """
    try:
        # Whoever put a named pipe there has us wait for one who writes into it, else.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise StopEngine(
            f"The data in {os.path.dirname(path)} are another user's, or closed to you.",
            hint="Run kbsync as that user, or set KBSYNC_HOME to a folder of your own.",
        ) from error
    except OSError as error:  # such as a file on the way, where HOME is /dev/null
        raise StopEngine(
            f"The lock file {path} cannot be opened: {error.strerror}.",
            hint="Set KBSYNC_HOME to a folder of your own.",
        ) from error
    try:
        _require_file(descriptor, path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read(path) or Owner(0, "command", None)
        return None
    finally:
        os.close(descriptor)


def named_in(path: str) -> Owner | None:
    """Return whom the lock's file names, whether or not that process still holds the lock; None: nobody."""
    return _read(path)


def _require_file(descriptor: int, path: str) -> None:
    """Raise StopEngine for a named pipe or a device: it can be opened and locked, but names nobody."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise StopEngine(f"{path} is no file.", hint="Move it away; kbsync makes it anew.")


def _open(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _locked_folder(folder: str) -> int | None:
    """Lock a folder and return its descriptor, None where its file system locks none. Raises BlockingIOError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:
        os.close(descriptor)
        return None  # NFS locks files only
    return descriptor


def _no_locks(path: str, error: OSError) -> StopEngine:
    return StopEngine(
        f"The file {path} cannot be locked: {error.strerror}. Without a lock two programs could write at once.",
        hint="Set KBSYNC_HOME to a folder on a disk of this machine.",
    )


def _read(path: str) -> Owner | None:
    try:
        with open(path, encoding="utf-8", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            content = json.load(file)
        doing, since = content.get("doing"), content.get("since")
        return Owner(
            int(content["pid"]),
            content["role"],
            content["socket"],
            None if doing is None else str(doing),
            None if since is None else float(since),
            content.get("is_held_up") is True,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # its holder is writing it at this moment


def _busy(owner: Owner | None, path: str) -> EngineBusy:
    folder = os.path.dirname(path)
    if owner is None:
        return EngineBusy(f"Another kbsync works on {folder}.", hint="Wait for it to end.")
    what = "The daemon" if owner.role == "daemon" else "Another kbsync command"
    return EngineBusy(f"{what} (process {owner.pid}) works on {folder}.", hint="Stop it first, or wait for it to end.")
