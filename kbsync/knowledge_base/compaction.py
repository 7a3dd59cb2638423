"""Gives room back that deleted documents left in the database's file and beside it, when it is worth it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import structlog

from kbsync.clock import Clock
from kbsync.errors import StorageUnavailable
from kbsync.failpoints import failpoint
from kbsync.knowledge_base import rebuilt
from kbsync.store import documents, maintenance
from kbsync.store.connection import Connection
from kbsync.store.kept_conversions import KeptConversions
from kbsync.store.writer import Readers, Writer

log = structlog.stdlib.get_logger(__name__)

# New documents fill free pages; below a quarter they soon will, and below 16 MB nobody misses the room.
FREE_SHARE, FREE_BYTES = 0.25, 16 << 20
# What is left is written twice: a copy beside it, and the write-ahead log. The rest is for those who work meanwhile.
_COPIES, _SPARE_BYTES = 2, 64 << 20
# Each write adds a piece, and FTS5 keeps them at a few by itself; by then enough was written to be worth writing all.
MANY_PIECES = 8
# A conversion that no document has after a day is of none that comes yet.
_CONVERSION_S = 86_400.0


def is_worth_it(size: int, free: int) -> bool:
    """Say whether a file of `size` bytes, of which so many hold nothing, should be written anew."""
    return free >= FREE_BYTES and free >= FREE_SHARE * size


def room_needed(size: int, free: int) -> int:
    """Return how many bytes must be free on the disk for that."""
    return _COPIES * (size - free) + _SPARE_BYTES


class Compaction:
    """Search goes on beside it, and indexing waits while the file is written. `room` as in StoredFiles."""

    def __init__(
        self,
        clock: Clock,
        writer: Writer,
        readers: Readers,
        conversions: KeptConversions,
        room: Callable[[], int | None],
    ) -> None:
        self._clock = clock
        self._writer = writer
        self._readers = readers
        self._conversions = conversions
        self._room = room

    def sweep_conversions(self) -> None:
        """Remove kept conversions of documents that are gone."""
        if not self._readers.read(rebuilt.is_settling):  # the documents that they belong to come yet
            hashes = self._readers.read(documents.content_hashes)
            self._conversions.sweep(hashes, self._clock.now() - _CONVERSION_S)

    def merge(self) -> bool:
        """Merge the full-text index where it is in many pieces; return whether it was. Indexing goes on between parts.

        Statistics for the planner (`PRAGMA optimize`) are not gathered: the queries were measured without them.
        """
        if self._readers.read(maintenance.pieces) < MANY_PIECES:
            return False
        self._merge()
        return True

    def compact(self) -> int:
        """Give back what is worth it; return how many bytes. Raises RetryLater where the process is to end."""
        size, free = self._readers.read(_sizes)
        if not is_worth_it(size, free):
            return 0
        room = self._room()
        if room is not None and room < room_needed(size, free):
            log.warning("compaction_waits_for_room", bytes=free, needed_bytes=room_needed(size, free), free_bytes=room)
            return 0
        self._merge()
        failpoint("compaction.merged")
        try:
            whole = self._writer.run_alone(maintenance.vacuum)
        except StorageUnavailable as error:
            log.warning("compaction_put_off", error=str(error))
            return 0
        failpoint("compaction.done")
        given_back = size - self._readers.read(maintenance.size_bytes)
        log.info("compacted", bytes=given_back, size_bytes=size, is_whole=whole)
        return given_back

    def _merge(self) -> None:
        """Merge all of the full-text index, a part at a time."""
        begin = True
        while self._writer.run(partial(maintenance.merge_words, begin=begin)):
            failpoint("compaction.merging")
            begin = False


def _sizes(connection: Connection) -> tuple[int, int]:
    return maintenance.size_bytes(connection), maintenance.free_bytes(connection)
