"""Walks over the sources: when one is wanted, what it queues, and what may be concluded from what it did not find."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from kbsync.clock import Clock
from kbsync.daemon.producer import write_decisions
from kbsync.daemon.wake import Wake
from kbsync.errors import RetryLater
from kbsync.filesystem import FileSystem, as_text
from kbsync.knowledge_base import commits
from kbsync.knowledge_base.configured import ConfiguredSources
from kbsync.model import Change, Priority, Source
from kbsync.reasons import FileState, Reason
from kbsync.sources.reconcile import Account, Enqueue, Settle, Unchanged, absent, decide
from kbsync.sources.scanner import Seen, Walk, judge_path, scan
from kbsync.store import events, files, jobs, origins, sources
from kbsync.store.connection import Connection
from kbsync.store.writer import Readers, Writer

log = structlog.stdlib.get_logger(__name__)

_LONGEST_SLEEP_S = 5.0
# Paths written in one transaction: few enough that a fresh file's own commit is not kept waiting.
_BATCH = 500
# A source marked by events is walked at most for a fifth of the time, however fast the marks come.
_MARK_GAP_S, _MARK_GAP_SHARE = 1.0, 4.0
# What failed for these reasons is tried once more by the first walk of a process, though the file is the same.
_NOT_ITS_FAULT = (Reason.MODEL, Reason.IO, Reason.NO_SPACE)


@dataclass(slots=True)
class _Wanted:
    """When a source is to be walked next (monotonic), and the last request that a finished walk has answered."""

    due_at: float | None = None
    # A walk is under way; what is marked meanwhile waits for its end, which says how long walks take.
    walking: bool = False
    marked: bool = False
    answered: int = 0
    ended_at: float = float("-inf")
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SourceScan:
    """What the last walk over a source came to. `state` and `reason` as in the table `sources`."""

    state: str
    reason: str | None
    detail: str | None
    begun_at: float
    seconds: float
    files: int
    queued: int


class Rescans:
    """Decides which source is walked and walks it. Marks come from any thread, steps from one at a time."""

    def __init__(
        self,
        fs: FileSystem,
        clock: Clock,
        writer: Writer,
        readers: Readers,
        configured: ConfiguredSources,
        own: frozenset[tuple[int, int]],
        settle: Callable[[Change], None],
        work: Wake,
        stop: threading.Event,
    ) -> None:
        self._fs = fs
        self._clock = clock
        self._writer = writer
        self._readers = readers
        self._configured = configured
        self._own = own
        self._settle = settle
        self._work = work
        self._stop = stop
        self._lock = threading.Lock()
        self._wanted: dict[int, _Wanted] = {}
        self._requests = 0
        self._asked = Wake()
        self.last: dict[int, SourceScan] = {}

    def mark(self, source_id: int, why: str) -> None:
        """Something happened that only a walk can tell: have one soon."""
        log.debug("source_marked", source_id=source_id, why=why)
        with self._lock:
            wanted = self._wanted.setdefault(source_id, _Wanted())
            if wanted.walking:
                wanted.marked = True
                return
            self._due_after_gap(wanted)
        self._asked.ring()

    def _due_after_gap(self, wanted: _Wanted) -> None:
        gap = max(_MARK_GAP_S, _MARK_GAP_SHARE * wanted.seconds)
        due_at = max(self._clock.monotonic(), wanted.ended_at + gap)
        wanted.due_at = due_at if wanted.due_at is None else min(wanted.due_at, due_at)

    def request_all(self) -> int:
        """Have every source walked now; return a ticket for `answered`."""
        now = self._clock.monotonic()
        with self._lock:
            self._requests += 1
            for source in self._configured.all():
                self._wanted.setdefault(source.id, _Wanted()).due_at = now
            ticket = self._requests
        self._asked.ring()
        return ticket

    def answered(self, ticket: int) -> bool:
        """Return whether a walk that began after the request has ended for every source."""
        with self._lock:
            return all(
                (wanted := self._wanted.get(source.id)) is not None and wanted.answered >= ticket
                for source in self._configured.all()
            )

    def pending(self) -> bool:
        """Return whether a walk is wanted or under way."""
        with self._lock:
            return any(wanted.due_at is not None or wanted.walking for wanted in self._wanted.values())

    def forget(self, source_id: int) -> None:
        """A source was taken out of the configuration."""
        with self._lock:
            self._wanted.pop(source_id, None)
            self.last.pop(source_id, None)

    def run(self) -> None:
        """Step until told to stop."""
        while not self._stop.is_set():
            rings = self._asked.rings()
            try:
                if self.step():
                    continue
                pause = self._pause()
            except RetryLater as error:
                log.warning("rescan_waits", error=str(error))
                pause = 1.0
            self._asked.wait(rings, pause)

    def wake(self) -> None:
        """Make `run` look whether it is to stop."""
        self._asked.ring()

    def step(self) -> bool:
        """Walk one source whose time has come; False where there is none."""
        now = self._clock.monotonic()
        with self._lock:
            due = [
                (wanted.due_at, source_id)
                for source_id, wanted in self._wanted.items()
                if wanted.due_at is not None and wanted.due_at <= now
            ]
            if not due:
                return False
            source_id = min(due)[1]
            wanted, request = self._wanted[source_id], self._requests
            wanted.due_at, wanted.walking = None, True
        source = self._configured.by_id(source_id)
        if source is None:
            self.forget(source_id)
            return True
        try:
            scan = self._walk(source)
        except RetryLater:
            with self._lock:
                wanted.due_at, wanted.walking = self._clock.monotonic() + 1.0, False
            raise
        with self._lock:
            wanted.ended_at, wanted.seconds, wanted.walking = self._clock.monotonic(), scan.seconds, False
            if wanted.marked:
                # What was marked during the walk may lie where it had been already.
                wanted.marked = False
                self._due_after_gap(wanted)
            if not self._stop.is_set():
                wanted.answered = request
        self.last[source_id] = scan
        self._work.ring()
        return True

    def _pause(self) -> float:
        now = self._clock.monotonic()
        with self._lock:
            times = [wanted.due_at for wanted in self._wanted.values() if wanted.due_at is not None]
        return min([_LONGEST_SLEEP_S, *(max(due_at - now, 0.01) for due_at in times)])

    def _walk(self, source: Source) -> SourceScan:
        begun_at, begun = self._clock.now(), self._clock.monotonic()
        known, live = self._readers.read(
            lambda connection: (files.known_of_source(connection, source.id), jobs.live_paths(connection, source.id))
        )
        indexed = sum(1 for file in known.values() if file.state in (FileState.INDEXED, FileState.WAITING))
        walk = scan(self._fs, source, self._own, self._stop.is_set)
        first = source.id not in self.last
        batch: list[tuple[Source, Seen, Enqueue | Account]] = []
        queued = 0
        for seen in walk:
            before = known.pop(seen.path, None)
            if first and before is not None and before.state is FileState.FAILED and before.reason in _NOT_ITS_FAULT:
                before = None  # what stood in its way may be mended by now
            decision = decide(seen, before, self._clock.now(), has_live_job=seen.path in live)
            if isinstance(decision, Settle):
                self._settle(Change(source.id, seen.path, scanned=True))
            elif not isinstance(decision, Unchanged):
                batch.append((source, seen, decision))
            if len(batch) >= _BATCH:
                queued += self._write(batch)
                batch = []
        queued += self._write(batch)
        absence = absent(list(known), walk.complete, walk.files, indexed)
        gone = 0
        for start in range(0, len(absence.gone), _BATCH):
            # Looked at once more right before the write: a sweep of very many takes long enough for files to be back.
            paths = [path for path in absence.gone[start : start + _BATCH] if self._has_left(source, path)]
            gone += len(paths)
            queued += self._sweep(source, paths)
        state, reason, detail = _verdict(walk, absence.reason, source)
        seconds = self._clock.monotonic() - begun
        result = SourceScan(state, reason, detail and as_text(detail), begun_at, seconds, walk.files, queued)
        self._record(source, result, changed=bool(queued or gone))
        return result

    def _write(self, batch: list[tuple[Source, Seen, Enqueue | Account]]) -> int:
        if not batch or self._stop.is_set():
            return 0
        now = self._clock.now()
        queued = self._writer.run(lambda connection: write_decisions(connection, batch, Priority.SCAN, now))
        if queued:
            self._work.ring()
        return queued

    def _has_left(self, source: Source, path: str) -> bool:
        """Look once more, right before a document is hidden: gone, or below a folder that a rule now leaves out."""
        try:
            seen = judge_path(self._fs, source, self._own, path)
        except OSError:
            return False  # a failure to look says nothing
        return seen is None or (seen.path != path and seen.reason not in (Reason.PERMISSION, Reason.IO))

    def _sweep(self, source: Source, paths: list[str]) -> int:
        """Hide what paths held that are gone; what they held stays current where another path holds it too."""
        now = self._clock.now()

        def sweep(connection: Connection) -> int:
            if not sources.exists(connection, source.id):
                return 0  # taken out of the configuration while it was walked
            files.mark_gone(connection, source.id, paths, now)
            queued = 0
            for path in paths:
                document_id = origins.end_path(connection, path, "missing", now)
                events.record(connection, "gone", now, source_id=source.id, path=path, document_id=document_id)
                if document_id is not None:
                    queued += commits.follow_first_path(connection, document_id, now)
            return queued

        return self._writer.run(sweep) if paths else 0

    def _record(self, source: Source, result: SourceScan, *, changed: bool) -> None:
        """Write the source's state where it differs: a rescan that finds nothing new writes nothing."""
        before = self.last.get(source.id)
        same = before is not None and (before.state, before.reason, before.detail) == (
            result.state,
            result.reason,
            result.detail,
        )
        if before is not None and same and not changed and before.files == result.files:
            return

        def record(connection: Connection) -> None:
            sources.set_state(connection, source.id, result.state, result.reason, result.detail)
            sources.set_scan(connection, source.id, result.begun_at, result.seconds, result.files)

        self._writer.run(record)
        if not same:
            log.info("source", path=source.path, state=result.state, reason=result.reason, detail=result.detail)


def _verdict(walk: Walk, absence: str | None, source: Source) -> tuple[str, str | None, str | None]:
    """Return (state, reason, detail) of a source after a walk."""
    if absence == "empty":
        return "paused", "empty", f"{source.path} is empty; what was in it stays searchable. Is the disk attached?"
    for path, error in walk.errors:
        if path == source.path:
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                return "paused", "missing", f"{source.path} is not there; what was in it stays searchable."
            return "paused", "unreadable", f"{source.path} cannot be read: {error.strerror}."
    if walk.errors:
        path, error = walk.errors[0]
        return "watching", "unreadable", f"{len(walk.errors)} places cannot be read, first {path}: {error.strerror}."
    return "watching", None, None
