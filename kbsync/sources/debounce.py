"""Waiting until a path is quiet. Pure: the time and the looks at the disk are passed in; one thread owns it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace

from kbsync.filesystem import Stat
from kbsync.model import Change

Look = Callable[[str], Stat | None]


@dataclass(slots=True)
class _Waiting:
    """One path: its last event, when its first and last came (monotonic), and the look that later ones must match."""

    change: Change
    first_at: float
    last_at: float
    step_at: float
    looked_at: float | None = None
    stat: Stat | None = None
    empty_since: float | None = None


class Debounce:
    """Collects changes and gives each path out once it is quiet. All times in seconds; `now` is monotonic.

    A path comes out when no event came for `quiet_s` (`quiet_closed_s` after a writer closed it) and two looks at
    least `quiet_closed_s` apart show the same size, mtime and inode. One that is seen at 0 bytes waits `quiet_s` more.
    Nothing waits longer than `longest_wait_s` after its first event: a file that is appended to for ever comes out too.
    """

    def __init__(self, quiet_s: float = 1.0, quiet_closed_s: float = 0.3, longest_wait_s: float = 60.0) -> None:
        self._quiet_s = quiet_s
        self._quiet_closed_s = quiet_closed_s
        self._longest_wait_s = longest_wait_s
        self._waiting: dict[str, _Waiting] = {}
        # (when to look again, path); an item whose time is not its path's step_at any more is passed over.
        self._steps: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def note(self, change: Change, now: float) -> None:
        """Take in an event. The path is looked at anew at the next `due`."""
        waiting = self._waiting.get(change.path)
        if waiting is None:
            self._waiting[change.path] = waiting = _Waiting(change, now, now, now)
            self._push(now, change.path)
            return
        # An event is news, whatever walks come by.
        waiting.change = replace(change, scanned=change.scanned and waiting.change.scanned)
        waiting.last_at, waiting.looked_at = now, None
        if waiting.step_at > now:
            waiting.step_at = now
            self._push(now, change.path)

    def due(self, now: float, look: Look) -> list[Change]:
        """Return the changes that are quiet, and forget them.

        `look` gives a path's own stat, None where it is gone; what it raises passes through and nothing is lost.
        `gone` of what comes out is what the looks say, not what the event said.
        """
        quiet = []
        while self._steps and self._steps[0][0] <= now:
            step_at, path = self._steps[0]
            waiting = self._waiting.get(path)
            if waiting is None or waiting.step_at != step_at:
                heapq.heappop(self._steps)
                continue
            stat = look(path)
            heapq.heappop(self._steps)
            out = self._step(waiting, now, stat)
            if out is None:
                self._push(waiting.step_at, path)
            else:
                del self._waiting[path]
                quiet.append(out)
        return quiet

    def next_due(self, now: float) -> float | None:
        """Return in how many seconds `due` may have something to do, None where nothing waits."""
        while self._steps:
            step_at, path = self._steps[0]
            waiting = self._waiting.get(path)
            if waiting is not None and waiting.step_at == step_at:
                return max(0.0, step_at - now)
            heapq.heappop(self._steps)
        return None

    def _step(self, waiting: _Waiting, now: float, stat: Stat | None) -> Change | None:
        """Compare a look with the one before: return the change where it is quiet, else set when to look again."""
        if stat is None or stat.kind != "file" or stat.size != 0:
            waiting.empty_since = None
        elif waiting.empty_since is None:
            waiting.empty_since = now
        if waiting.looked_at is None or _version(stat) != _version(waiting.stat):
            waiting.looked_at, waiting.stat = now, stat
        # A path that is gone waits the whole time: what replaces it is often a moment behind.
        closed = waiting.change.closed and stat is not None
        quiet_at = max(
            waiting.last_at + (self._quiet_closed_s if closed else self._quiet_s),
            waiting.looked_at + self._quiet_closed_s,
        )
        if waiting.empty_since is not None:
            quiet_at = max(quiet_at, waiting.empty_since + self._quiet_s + self._quiet_closed_s)
        waiting.step_at = min(quiet_at, waiting.first_at + self._longest_wait_s)
        if waiting.step_at > now:
            return None
        return replace(waiting.change, gone=stat is None, closed=waiting.change.closed and stat is not None)

    def _push(self, step_at: float, path: str) -> None:
        heapq.heappush(self._steps, (step_at, path))
        if len(self._steps) > 2 * len(self._waiting) + 64:
            self._steps = [(waiting.step_at, path) for path, waiting in self._waiting.items()]
            heapq.heapify(self._steps)


def _version(stat: Stat | None) -> tuple[int, int, int] | None:
    return None if stat is None else (stat.size, stat.mtime_ns, stat.inode)
