"""The watchers of all sources, supervised: begun, restarted when they fail, ended with their source."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from kbsync.clock import Clock
from kbsync.errors import RetryLater
from kbsync.model import Source
from kbsync.sources.watcher import Watcher

log = structlog.stdlib.get_logger(__name__)

# A watcher that cannot be started is tried again after this long; until then the rescans find what changes.
_RETRY_S = 30.0


@dataclass(slots=True)
class _Watched:
    source: Source
    watcher: Watcher | None
    error: str | None
    retry_at: float


class Watchers:
    """Begun and ended by whoever changes the sources, looked after by the daemon's supervisor; any thread may."""

    def __init__(self, make: Callable[[Source], Watcher], clock: Clock, dirty: Callable[[int, str], None]) -> None:
        self._make = make
        self._clock = clock
        self._dirty = dirty
        self._lock = threading.RLock()
        self._watched: dict[int, _Watched] = {}

    def begin(self, source: Source) -> None:
        """Watch a source and have it walked: first the watch, so that nothing falls between."""
        with self._lock:
            self._watched[source.id] = self._begun(source)
        self._dirty(source.id, "watch begun")

    def end(self, source_id: int) -> None:
        """Stop watching a source; one that is not watched is fine."""
        with self._lock:
            watched = self._watched.pop(source_id, None)
            if watched is not None and watched.watcher is not None:
                watched.watcher.stop()

    def supervise(self) -> None:
        """Restart what does not report any more, and have it walked; try again what could not be started."""
        with self._lock:
            self._supervise()

    def _supervise(self) -> None:
        for source_id, watched in list(self._watched.items()):
            if watched.watcher is None:
                if self._clock.monotonic() >= watched.retry_at:
                    self._watched[source_id] = self._begun(watched.source)
                    if self._watched[source_id].watcher is not None:
                        self._dirty(source_id, "watch begun")
                continue
            if not watched.watcher.healthy():
                log.warning("watcher_lost", path=watched.source.path)
                watched.watcher.stop()
                self._watched[source_id] = self._begun(watched.source)
                self._dirty(source_id, "watcher lost")

    def status(self) -> list[dict[str, object]]:
        """Return for each source: path, whether events arrive, how many folders are watched, and what is wrong."""
        return [
            {
                "path": watched.source.path,
                "watching": watched.watcher is not None,
                "folders": 0 if watched.watcher is None else watched.watcher.folders,
                "error": watched.error,
            }
            for watched in list(self._watched.values())
        ]

    def stop(self) -> None:
        """Stop all. Twice does no harm."""
        for source_id in list(self._watched):
            self.end(source_id)

    def _begun(self, source: Source) -> _Watched:
        watcher = self._make(source)
        try:
            watcher.start()
        except RetryLater as error:
            before = self._watched.get(source.id)
            if before is None or before.error != str(error):
                log.warning("watcher_failed", path=source.path, error=str(error))
            return _Watched(source, None, str(error), self._clock.monotonic() + _RETRY_S)
        return _Watched(source, watcher, None, 0.0)
