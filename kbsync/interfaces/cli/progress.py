"""The progress bar of `kbsync run`: files done of files known, while there is something to do."""

from __future__ import annotations

import time
from typing import Never

from tqdm import tqdm

from kbsync.errors import KbsyncError
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
        try:
            self._show()
        except OSError:  # the terminal is gone
            self._bar, self._next_at = None, float("inf")

    def _show(self) -> None:
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
        """Leave the bar behind as things are: full only where nothing waits. Twice does no harm."""
        bar, self._bar = self._bar, None
        if bar is None:
            return
        try:
            done, waiting = self._kb.progress()
        except KbsyncError:
            pass  # the database cannot be asked any more: the bar stays where it was
        else:
            bar.total, bar.n = done + waiting, done
        try:
            bar.close()
        except OSError:
            pass  # the terminal is gone
