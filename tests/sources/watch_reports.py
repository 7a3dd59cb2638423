"""What a watcher reports, collected and waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from kbsync.model import Change

PATIENCE_S = 20.0


class Reports:
    """Collects what a watcher reports, and waits for it."""

    def __init__(self) -> None:
        self.changes: set[Change] = set()
        self.dirty: list[tuple[int, str]] = []
        self._news = threading.Condition()

    def sink(self, change: Change) -> None:
        with self._news:
            self.changes.add(change)
            self._news.notify_all()

    def note_dirty(self, source_id: int, why: str) -> None:
        with self._news:
            self.dirty.append((source_id, why))
            self._news.notify_all()

    def wait(self, what: Callable[[], bool]) -> None:
        with self._news:
            assert self._news.wait_for(what, PATIENCE_S), f"never came; got {self.changes} and {self.dirty}"

    def wait_for_change(self, path: Path | str, *, closed: bool = False, gone: bool = False) -> None:
        self.wait(lambda: Change(7, str(path), closed, gone) in self.changes)

    def wait_for_dirty(self, why: str) -> None:
        self.wait(lambda: (7, why) in self.dirty)

    def paths(self) -> set[str]:
        return {change.path for change in self.changes}
