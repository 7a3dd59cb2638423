"""The door of an inbox on the disk in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from kbsync.errors import FileChanged
from kbsync.filesystem import Stat
from kbsync.model import Source
from kbsync.sources.snapshot import reading_failed
from tests.fakes.simulated_filesystem import SimulatedFileSystem


class SimulatedInbox:
    """Implements kbsync.sources.inbox.Inbox."""

    def __init__(self, inboxes: SimulatedInboxes, fs: SimulatedFileSystem) -> None:
        self._inboxes = inboxes
        self._fs = fs

    def is_open_for_writing(self, path: str) -> bool | None:
        self._fs.lstat(path)
        return path in self._inboxes.writers if self._inboxes.telling else None

    def remove(self, path: str, stat: Stat, content_hash: str) -> None:
        self._inboxes.before_removal(path)
        try:
            with self._fs.open_file(path) as file:
                content = b"".join(iter(lambda: file.read(1 << 20), b""))
                there = file.fstat()
            if path in self._inboxes.writers or there != stat or hashlib.sha256(content).hexdigest() != content_hash:
                raise FileChanged(f"{path} changed.")
            self._fs.remove(path)
        except OSError as error:
            raise reading_failed(path, error) from error
        self._inboxes.removed.append(path)


class SimulatedInboxes:
    """Opens the doors of inboxes on one disk, and of nothing else.

    `writers`: paths that a program has open; `removed`: what went through any of the doors.
    """

    def __init__(self, fs: SimulatedFileSystem) -> None:
        self._fs = fs
        self.removed: list[str] = []
        self.writers: set[str] = set()
        # False: a system that does not tell who writes.
        self.telling = True
        self.before_removal: Callable[[str], None] = lambda path: None

    def open(self, source: Source) -> SimulatedInbox:
        assert source.mode == "inbox", f"{source.path} is a mirror: nothing may leave it"
        return SimulatedInbox(self, self._fs)
