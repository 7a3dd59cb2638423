"""The loop that looks after the database beside everything else: one duty after another, when it is asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import structlog

from kbsync.clock import Clock
from kbsync.daemon.outage import Outage
from kbsync.errors import RetryLater
from kbsync.knowledge_base.checkup import Checkup
from kbsync.reasons import Reason

log = structlog.stdlib.get_logger(__name__)

# What cannot be done now, since the database is busy or full, is tried again after so long; so long a database is left
# alone whose full-text index was just made anew.
_PAUSE_S = 60.0
# A piece of a check rests for as long as it took, and never longer: search goes on beside it.
_LONGEST_REST_S = 0.1


class Upkeep:
    """Steps from one thread at a time. `ended` hears of every duty that was done, and when it began (wall time).

    A duty blocks for as long as it takes; it raises RetryLater where it is to be tried again.
    """

    def __init__(
        self,
        clock: Clock,
        checkup: Checkup,
        duties: Mapping[str, Callable[[], object]],
        ended: Callable[[str, float], None],
        stop: threading.Event,
    ) -> None:
        self._clock = clock
        self._checkup = checkup
        self._duties = duties
        self._ended = ended
        self._stop = stop
        self._bell = threading.Event()
        # Guards what is asked for, what is being done and what went wrong: others look and ask.
        self._lock = threading.Lock()
        self._asked: dict[str, None] = {}
        self._doing: str | None = None
        self._failed: dict[str, str] = {}

    def ask(self, *names: str) -> None:
        """Have these duties be done soon, all of them where none is named; never blocks."""
        with self._lock:
            self._asked.update(dict.fromkeys(names or self._duties))
        self._bell.set()

    def is_free(self) -> bool:
        """Return whether nothing is being done, or is about to be; what failed and waits for its next try is not."""
        with self._lock:
            return self._doing is None and self._asked.keys() <= self._failed.keys()

    def doing(self) -> str | None:
        """Return what is being done."""
        return self._doing

    def failed(self) -> dict[str, str]:
        """Return what could not be done the last time and is tried again, with the reason."""
        with self._lock:
            return dict(self._failed)

    def wake(self) -> None:
        """Make `run` look whether it is to stop."""
        self._bell.set()

    def look(self) -> None:
        """Have what somebody met with be mended at once; never blocks."""
        if self._checkup.met_damage():
            self._bell.set()

    def run(self, outage: Outage) -> None:
        """Step until told to stop; `outage` hears what stands in the way."""
        while True:
            self._bell.wait()
            self._bell.clear()
            if self._stop.is_set():
                return
            try:
                self.step()
            except RetryLater as error:
                outage.met("upkeep", error)
                self._stop.wait(_PAUSE_S)
                self._bell.set()

    def step(self) -> bool:
        """Do what was asked for, one duty after another; False where nothing was.

        Raises RetryLater, and StopEngine. One that could not be done is still asked for, and holds up no other one.
        """
        if self._checkup.mend_full_text():
            self._stop.wait(_PAUSE_S)
            self._bell.set()
            return True
        with self._lock:
            wanted = [name for name in self._duties if name in self._asked]
        error = None
        for name in wanted:
            try:
                self._do(name)
            except RetryLater as found:
                error = found
        if error is not None:
            raise error
        return bool(wanted)

    def rest(self, seconds: float) -> None:
        """Rest after so many seconds of work on a long duty. Raises RetryLater where the process is to end."""
        self._stop.wait(min(seconds, _LONGEST_REST_S))
        if self._stop.is_set():
            raise RetryLater(Reason.RETRY, "kbsync is stopping.")

    def _do(self, name: str) -> None:
        began = self._clock.now()
        with self._lock:
            self._doing = name
        try:
            self.rest(0.0)
            self._duties[name]()
            self._ended(name, began)
        except RetryLater as error:
            with self._lock:
                self._failed[name] = str(error)
            raise
        else:
            with self._lock:
                self._asked.pop(name, None)
                self._failed.pop(name, None)
        finally:
            with self._lock:
                self._doing = None
