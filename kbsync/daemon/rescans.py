"""When which source is walked: marks, requests, second looks. What a walk does is in source_walk."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import structlog

from kbsync.clock import Clock
from kbsync.daemon.outage import Outage
from kbsync.daemon.source_walk import SourceScan, SourceWalks
from kbsync.daemon.wake import Wake
from kbsync.errors import RetryLater
from kbsync.knowledge_base.configured import ConfiguredSources
from kbsync.sources.guard import LOOKS_APART_S

log = structlog.stdlib.get_logger(__name__)

_LONGEST_SLEEP_S = 5.0
# A source marked by events is walked at most for a fifth of the time, however fast the marks come.
_MARK_GAP_S, _MARK_GAP_SHARE = 1.0, 4.0
# What the brake holds is looked for again this often, and for a twentieth of the time at most: files come back.
_HELD_GAP_S, _HELD_GAP_SHARE = 10.0, 19.0
# The second look comes this much after its time, so that rounding never makes it too early.
_LOOKS_SLACK_S = 0.05


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


class Rescans:
    """Decides which source is walked and walks it. Marks come from any thread, steps from one at a time."""

    def __init__(
        self,
        clock: Clock,
        configured: ConfiguredSources,
        walks: SourceWalks,
        work: Wake,
        stop: threading.Event,
    ) -> None:
        self._clock = clock
        self._configured = configured
        self._walks = walks
        self._work = work
        self._stop = stop
        self._lock = threading.Lock()
        self._wanted: dict[int, _Wanted] = {}
        self._requests = 0
        self._asked = Wake()
        self.last: dict[int, SourceScan] = {}
        # How many walks came to their end since the start, and the seconds they took.
        self.walks, self.walks_seconds = 0, 0.0

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

    def mark_held(self) -> None:
        """Have the sources that the brake holds walked, where their last walk was a while ago."""
        now = self._clock.monotonic()
        with self._lock:
            held = [
                source_id
                for source_id, scan in self.last.items()
                if scan.state == "held"
                and (wanted := self._wanted.get(source_id)) is not None
                and now - wanted.ended_at >= max(_HELD_GAP_S, _HELD_GAP_SHARE * wanted.seconds)
            ]
        for source_id in held:
            self.mark(source_id, "held")

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

    def walked(self, ticket: int) -> bool:
        """Return whether every source was walked in this process, and since the request where there was one."""
        return all(source.id in self.last for source in self._configured.all()) and self.answered(ticket)

    def pending(self) -> bool:
        """Return whether a walk is wanted or under way."""
        with self._lock:
            return any(wanted.due_at is not None or wanted.walking for wanted in self._wanted.values())

    def forget(self, source_id: int) -> None:
        """A source was taken out of the configuration."""
        with self._lock:
            self._wanted.pop(source_id, None)
            self.last.pop(source_id, None)
            self._walks.forget(source_id)

    def set_max_missing_share(self, share: float) -> None:
        """Follow a changed setting of the brake."""
        self._walks.max_missing_share = share

    def run(self, outage: Outage) -> None:
        """Step until told to stop; `outage` hears what stands in the way."""
        while not self._stop.is_set():
            rings = self._asked.rings()
            try:
                if self.step():
                    continue
                pause = self._pause()
            except RetryLater as error:
                pause = outage.met("rescans", error)
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
            scan = self._walks.walk(source, first=source_id not in self.last)
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
            if scan.again:
                gap = max(LOOKS_APART_S + _LOOKS_SLACK_S, _MARK_GAP_SHARE * wanted.seconds)
                due_at = wanted.ended_at + gap
                wanted.due_at = due_at if wanted.due_at is None else min(wanted.due_at, due_at)
            if not self._stop.is_set():
                wanted.answered = request
        self.last[source_id] = scan
        self.walks, self.walks_seconds = self.walks + 1, self.walks_seconds + scan.seconds
        self._work.ring()
        return True

    def _pause(self) -> float:
        now = self._clock.monotonic()
        with self._lock:
            times = [wanted.due_at for wanted in self._wanted.values() if wanted.due_at is not None]
        return min([_LONGEST_SLEEP_S, *(max(due_at - now, 0.01) for due_at in times)])
