"""The loop that looks after the database beside everything else: what is over its time goes, and all is checked."""

from __future__ import annotations

import threading
from collections.abc import Callable

from kbsync.daemon.outage import Outage
from kbsync.errors import RetryLater
from kbsync.failpoints import failpoint
from kbsync.knowledge_base.facade import KnowledgeBase
from kbsync.reasons import Reason

# A database that is busy or full is left alone for so long; so is one whose full-text index was just made anew.
_PAUSE_S = 60.0
# Whoever is started every morning would never come to what is done once a day: the thread looks this often itself.
_LOOK_S = 300.0
# A piece of the check rests for as long as it took, and never longer: search goes on beside it.
_LONGEST_REST_S = 0.1


class Upkeep:
    """Steps from one thread at a time, when it was asked to. `keep_days` as in the settings; None: for ever."""

    def __init__(self, kb: KnowledgeBase, keep_days: Callable[[], float | None], stop: threading.Event) -> None:
        self._kb = kb
        self._keep_days = keep_days
        self._stop = stop
        self._asked = threading.Event()
        self._bell = threading.Event()

    def ask(self) -> None:
        """Have it be done soon; never blocks."""
        self._asked.set()
        self._bell.set()

    def wake(self) -> None:
        """Make `run` look whether it is to stop."""
        self._bell.set()

    def look(self) -> None:
        """Have what somebody met with be mended at once; never blocks."""
        if self._kb.checkup.met_damage():
            self._bell.set()

    def run(self, outage: Outage) -> None:
        """Step until told to stop; `outage` hears what stands in the way."""
        while True:
            rung = self._bell.wait(_LOOK_S)
            self._bell.clear()
            if self._stop.is_set():
                return
            try:
                if not rung and self._kb.checkup.is_due():
                    self._asked.set()
                self.step()
            except RetryLater as error:
                outage.met("upkeep", error)
                self._stop.wait(_PAUSE_S)
                self._bell.set()

    def step(self) -> bool:
        """Do what was asked for; False where nothing was. Raises RetryLater, asked for as before, and StopEngine."""
        if self._kb.checkup.mend_full_text():
            self._stop.wait(_PAUSE_S)
            return True
        if not self._asked.is_set():
            return False
        self._asked.clear()
        try:
            self._kb.prune()
            failpoint("upkeep.pruned")
            self._kb.retention.expire(self._keep_days())
            self._kb.compaction.sweep_conversions()
            self._kb.compaction.compact()
            self._kb.checkup.in_turn(self._rest)
        except RetryLater:
            self._asked.set()
            raise
        return True

    def _rest(self, seconds: float) -> None:
        self._stop.wait(min(seconds, _LONGEST_REST_S))
        if self._stop.is_set():
            raise RetryLater(Reason.RETRY, "kbsync is stopping.")
