"""A bell between threads: who waits for work hears that there may be some."""

from __future__ import annotations

import threading


class Wake:
    """Counts rings, so that one that comes between a look and the wait is not lost."""

    def __init__(self) -> None:
        self._rung = threading.Condition()
        self._rings = 0

    def ring(self) -> None:
        """Wake everybody who waits."""
        with self._rung:
            self._rings += 1
            self._rung.notify_all()

    def rings(self) -> int:
        """Return how often it rang; take it before the look, hand it to `wait` after."""
        with self._rung:
            return self._rings

    def wait(self, since: int, timeout: float) -> None:
        """Wait until it rang since, or `timeout` seconds."""
        with self._rung:
            self._rung.wait_for(lambda: self._rings != since, timeout)
