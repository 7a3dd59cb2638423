"""The loop that looks after the database beside everything else: what is over its time goes, and all is checked."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from kbsync.errors import RetryLater
from kbsync.knowledge_base.facade import KnowledgeBase

log = structlog.stdlib.get_logger(__name__)

# A database that is busy or full is left alone for so long.
_PAUSE_S = 60.0


class Upkeep:
    """Steps from one thread at a time, when it was asked to. `keep_days` as in the settings; None: for ever."""

    def __init__(self, kb: KnowledgeBase, keep_days: Callable[[], float | None], stop: threading.Event) -> None:
        self._kb = kb
        self._keep_days = keep_days
        self._stop = stop
        self._asked = threading.Event()

    def ask(self) -> None:
        """Have it be done soon; never blocks."""
        self._asked.set()

    def wake(self) -> None:
        """Make `run` look whether it is to stop."""
        self._asked.set()

    def run(self) -> None:
        """Step until told to stop."""
        while True:
            self._asked.wait()
            if self._stop.is_set():
                return
            try:
                self.step()
            except RetryLater as error:
                log.warning("upkeep_waits", error=str(error))
                self._stop.wait(_PAUSE_S)

    def step(self) -> bool:
        """Do what was asked for; False where nothing was. Raises RetryLater, asked for as before, and StopEngine."""
        if not self._asked.is_set():
            return False
        self._asked.clear()
        try:
            self._kb.prune()
            self._kb.retention.expire(self._keep_days())
            if problems := self._kb.check():
                log.error("integrity", problems=[problem.kind for problem in problems])
        except RetryLater:
            self._asked.set()
            raise
        return True
