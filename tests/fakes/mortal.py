"""A clock and a disk at which the process that looks at them can be killed, at any one of its looks."""

from __future__ import annotations

from kbsync.filesystem import Entry, Stat
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_filesystem import SimulatedFileSystem, SimulatedOpenFile


class Killed(BaseException):
    """The process ends here; nothing after it runs."""


class Fate:
    """Counts the times the engine looked at the clock or the disk, and kills it at one of them."""

    def __init__(self, kill_at: int | None = None) -> None:
        self.looks = 0
        self.kill_at = kill_at

    def look(self) -> None:
        self.looks += 1
        if self.looks == self.kill_at:
            raise Killed


class MortalClock(ManualClock):
    def __init__(self, fate: Fate) -> None:
        super().__init__()
        self.fate = fate

    def now(self) -> float:
        self.fate.look()
        return super().now()

    def steady_now(self) -> float:
        """Return the wall time without a look: nobody dies of it."""
        return super().now()


class _SteadyClock:
    """The same time for the disk, whose changes are not the engine's doing."""

    def __init__(self, clock: MortalClock) -> None:
        self._clock = clock

    def now(self) -> float:
        return self._clock.steady_now()

    def monotonic(self) -> float:
        return self._clock.monotonic()


class MortalFileSystem(SimulatedFileSystem):
    def __init__(self, clock: MortalClock) -> None:
        super().__init__(_SteadyClock(clock))
        self._fate = clock.fate

    def lstat(self, path: str) -> Stat:
        self._fate.look()
        return super().lstat(path)

    def list_directory(self, path: str) -> list[Entry]:
        self._fate.look()
        return super().list_directory(path)

    def open_file(self, path: str) -> SimulatedOpenFile:
        self._fate.look()
        return super().open_file(path)
