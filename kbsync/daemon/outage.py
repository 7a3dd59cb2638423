"""While kbsync's own disk or database cannot be used: how long the loops wait, what is told, and when it is over."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from kbsync.clock import Clock
from kbsync.errors import RetryLater, StorageUnavailable
from kbsync.reasons import Reason

log = structlog.stdlib.get_logger(__name__)

# What lasts is said once, then so often: a log line a second would fill the disk that is full already.
TOLD_EVERY_S = 600.0
# A loop tries again after a quarter of the time that it lasts already, within these bounds.
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S, _PAUSE_SHARE = 1.0, 10.0, 0.25
# So much more room than when it was full is worth a try at once.
_ROOM_BYTES = 1 << 20


@dataclass(slots=True)
class _Lasting:
    """What cannot be used, since when (seconds since 1970, monotonic), and how much room there was at the worst."""

    error: StorageUnavailable
    since: float
    begun: float
    failed_at: float
    room: int | None = None
    is_told: bool = False


class Outage:
    """Hears from every loop what it waits for. Any thread may call it. `room`: free bytes of the disk of our data."""

    def __init__(self, clock: Clock, room: Callable[[], int | None]) -> None:
        self._clock = clock
        self._room = room
        self._lock = threading.Lock()
        self._lasting: _Lasting | None = None
        self._told: dict[tuple[str, Reason], float] = {}

    @property
    def lasts(self) -> bool:
        """Return whether kbsync's own disk or database could not be used when it was last tried."""
        return self._lasting is not None

    def met(self, loop: str, error: RetryLater) -> float:
        """Take in what a loop could not do; return for how many seconds it should wait."""
        now = self._clock.monotonic()
        is_ours = isinstance(error, StorageUnavailable)
        with self._lock:
            pause = self._noted(error, now) if isinstance(error, StorageUnavailable) else _SHORTEST_PAUSE_S
            key = ("" if is_ours else loop, error.reason)
            told_at = self._told.get(key)
            is_news = told_at is None or now - told_at >= TOLD_EVERY_S
            if is_news:
                self._told[key] = now
                if is_ours and self._lasting is not None:
                    self._lasting.is_told = True
        if is_news and is_ours:
            log.warning("storage_unavailable", loop=loop, error=str(error))
        elif is_news:
            log.warning("loop_waits", loop=loop, error=str(error))
        return pause

    def may_be_over(self) -> bool:
        """Return whether it lasts and it is worth a try to write."""
        with self._lock:
            lasting, now = self._lasting, self._clock.monotonic()
            if lasting is None:
                return False
            return now - lasting.failed_at >= _pause(now - lasting.begun) or self._grown(lasting)

    def has_more_room(self) -> bool:
        """Return whether the disk was full and has more room now: then also what is large may fit."""
        with self._lock:
            return self._lasting is not None and self._grown(self._lasting)

    def over(self) -> None:
        """A write went well again."""
        with self._lock:
            lasting, self._lasting = self._lasting, None
        if lasting is not None and lasting.is_told:
            log.warning("storage_back", seconds=round(self._clock.monotonic() - lasting.begun, 1))

    def notice(self) -> str | None:
        """Say what a person has to know and do; None where all is well."""
        lasting = self._lasting
        if lasting is None:
            return None
        since = datetime.fromtimestamp(lasting.since, UTC).isoformat(timespec="seconds")
        return (
            f"Nothing is indexed since {since}: {lasting.error} Then all goes on by itself; search goes on meanwhile."
        )

    def _grown(self, lasting: _Lasting) -> bool:
        room = None if lasting.room is None else self._room()
        return lasting.room is not None and room is not None and room >= lasting.room + _ROOM_BYTES

    def _noted(self, error: StorageUnavailable, now: float) -> float:
        """Return the pause. The lock is held."""
        room = self._room() if error.reason is Reason.NO_SPACE else None
        lasting = self._lasting
        if lasting is None:
            self._lasting = lasting = _Lasting(error, self._clock.now(), now, now)
        lasting.error, lasting.failed_at = error, now
        if room is not None:
            lasting.room = room if lasting.room is None else min(room, lasting.room)
        return _pause(now - lasting.begun)


def _pause(lasted: float) -> float:
    return min(max(_SHORTEST_PAUSE_S, lasted * _PAUSE_SHARE), _LONGEST_PAUSE_S)
