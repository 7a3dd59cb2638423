"""The progress bar of `kbsync run`: files done of files known, while there is something to do."""

from __future__ import annotations

import time
from typing import Never

from tqdm import tqdm

from kbsync.knowledge_base.facade import KnowledgeBase

# Counting asks the database; more often than this nobody sees.
_EVERY_S = 0.5


class Progress:
    """A bar on stderr that appears when work comes and goes when it is done."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb
        self._bar: tqdm[Never] | None = None
        self._next_at = 0.0

    def update(self) -> None:
        """Show how far things are; cheap to call often."""
        now = time.monotonic()
        if now < self._next_at:
            return
        self._next_at = now + _EVERY_S
        done, waiting = self._kb.progress()
        if not waiting:
            self.close()
            return
        bar = self._bar
        if bar is None:
            bar = tqdm(desc="indexing", unit="file", initial=done, total=done + waiting, dynamic_ncols=True)
            self._bar = bar
        bar.total, bar.n = done + waiting, done
        bar.refresh()

    def close(self) -> None:
        """Leave the finished bar behind. Twice does no harm."""
        if self._bar is not None:
            self._bar.n = self._bar.total or 0
            self._bar.close()
            self._bar = None
