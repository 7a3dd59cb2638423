"""The progress bar of `kbsync add`: files, pages, the file being read, the rate and the time left."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Never, TextIO

from tqdm import tqdm

from kbsync.interfaces.cli.exits import one_line
from kbsync.interfaces.cli.output import counted

# A longer name would push the figures off the line.
_NAME_CHARACTERS = 32


class BatchProgress:
    """A bar on a terminal. One thread uses it; `close` when done."""

    def __init__(self, terminal: TextIO | None = None) -> None:
        self._terminal = terminal or sys.stderr
        self._bar: tqdm[Never] | None = None

    def show(self, done: int, total: int, pages: int, current: str | None) -> None:
        """Show how many files are done, how many pages they had, and the path that is being read."""
        if self._bar is None:
            self._bar = tqdm(
                desc="adding", unit="file", total=total, file=self._terminal, dynamic_ncols=True, leave=False
            )
        parts = [counted(pages, "page")] if pages else []
        if current is not None:
            parts.append(_short(os.path.basename(current)))
        self._bar.total, self._bar.n = total, done
        self._bar.set_postfix_str(", ".join(parts), refresh=False)
        self._bar.refresh()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the bar away while a line is printed."""
        if self._bar is None:
            yield
            return
        self._bar.clear()
        yield
        self._terminal.flush()
        self._bar.refresh()

    def close(self) -> None:
        """Take the bar away for good. Twice does no harm."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()


def _short(name: str) -> str:
    name = one_line(name)
    return name if len(name) <= _NAME_CHARACTERS else name[: _NAME_CHARACTERS - 1] + "…"
