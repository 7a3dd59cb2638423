"""Keeps staged copies whose jobs have ended for as long as a backup copies what was staged when it began."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager


class StagingHold:
    """While it is open, copies that are to go wait. Any thread may call it; one at a time opens it."""

    def __init__(self, remove: Callable[[str], None]) -> None:
        self._remove = remove
        self._lock = threading.Lock()
        self._open = False
        self._names: Collection[str] | None = None
        self._waiting: list[str] = []

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have every copy wait until the block ends, or as `only` says."""
        with self._lock:
            self._open, self._names = True, None
        try:
            yield
        finally:
            with self._lock:
                self._open, going, self._waiting = False, self._waiting, []
            for path in going:
                self._remove(path)

    def only(self, names: Collection[str]) -> None:
        """Have copies of these names wait, and no others."""
        with self._lock:
            self._names = names
            going = [path for path in self._waiting if os.path.basename(path) not in names]
            self._waiting = [path for path in self._waiting if os.path.basename(path) in names]
        for path in going:
            self._remove(path)

    def all(self) -> None:
        """Have every copy wait again."""
        with self._lock:
            self._names = None

    def takes(self, path: str) -> bool:
        """Return whether a copy that is to go waits; then it goes later, by itself."""
        with self._lock:
            if not self._open or (self._names is not None and os.path.basename(path) not in self._names):
                return False
            self._waiting.append(path)
            return True
