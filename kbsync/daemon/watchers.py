"""The watchers of all sources, supervised: begun, restarted when they fail, ended with their source.

Where events cannot be had, or not for every folder, a source is polled: it is walked at short intervals.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from kbsync.clock import Clock
from kbsync.errors import RetryLater
from kbsync.measures import Tally
from kbsync.model import Change, Source
from kbsync.sources.coverage import WalkedFolders, limit_notice, watch_limit
from kbsync.sources.mounts import Mode, Mount, Watching, watching_of
from kbsync.sources.watcher import LOST, Watcher

log = structlog.stdlib.get_logger(__name__)

MakeWatcher = Callable[[Source, Callable[[Change], None], Callable[[int, str], None]], Watcher]

# A watcher that cannot be started is tried again after this long: a disk that is back is watched within moments.
_RETRY_S = 5.0
# How often a source is walked whose events do not come, or not all of them. Walks that take long are further apart:
# marks are bounded to a share of the time.
_POLL_S = 30.0
# How often a watcher must prove that events arrive, and within which time. Rarely: an idle machine stays idle.
_BEAT_EVERY_S, _BEAT_PATIENCE_S = 60.0, 10.0
# A source whose events did not arrive this many times in a row is polled, and tried again after some time.
_SILENT_TIMES, _SILENT_S = 3, 600.0


@dataclass(slots=True)
class _Watched:
    """One source; what came of it outlives its watcher. The watcher's threads count `heard` and what was lost."""

    source: Source
    watching: Watching
    watcher: Watcher | None = None
    error: str | None = None
    retry_at: float = 0.0
    poll_at: float = 0.0
    heard: int = 0
    last_event_at: float | None = None
    events_lost: int = 0
    silent: int = 0
    beat: _Beat = field(default_factory=lambda: _Beat(float("inf")))

    @property
    def mode(self) -> Mode:
        return "polling" if self.watcher is None else "native"

    def is_polled(self) -> bool:
        return self.watcher is None or self.watching.polled_too or self.watcher.unwatched > 0


@dataclass(slots=True)
class _Beat:
    """When the next proof is asked for (monotonic), and what was heard when the last one was, unanswered so far."""

    at: float
    asked_at: float | None = None
    pulse: int = 0
    heard: int = 0


class Watchers:
    """Begun and ended by whoever changes the sources, looked after by the daemon's supervisor; any thread may.

    `make` builds a watcher; `sink` takes every change and `dirty` (source id, why) every reason to walk. `mounts` tells
    what is mounted where: it decides whether a source is watched or polled.
    """

    def __init__(
        self,
        make: MakeWatcher,
        clock: Clock,
        sink: Callable[[Change], None],
        dirty: Callable[[int, str], None],
        mounts: Callable[[], Sequence[Mount]] = tuple,
    ) -> None:
        self._make = make
        self._clock = clock
        self._sink = sink
        self._dirty = dirty
        self._mounts = mounts
        self._lock = threading.RLock()
        # Of all sources that were ever watched: `heard`, and `lost` by the reason why.
        self.events = Tally()
        self._watched: dict[int, _Watched] = {}

    def begin(self, source: Source) -> None:
        """Watch a source and have it walked: first the watch, so that nothing falls between."""
        with self._lock:
            watched = _Watched(source, watching_of(source, self._mounts()))
            self._start(watched)
            self._watched[source.id] = watched
        self._dirty(source.id, "watch begun")

    def end(self, source_id: int) -> None:
        """Stop watching a source; one that is not watched is fine."""
        with self._lock:
            watched = self._watched.pop(source_id, None)
            if watched is not None and watched.watcher is not None:
                watched.watcher.stop()

    def supervise(self) -> None:
        """Restart what does not report any more, try again what could not be started, and have polled ones walked."""
        with self._lock:
            for watched in self._watched.values():
                self._look_after(watched)

    def walked(self, source_id: int, folders: WalkedFolders) -> None:
        """Have a source's watcher follow what a walk found. Called after each walk, by the one who walks."""
        watched = self._watched.get(source_id)
        watcher = None if watched is None else watched.watcher
        if watcher is not None:
            watcher.follow(folders)

    def is_polled(self, source_id: int) -> bool:
        """Say whether a source's changes are found by polling alone."""
        watched = self._watched.get(source_id)
        return watched is not None and watched.mode == "polling"

    def status(self) -> list[dict[str, object]]:
        """Return for each source how it is watched. Times are seconds since 1970.

        `mode` is native or polling; `unwatched` counts folders without a watch, which are polled; `events_lost` how
        many times events were lost; `error` says why events do not come, `notice` what a person can do.
        """
        return [
            {
                "path": watched.source.path,
                "watching": watched.watcher is not None,
                "mode": watched.mode,
                "folders": 0 if watched.watcher is None else watched.watcher.folders,
                "unwatched": 0 if watched.watcher is None else watched.watcher.unwatched,
                "events_lost": watched.events_lost,
                "last_event_at": watched.last_event_at,
                "error": watched.error,
                "notice": _notice(watched),
            }
            for watched in list(self._watched.values())
        ]

    def stop(self) -> None:
        """Stop all. Twice does no harm."""
        for source_id in list(self._watched):
            self.end(source_id)

    # ---- one source; the lock is held ----

    def _look_after(self, watched: _Watched) -> None:
        now = self._clock.monotonic()
        if watched.watcher is None:
            if watched.watching.mode == "native" and now >= watched.retry_at and self._start(watched):
                self._dirty(watched.source.id, "watch begun")
        elif not watched.watcher.healthy():
            self._restart(watched, "watcher lost")
        elif not self._hears(watched, watched.watcher, now):
            watched.silent += 1
            watched.events_lost += 1
            self.events.add("lost", "no heartbeat")
            self._restart(watched, "no heartbeat")
        if now >= watched.poll_at:
            watched.poll_at = now + _POLL_S
            self._look_at_mounts(watched)
            if watched.is_polled():
                self._dirty(watched.source.id, "poll")

    def _start(self, watched: _Watched) -> bool:
        """Begin a watcher where events are to be had; False where there is none now."""
        now = self._clock.monotonic()
        watched.poll_at = now + _POLL_S
        watched.watcher = None
        if watched.watching.mode == "polling":
            watched.error = watched.watching.why
            return False
        watcher = self._make(watched.source, self._sink_of(watched), self._dirty_of(watched))
        try:
            watcher.start()
        except RetryLater as error:
            if watched.error != str(error):
                log.warning("watcher_failed", path=watched.source.path, error=str(error))
            watched.error, watched.retry_at = str(error), now + _RETRY_S
            return False
        watched.watcher, watched.error = watcher, watched.watching.why
        watched.beat = _Beat(now + _BEAT_EVERY_S)
        return True

    def _restart(self, watched: _Watched, why: str) -> None:
        """Begin a watcher anew and have its source walked: what changed since nobody knows when was not told."""
        log.warning("watcher_lost", path=watched.source.path, why=why)
        if watched.watcher is not None:
            watched.watcher.stop()
        watched.watching = watching_of(watched.source, self._mounts())
        if watched.silent >= _SILENT_TIMES:
            watched.watcher, watched.silent = None, 0
            watched.error = f"{watched.source.path} is polled: events do not arrive."
            watched.retry_at = self._clock.monotonic() + _SILENT_S
        else:
            self._start(watched)
        self._dirty(watched.source.id, why)

    def _hears(self, watched: _Watched, watcher: Watcher, now: float) -> bool:
        """Ask for a proof that events arrive where it is time; False where the last one is overdue."""
        beat = watched.beat
        if beat.asked_at is None:
            if now >= beat.at:
                beat.asked_at, beat.pulse, beat.heard = now, watcher.pulse, watched.heard
                watcher.beat()
            return True
        # Any event proves it: on a busy machine a long row of them may stand before the beat.
        if watcher.pulse != beat.pulse or watched.heard != beat.heard:
            watched.silent = 0
            watched.beat = _Beat(now + _BEAT_EVERY_S)
            return True
        return now - beat.asked_at <= _BEAT_PATIENCE_S

    def _look_at_mounts(self, watched: _Watched) -> None:
        """Follow what was mounted or unmounted meanwhile."""
        watching = watching_of(watched.source, self._mounts())
        if watching == watched.watching:
            return
        begin_anew = watching.mode != watched.watching.mode
        watched.watching = watching
        if begin_anew:
            if watched.watcher is not None:
                watched.watcher.stop()
            self._start(watched)
            self._dirty(watched.source.id, "watch begun")
        elif watched.watcher is not None:
            watched.error = watching.why

    # ---- what watchers report, in their threads: never with the lock, whose holder may wait for them ----

    def _sink_of(self, watched: _Watched) -> Callable[[Change], None]:
        def sink(change: Change) -> None:
            watched.heard += 1
            self.events.add("heard")
            watched.last_event_at = self._clock.now()
            self._sink(change)

        return sink

    def _dirty_of(self, watched: _Watched) -> Callable[[int, str], None]:
        def dirty(source_id: int, why: str) -> None:
            if why in LOST:
                watched.events_lost += 1
                self.events.add("lost", why)
            self._dirty(source_id, why)

        return dirty


def _notice(watched: _Watched) -> str | None:
    """Return what a person can do for a source whose events do not all come; None where there is nothing to say."""
    if watched.watcher is None or not watched.watcher.unwatched:
        return None
    return limit_notice(watched.source.path, watched.watcher.unwatched, watch_limit())
