"""Reads indexed files again in their turn: a change that no stat shows is found within a week or so.

File systems without a true ctime (FAT, some network shares), programs that set times back, and disks that lose bits
all leave the stat as it was. What the stat does show is the walks' to find.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import structlog

from kbsync.clock import Clock
from kbsync.daemon.outage import Outage
from kbsync.errors import KbsyncError, RetryLater
from kbsync.failpoints import failpoint
from kbsync.filesystem import FileSystem
from kbsync.knowledge_base.configured import ConfiguredSources
from kbsync.model import Priority
from kbsync.queue import job_queue
from kbsync.reasons import FileState, Reason
from kbsync.sources.snapshot import read_snapshot
from kbsync.store import files, meta, sources
from kbsync.store.connection import Connection
from kbsync.store.files import HashedFile
from kbsync.store.writer import Readers, Writer

log = structlog.stdlib.get_logger(__name__)

# One portion an hour: of all files what makes a week, but not more bytes than these.
_EVERY_S = 3600.0
_PORTIONS = 7 * 24
_FEWEST_FILES = 20
_MOST_BYTES = 1 << 30
# The thread rests four times as long as it read, and looks this often whether there is a portion to read.
_REST_SHARE = 4.0
_LONGEST_SLEEP_S = 60.0


class Scrub:
    """Owns its place in the ledger, which outlives the process. `step` from one thread at a time.

    `defers` says why it waits, None where it does not.
    """

    def __init__(
        self,
        fs: FileSystem,
        clock: Clock,
        writer: Writer,
        readers: Readers,
        configured: ConfiguredSources,
        stop: threading.Event,
        defers: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._fs = fs
        self._clock = clock
        self._writer = writer
        self._readers = readers
        self._configured = configured
        self._stop = stop
        self._defers = defers
        self._portion: deque[HashedFile] = deque()
        self._due_at: float | None = None

    def run(self, outage: Outage) -> None:
        """Step until told to stop; `outage` hears what stands in the way."""
        while not self._stop.is_set():
            begun, pause = self._clock.monotonic(), _LONGEST_SLEEP_S
            try:
                if self.step():
                    pause = (self._clock.monotonic() - begun) * _REST_SHARE
            except RetryLater as error:  # the database is busy or its disk is full
                pause = outage.met("scrub", error)
            self._stop.wait(min(pause, _LONGEST_SLEEP_S))

    def step(self) -> bool:
        """Read one file of the hour's portion; False where there is none."""
        if self._defers() is not None or (not self._portion and not self._begin()):
            return False
        file = self._portion[0]
        failpoint("scrub.begun")
        if self._differs(file):
            log.warning("changed_without_a_sign", path=file.path)
            self._writer.run(lambda connection: _read_anew(connection, file, self._clock.now()))
        self._portion.popleft()
        return True

    def _begin(self) -> bool:
        """Take the next portion where its hour has come; return whether there is anything in it."""
        now = self._clock.now()
        if self._due_at is None:
            self._due_at = self._readers.read(_place)[1]
        # A time far ahead was written by a clock that was wrong.
        if self._due_at is not None and now < self._due_at <= now + _EVERY_S:
            return False
        if self._due_at is not None:
            self._portion = deque(self._readers.read(_portion_after))
        self._due_at = now + _EVERY_S
        cursor = self._portion[-1].id if self._portion else 0
        due_at = self._due_at
        self._writer.run(lambda connection: meta.put(connection, meta.SCRUB, f"{cursor} {due_at}"))
        return bool(self._portion)

    def _differs(self, file: HashedFile) -> bool:
        """Return whether a file that looks as it did holds other bytes. A failure to look says nothing."""
        source = self._configured.by_id(file.source_id)
        if source is None or source.mode == "inbox" or file.source_id in self._readers.read(sources.paused):
            return False  # nothing is read in a folder that a person paused, or in another one at its place
        try:
            if replace(self._fs.lstat(file.path), device=file.stat.device) != file.stat:
                return False
            return read_snapshot(self._fs, file.path, 0, self._raise_stopped).content_hash != file.content_hash
        except (OSError, KbsyncError):
            return False

    def _raise_stopped(self, _block: bytes) -> None:
        if self._stop.is_set():
            raise RetryLater(Reason.RETRY, "kbsync ends.")


def _place(connection: Connection) -> tuple[int, float | None]:
    """Return (the row after which the next portion begins, when that is due); None: no scrub was ever begun."""
    cursor, _, due_at = (meta.get(connection, meta.SCRUB) or "").partition(" ")
    return (int(cursor), float(due_at)) if due_at else (0, None)


def _portion_after(connection: Connection) -> list[HashedFile]:
    """Return the files whose turn it is; from the beginning again where the end was reached."""
    count = max(_FEWEST_FILES, -(-files.hashed_count(connection) // _PORTIONS))
    found = files.hashed_after(connection, _place(connection)[0], count)
    size = 0
    portion: list[HashedFile] = []
    for file in found:
        size += file.stat.size
        if portion and size > _MOST_BYTES:
            break
        portion.append(file)
    return portion


def _read_anew(connection: Connection, file: HashedFile, now: float) -> None:
    known = files.known(connection, file.source_id, file.path)
    if known is None or known.state is not FileState.INDEXED or not sources.exists(connection, file.source_id):
        return  # a walk or an event was there first
    job_queue.enqueue_path(connection, file.source_id, file.path, file.stat.size, Priority.LOW, now)
    files.account(connection, file.source_id, file.path, file.stat, FileState.WAITING, Reason.QUEUED, known.rules, now)
