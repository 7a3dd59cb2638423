"""The loop that makes the index anew, a step at a time, while everything else goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable

from kbsync.daemon.outage import Outage
from kbsync.daemon.wake import Wake
from kbsync.errors import RetryLater
from kbsync.knowledge_base.reindexing import Reindexing

# Nobody waits for it by the second: a look at the database this often finds what was asked for, or may be tried again.
_LONGEST_SLEEP_S = 5.0


class Reindexer:
    """Steps from one thread at a time; the bell `work` wakes it. `defers` says why it waits, None where it does not."""

    def __init__(
        self,
        reindexing: Reindexing,
        work: Wake,
        stop: threading.Event,
        defers: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._reindexing = reindexing
        self._work = work
        self._stop = stop
        self._defers = defers

    def run(self, outage: Outage) -> None:
        """Step until told to stop; `outage` hears what stands in the way."""
        while not self._stop.is_set():
            rings = self._work.rings()
            try:
                if self.step():
                    continue
                pause = _LONGEST_SLEEP_S
            except RetryLater as error:  # the database is busy or full, or the model's memory is short
                pause = 0.0 if self._stop.is_set() else outage.met("reindexer", error)
            self._work.wait(rings, pause)

    def step(self) -> bool:
        """Make one piece anew; False where there is nothing to do now."""
        if self._defers() is not None:
            return False
        busy = self._reindexing.step()
        if busy:
            self._work.ring()  # a document may have been queued
        return busy
