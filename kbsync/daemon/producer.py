"""Changes to jobs: takes the watchers' hints in, waits until a path is quiet, judges it and queues it."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from kbsync.clock import Clock
from kbsync.daemon.outage import Outage
from kbsync.daemon.wake import Wake
from kbsync.errors import RetryLater
from kbsync.failpoints import failpoint
from kbsync.filesystem import FileSystem, Stat
from kbsync.knowledge_base import commits
from kbsync.knowledge_base.configured import ConfiguredSources
from kbsync.model import Change, Priority, Source
from kbsync.queue import job_queue
from kbsync.reasons import FileState, Reason
from kbsync.sources.debounce import Debounce
from kbsync.sources.ignore import FOLDER_RULES
from kbsync.sources.reconcile import Account, Enqueue, decide
from kbsync.sources.scanner import Seen, judge_path
from kbsync.sources.spelling import listed_as
from kbsync.store import events, files, jobs, origins, sources
from kbsync.store.connection import Connection
from kbsync.store.writer import Readers, Writer

_LONGEST_SLEEP_S = 5.0


class Producer:
    """Owns the debounce. `take` may be called from any thread, `step` from one at a time."""

    def __init__(
        self,
        fs: FileSystem,
        clock: Clock,
        writer: Writer,
        readers: Readers,
        sources: ConfiguredSources,
        debounce: Debounce,
        own: frozenset[tuple[int, int]],
        dirty: Callable[[int, str], None],
        work: Wake,
        stop: threading.Event,
    ) -> None:
        self._fs = fs
        self._clock = clock
        self._writer = writer
        self._readers = readers
        self._sources = sources
        self._debounce = debounce
        self._own = own
        self._dirty = dirty
        self._work = work
        self._stop = stop
        self._inbox: deque[Change] = deque()
        self._arrived = Wake()
        # Held for a whole step, so that `idle` never sees a change between the inbox and the queue.
        self._stepping = threading.Lock()

    def take(self, change: Change) -> None:
        """Take a hint in; never blocks."""
        self._inbox.append(change)
        self._arrived.ring()

    def idle(self) -> bool:
        """Return whether nothing is on its way into the queue."""
        with self._stepping:
            return not self._inbox and not len(self._debounce)

    def run(self, outage: Outage) -> None:
        """Step until told to stop; `outage` hears what stands in the way."""
        while not self._stop.is_set():
            rings = self._arrived.rings()
            try:
                self.step()
                pause = self._debounce.next_due(self._clock.monotonic())
            except RetryLater as error:  # the database is busy or its disk is full: sources are marked to be looked at
                pause = outage.met("producer", error)
            self._arrived.wait(rings, _LONGEST_SLEEP_S if pause is None else min(pause + 0.005, _LONGEST_SLEEP_S))

    def wake(self) -> None:
        """Make `run` look whether it is to stop."""
        self._arrived.ring()

    def step(self) -> int:
        """Move what is due from the inbox through the debounce into the queue; return how many paths came out."""
        with self._stepping:
            now = self._clock.monotonic()
            # Of what a person paused not even a path is looked at.
            paused = self._readers.read(sources.paused) if self._inbox else {}
            while self._inbox:
                change = self._inbox.popleft()
                if paused.get(change.source_id) != sources.BY_YOU:
                    self._debounce.note(change, now)
                    failpoint("producer.noted")
            quiet = self._debounce.due(now, self._look)
            if quiet:
                failpoint("producer.flushed")
                self._queue(quiet)
            return len(quiet)

    def _look(self, path: str) -> Stat | None:
        try:
            return self._fs.lstat(path)
        except OSError:
            return None  # gone, or not to be looked at: either way the rescan that follows decides

    def _queue(self, quiet: Iterable[Change]) -> None:
        judged: dict[Priority, list[tuple[Source, Seen]]] = {Priority.EVENT: [], Priority.SCAN: []}
        paused = self._readers.read(sources.paused)
        for change in quiet:
            source = self._sources.by_id(change.source_id)
            if source is None:
                continue
            if source.id in paused:
                # Nothing of it is read; one that is paused by itself may be back, which a walk finds out.
                if paused[source.id] != sources.BY_YOU:
                    self._dirty(source.id, "paused")
                continue
            if not change.scanned and os.path.basename(change.path) in FOLDER_RULES:
                # Whatever lies beside it, or below, is to be judged anew.
                self._dirty(source.id, "rules changed")
            seen = None if change.gone else self._seen(source, change.path)
            if seen is None:
                self._dirty(source.id, "gone")
            elif seen.path == change.path:
                judged[Priority.SCAN if change.scanned else Priority.EVENT].append((source, seen))
        try:
            for priority, paths in judged.items():
                if queue_seen(self._writer, self._readers, paths, priority, self._clock.now(), settle_s=0.0):
                    failpoint("producer.queued")
                    self._work.ring()
        except RetryLater:
            for source, _seen in chain(*judged.values()):
                self._dirty(source.id, "not queued")
            raise

    def _seen(self, source: Source, path: str) -> Seen | None:
        """Look at a path; None where there is nothing, or nothing of that very name: then a walk says what is there."""
        try:
            seen = judge_path(self._fs, source, self._own, path)
            if seen is not None and seen.path == path and listed_as(self._fs, source.path, path) != path:
                return None
        except OSError:
            return None
        return seen


def queue_seen(
    writer: Writer,
    readers: Readers,
    judged: Iterable[tuple[Source, Seen]],
    priority: Priority,
    now: float,
    *,
    settle_s: float,
) -> int:
    """Write down what follows for each path, in one transaction; return how many were queued. Nothing new, no write."""

    def decisions(connection: Connection) -> list[tuple[Source, Seen, Enqueue | Account]]:
        found = []
        for source, seen in judged:
            known = files.known(connection, source.id, seen.path)
            live = jobs.live_of_path(connection, source.id, seen.path) is not None
            decision = decide(seen, known, now, settle_s, has_live_job=live, in_inbox=source.mode == "inbox")
            if isinstance(decision, Enqueue | Account):
                found.append((source, seen, decision))
        return found

    wanted = readers.read(decisions)
    if not wanted:
        return 0
    return writer.run(lambda connection: write_decisions(connection, wanted, priority, now))


def write_decisions(
    connection: Connection, wanted: Sequence[tuple[Source, Seen, Enqueue | Account]], priority: Priority, now: float
) -> int:
    """Write the ledger and queue the jobs; return how many were queued."""
    queued = 0
    gone = {source.id for source, _, _ in wanted if not sources.exists(connection, source.id)}
    for source, seen, decision in wanted:
        if source.id in gone:
            continue  # taken out of the configuration while it was walked
        if isinstance(decision, Enqueue) and decision.again:
            job_queue.enqueue_path(connection, source.id, seen.path, seen.stat.size, Priority.LOW, now)
            queued += 1
            continue
        if isinstance(decision, Enqueue):
            job_queue.enqueue_path(connection, source.id, seen.path, seen.stat.size, priority, now)
            files.account(
                connection, source.id, seen.path, seen.stat, FileState.WAITING, Reason.QUEUED, seen.rules, now
            )
            queued += 1
            continue
        job_queue.overtake(connection, source.id, seen.path, now)
        files.account(connection, source.id, seen.path, seen.stat, decision.state, decision.reason, seen.rules, now)
        failpoint("producer.accounted")
        if decision.state is FileState.SKIPPED:
            document_id = origins.end_path(connection, seen.path, "missing", now)
            if document_id is not None:
                events.record(
                    connection,
                    "skipped",
                    now,
                    source_id=source.id,
                    path=seen.path,
                    document_id=document_id,
                    detail=decision.reason,
                )
                queued += commits.follow_first_path(connection, document_id, now)
    return queued
