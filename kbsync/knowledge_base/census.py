"""How much is in the database, for programs that watch it: exact, and counted anew only as often as that is cheap."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from kbsync.clock import Clock
from kbsync.store import chunks, documents, files, maintenance, meta, sources, waiting_jobs
from kbsync.store.connection import Connection
from kbsync.store.waiting_jobs import LiveJobs
from kbsync.store.writer import Readers, Writer

# Counting goes over whole tables: 0.25 s at 100,000 documents. A count rests for so many times as long as it took, half
# a percent of the time, and whoever asks waits only for one that took no longer than this the last time.
_SHARE, _QUICK_S = 200.0, 0.005


@dataclass(frozen=True, slots=True)
class Census:
    """Current `documents` by type, `chunks` of all documents, `files` (every path of a source) by state, `jobs`."""

    documents: Mapping[str, int]
    chunks: int
    files: Mapping[str, int]
    jobs: tuple[LiveJobs, ...]


@dataclass(frozen=True, slots=True)
class Vitals:
    """What is read at once: `sources` by state, the size without the log, the last check (None: there was none)."""

    sources: Mapping[str, int]
    size_bytes: int
    checked_at: float | None
    check_is_ok: bool


class CensusTaker:
    """Takes a census where there is something new to count. Any thread may ask."""

    def __init__(self, clock: Clock, writer: Writer, readers: Readers) -> None:
        self._clock = clock
        self._writer = writer
        self._readers = readers
        self._taking = threading.Lock()
        self._last: Census | None = None
        self._commits, self._took_s, self._ended_at = -1, 0.0, 0.0

    def vitals(self) -> Vitals:
        """Read what is known without counting. Raises what `Readers.read` does."""
        return self._readers.read(_vitals)

    def latest(self) -> Census:
        """Return the last census, or one that is taken now: the first one, or where the last one was quick."""
        last = self._last
        return self.take() if last is None or (self._took_s <= _QUICK_S and self.is_due()) else last

    def is_due(self) -> bool:
        """Return whether something was written since the last census, and that is long enough ago."""
        rested = self._clock.monotonic() - self._ended_at >= _SHARE * self._took_s
        return self._commits != self._writer.commits and rested

    def take(self) -> Census:
        """Count; where another thread is counting, wait for that. Raises what `Readers.read` does."""
        asked = self._clock.monotonic()
        with self._taking:
            if self._last is not None and self._ended_at > asked:
                return self._last
            commits, begun = self._writer.commits, self._clock.monotonic()
            self._last = census = self._readers.read(_census)
            self._ended_at = self._clock.monotonic()
            self._commits, self._took_s = commits, self._ended_at - begun
        return census


def _census(connection: Connection) -> Census:
    states: dict[str, int] = {}
    for counts in files.counts(connection).values():
        for state, count in counts.items():
            states[state] = states.get(state, 0) + count
    return Census(
        documents.count_by_type(connection), chunks.count(connection), states, waiting_jobs.by_lane(connection)
    )


def _vitals(connection: Connection) -> Vitals:
    states: dict[str, int] = {}
    for row in sources.listed(connection):
        states[row.state] = states.get(row.state, 0) + 1
    at, _, verdict = (meta.get(connection, meta.LAST_CHECK) or "").partition(" ")
    return Vitals(states, maintenance.size_bytes(connection), float(at) if at else None, verdict.endswith("ok"))
