"""One life of `kbsync run` as others see it: what its start is busy with, that it stands, reads its settings, ends.

Told to whoever asks for `status`, by the lock file, and to the service manager that started it.
"""

from __future__ import annotations

import faulthandler
import time
from collections.abc import Callable

from kbsync.daemon.lock import DataLock
from kbsync.errors import StorageUnavailable
from kbsync.interfaces.service import early_ends
from kbsync.interfaces.service.notify import Notifier


class Life:
    """`early_ends_file`: for a process that a service manager starts again where it fails; else None.

    From one thread, but `is_to_end`, which may be asked from any.
    """

    def __init__(
        self, lock: DataLock, notifier: Notifier, asked_to_stop: Callable[[], bool], early_ends_file: str | None
    ) -> None:
        self._lock = lock
        self._notifier = notifier
        self._asked_to_stop = asked_to_stop
        self._early_ends_file = early_ends_file
        self._stands_since: float | None = None
        self._is_reloading = False
        self._standing = ""
        # What holds it up, and since when: every try that fails in between is told as well.
        self._held_up_by, self._held_up_since = "", 0.0

    @property
    def is_served(self) -> bool:
        """Return whether a service manager looks after it."""
        return self._early_ends_file is not None

    def begin(self, wait: Callable[[float], None]) -> None:
        """Count this start, after a pause where several before it soon ended; `wait` may return early."""
        if self._early_ends_file is None:
            return
        # A manager that misses its sign of life ends it by SIGABRT: then the log tells where it hung.
        faulthandler.enable()
        ends = early_ends.read(self._early_ends_file)
        pause = ends.wait_s(time.time())
        until = time.monotonic() + pause
        if pause:
            self.says(f"waiting {pause:.0f} seconds: the last {ends.count} starts soon ended, the log tells why")
        while (left := until - time.monotonic()) > 0 and not self.is_to_end():
            wait(min(left, 1.0))
        early_ends.write(self._early_ends_file, ends.begun(time.time()))

    def says(self, doing: str, *, is_held_up: bool = False) -> None:
        """Tell what the start is busy with from now on; `is_held_up`: with waiting for what a person must mend."""
        self._stands_since = None
        self._notifier.starting(doing)
        since = time.time()
        if is_held_up:
            if doing != self._held_up_by:
                self._held_up_by, self._held_up_since = doing, since
            since = self._held_up_since
        if self._lock.is_held:
            try:
                self._lock.publish("daemon", None, doing, since, is_held_up=is_held_up)
            except StorageUnavailable:
                pass  # nobody can be told; what is done next meets the full disk too

    def is_to_end(self) -> bool:
        """Return whether the process was told to end; that somebody asks is a sign of life.

        Long statements of the database ask all the time, also those that the main loop waits behind later.
        """
        self._notifier.alive()
        return self._asked_to_stop()

    def stands(self, socket_path: str, status: str) -> None:
        """Tell that the socket answers. Raises StorageUnavailable where commands could not be told."""
        self._lock.publish("daemon", socket_path)
        self._stands_since = time.monotonic()
        self._standing = status
        self._notifier.ready(status)

    def reloads(self) -> None:
        """Tell that the settings are read again, until `turns`."""
        self._is_reloading = True
        self._notifier.reloading()

    def turns(self, status: str) -> None:
        """All is well, at the end of a turn of the main loop; `status` in a line."""
        if self._is_reloading or status != self._standing:
            self._is_reloading, self._standing = False, status
            self._notifier.ready(status)
        self._notifier.alive()
        if self._stands_since is not None and time.monotonic() - self._stands_since > early_ends.LASTED_S:
            self._stands_since = None
            self._has_not_failed()

    def stops(self) -> None:
        """Tell that it ends."""
        self._notifier.stopping()

    def ended_in_order(self) -> None:
        """It ends as it was told to, or in a way that no other start would mend: that is no early end."""
        self._has_not_failed()

    def _has_not_failed(self) -> None:
        if self._early_ends_file is not None:
            early_ends.forget(self._early_ends_file)
