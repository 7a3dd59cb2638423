"""Has the files read again that failed for a reason that may be over by now, which nothing tells.

A file that changed is read again anyway. What its content is to blame for (damaged, protected, too complex) or what
cost a long time (the limits of time and memory, a crash) is not tried again before it changes.
"""

from __future__ import annotations

from functools import partial

from kbsync.clock import Clock
from kbsync.filesystem import FileSystem
from kbsync.queue import job_queue
from kbsync.reasons import Reason
from kbsync.store import ledger
from kbsync.store.writer import Readers, Writer

# A model that was away, a disk that did not answer or was full, a right that was given where no stat shows it.
PASSING = (Reason.MODEL, Reason.IO, Reason.NO_SPACE, Reason.PERMISSION)
# So many are queued in one transaction: a fresh file's own commit is not kept waiting.
_BATCH = 200


class Retrying:
    """Any thread may ask."""

    def __init__(self, fs: FileSystem, clock: Clock, writer: Writer, readers: Readers) -> None:
        self._fs = fs
        self._clock = clock
        self._writer = writer
        self._readers = readers

    def retry(self) -> int:
        """Queue them at low priority and return how many they are. Raises RetryLater for the database."""
        failed = self._readers.read(lambda connection: ledger.failed_for(connection, PASSING))
        wanted = [(source_id, path) for source_id, path in failed if self._is_readable(path)]
        queued = 0
        for start in range(0, len(wanted), _BATCH):
            batch = wanted[start : start + _BATCH]
            queued += self._writer.run(
                partial(job_queue.retry_failed, failed=batch, reasons=PASSING, now=self._clock.now())
            )
        return queued

    def _is_readable(self, path: str) -> bool:
        """Return whether a regular file can be opened: what cannot even be that makes no job, and no line in a log."""
        try:
            if self._fs.lstat(path).kind != "file":
                return False
            with self._fs.open_file(path):
                return True
        except OSError:
            return False
