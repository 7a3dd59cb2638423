"""What a process did since it began, counted while it does it: how often, and for how long. Any thread may count."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

# One file's road: its bytes into memory or a copy, and their hash; text and pieces out of them; titles and token counts
# on the pieces; vectors; one transaction. Each with the waiting for what others use too: a child, a model, the writer.
Stage = Literal["read", "convert", "chunk", "embed", "write"]
STAGES: tuple[Stage, ...] = get_args(Stage)
# Times a stage while the context is open.
TimeStage: TypeAlias = "Callable[[Stage], AbstractContextManager[None]]"

# Upper bounds in seconds: a text takes milliseconds, a scanned book minutes.
BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


def untimed(_stage: Stage) -> AbstractContextManager[None]:
    """Time nothing: for who ingests outside of the engine."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class Histogram:
    """How often something took at most each of `BOUNDS_S` and more than the one before, last what took longer.

    `seconds`: all of it together.
    """

    counts: tuple[int, ...]
    seconds: float


class Durations:
    """How long things took, by what they are: `kinds` are there from the beginning, with nothing counted."""

    def __init__(self, monotonic: Callable[[], float], kinds: tuple[str, ...] = ()) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._counts = {kind: _nothing() for kind in kinds}
        self._seconds = dict.fromkeys(kinds, 0.0)

    @contextmanager
    def time(self, kind: str) -> Iterator[None]:
        """Count how long the context is open, however it ends."""
        begun = self._monotonic()
        try:
            yield
        finally:
            self.add(kind, self._monotonic() - begun)

    def add(self, kind: str, seconds: float) -> None:
        """Count something that took so long."""
        with self._lock:
            self._counts.setdefault(kind, _nothing())[bisect_left(BOUNDS_S, seconds)] += 1
            self._seconds[kind] = self._seconds.get(kind, 0.0) + seconds

    def told(self) -> dict[str, Histogram]:
        """Return what was counted until now, by kind."""
        with self._lock:
            return {kind: Histogram(tuple(counts), self._seconds[kind]) for kind, counts in self._counts.items()}


class Tally:
    """How often things happened, by what they are: one or more words."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, ...], int] = {}

    def add(self, *kind: str) -> None:
        """Count it once more."""
        with self._lock:
            self._counts[kind] = self._counts.get(kind, 0) + 1

    def told(self) -> dict[tuple[str, ...], int]:
        """Return what was counted until now, by kind."""
        with self._lock:
            return dict(self._counts)


@dataclass(frozen=True, slots=True)
class Measures:
    """Everything that an engine counts: `stages` by `Stage`, `searches` by mode, ended `jobs` by state and type."""

    stages: Durations
    searches: Durations
    jobs: Tally = field(default_factory=Tally)


def _nothing() -> list[int]:
    return [0] * (len(BOUNDS_S) + 1)
