"""The engine on the real disk with real watchers, its loops turned by hand and its clock told: no test has to wait."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from kbsync.filesystem import RealFileSystem
from kbsync.model import Change, Source
from kbsync.sources.watcher import NativeWatcher, Watcher
from tests.fakes.eventually import eventually
from tests.fakes.hash_embedder import HashDevice
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_engine import SimulatedEngine, World
from tests.fakes.simulated_filesystem import SimulatedFileSystem


class WatchedDisk(SimulatedEngine):
    """A daemon over `roots`, not walked yet. `told` are the paths of every change that a watcher reported."""

    def __init__(self, home: Path, roots: Sequence[Path], *, ignore: Sequence[str] = ()) -> None:
        self.roots = roots
        self.told: set[str] = set()
        self.natives: list[NativeWatcher] = []
        self._telling = threading.Lock()
        self._cookies = itertools.count()
        # Ahead of the disk's own time, so that no file looks as if it were just being written.
        clock = ManualClock(time.time() + 10.0)
        world = World(home, clock, cast(SimulatedFileSystem, RealFileSystem()), HashDevice())
        world.configure(*map(str, roots), ignore=ignore)
        super().__init__(world)

    def make_watcher(
        self, source: Source, sink: Callable[[Change], None], dirty: Callable[[int, str], None]
    ) -> Watcher:
        def told(change: Change) -> None:
            sink(change)
            with self._telling:
                self.told.add(change.path)

        watcher = NativeWatcher(source, told, dirty, heartbeat=self.world.locations.heartbeat_dir)
        self.natives.append(watcher)
        return watcher

    def hear(self) -> None:
        """Wait until the watchers told everything that happened up to now: a cookie in each root comes last."""
        cookies = [str(root / f"cookie-{next(self._cookies)}.md") for root in self.roots]
        written_at = float("-inf")

        def told() -> bool:
            nonlocal written_at
            # Anew now and then: the first may be among the events that are lost.
            if time.monotonic() - written_at > 2.0:
                for cookie in cookies:
                    Path(cookie).write_text("a cookie that is read by nobody\n")
                written_at = time.monotonic()
            return self.told.issuperset(cookies)

        eventually(told, within_s=100.0)

    def work_off(self) -> None:
        """Do what events alone ask for, and walk nothing."""
        while not self.loops.producer.idle() or self._jobs():
            self.loops.producer.step()
            while any(worker.step() for worker in self.loops.workers):
                pass
            self.clock.advance(0.25)

    def supervise(self, seconds: float) -> None:
        """Let time pass as the daemon's supervisor sees it, and work off what it asks for."""
        for _ in range(int(seconds // 2)):
            self.clock.advance(2.0)
            self.loops.watchers.supervise()
        self.settle()

    def watched(self) -> dict[str, object]:
        """Return the first source's entry in `status`."""
        return self.loops.watchers.status()[0]

    def close(self) -> None:
        self.loops.watchers.stop()
        super().close()

    def _jobs(self) -> bool:
        return bool(self.read("SELECT count(*) FROM jobs WHERE state = 'queued'")[0][0])


def clean_run(home: Path, roots: Sequence[Path], *, ignore: Sequence[str] = ()) -> dict[str, list[tuple[object, ...]]]:
    """Return the index of an engine that finds these folders as they are now, and never hears an event."""
    disk = WatchedDisk(home, roots, ignore=ignore)
    try:
        disk.loops.watchers.stop()
        disk.rescan()
        return disk.index()
    finally:
        disk.close()
