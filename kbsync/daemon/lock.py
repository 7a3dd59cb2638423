"""One process works on a data folder at a time: a lock file that names the process and its socket."""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass
from typing import Literal

from kbsync.errors import EngineBusy

Role = Literal["daemon", "command"]

# Between two tries; and how long the shared locks of those who only look may be in the way, one after another.
_RETRY_S = 0.05
_LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds the lock. `socket` is None for a command, and for a daemon that is still starting."""

    pid: int
    role: Role
    socket: str | None


class DataLock:
    """An advisory lock (flock) on `{data_dir}/kb.lock`; the operating system lets go of it when the process ends."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self, role: Role, wait_s: float = 0.0) -> None:
        """Take the lock, waiting up to `wait_s` seconds for a command to end. Raises EngineBusy naming the owner.

        A running daemon is not waited for: it will not end.
        """
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        begun = time.monotonic()
        deadline = begun + wait_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                owner, now = _read(self._path), time.monotonic()
                # A look by `owner_of` holds it for an instant too, while the file still names a daemon that was killed.
                daemon_holds = owner is not None and owner.role == "daemon" and now - begun >= _LOOK_S
                if now >= max(deadline, begun + _LOOK_S) or daemon_holds:
                    os.close(descriptor)
                    raise _busy(owner, self._path) from None
                time.sleep(_RETRY_S)
        self._descriptor = descriptor
        self.publish(role, None)

    def publish(self, role: Role, socket: str | None) -> None:
        """Write who holds the lock and where its socket is. Only the holder calls it."""
        if self._descriptor is None:
            raise ValueError("the lock is not held")
        content = json.dumps(asdict(Owner(os.getpid(), role, socket))).encode()
        os.pwrite(self._descriptor, content, 0)
        os.ftruncate(self._descriptor, len(content))

    def release(self) -> None:
        """Let go. Twice does no harm."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None


def owner_of(path: str) -> Owner | None:
    """Return who holds the lock now, None where nobody does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read(path) or Owner(0, "command", None)
        return None
    finally:
        os.close(descriptor)


def _read(path: str) -> Owner | None:
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        return Owner(int(content["pid"]), content["role"], content["socket"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # its holder is writing it at this moment


def _busy(owner: Owner | None, path: str) -> EngineBusy:
    folder = os.path.dirname(path)
    if owner is None:
        return EngineBusy(f"Another kbsync works on {folder}.", hint="Wait for it to end.")
    what = "The daemon" if owner.role == "daemon" else "Another kbsync command"
    return EngineBusy(f"{what} (process {owner.pid}) works on {folder}.", hint="Stop it first, or wait for it to end.")
