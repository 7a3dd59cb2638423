"""Known paths that a walk did not come by: which of them were absent for long enough, and the last look at them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kbsync.filesystem import FileSystem
from kbsync.model import Source
from kbsync.reasons import Reason
from kbsync.sources.guard import LOOKS_APART_S
from kbsync.sources.scanner import judge_path
from kbsync.sources.spelling import listed_as


def has_left(fs: FileSystem, source: Source, own: frozenset[tuple[int, int]], path: str) -> bool:
    """Look once more, right before a document is hidden: gone, spelled otherwise, or below a folder that is left out.

    No, where the look fails: that says nothing.
    """
    try:
        seen = judge_path(fs, source, own, path)
        if seen is not None and seen.path == path:
            return listed_as(fs, source.path, path) != path
    except OSError:
        return False
    return seen is None or seen.reason not in (Reason.PERMISSION, Reason.IO)


@dataclass(frozen=True, slots=True)
class Missing:
    """Absent paths, sorted: `due` in two whole looks, `early` in this one only."""

    due: tuple[str, ...]
    early: tuple[str, ...]


class Absences:
    """Remembers since when the paths of one source are absent. Times are monotonic, in seconds. One thread owns it."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def after_look(self, missing: Collection[str], begun: float, ended: float) -> Missing:
        """Take in what one whole look did not find; what it found again is forgotten."""
        self._since = {path: self._since.get(path, ended) for path in missing}
        due: list[str] = []
        early: list[str] = []
        for path in sorted(missing):
            (due if begun - self._since[path] >= LOOKS_APART_S else early).append(path)
        return Missing(tuple(due), tuple(early))

    def since(self, path: str, now: float) -> float:
        """Return since when a path is absent; `now` where it is not."""
        return self._since.get(path, now)

    def forget(self, paths: Collection[str]) -> None:
        """Forget paths about which it was concluded."""
        for path in paths:
            self._since.pop(path, None)
