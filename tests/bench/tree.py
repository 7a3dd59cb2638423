"""What a large tree costs the whole engine: its first scan, a rescan of it unchanged, a thousand files moved offline.

Real disk and database, everything in one thread; embedding is the fake's at the seam. Each walk is set against a plain
`os.walk` with `os.stat` of the same tree in the same run.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from kbsync.compose import Engine, build_daemon, open_engine
from kbsync.config.locations import locate
from kbsync.config.settings import load_settings
from kbsync.daemon.daemon import Daemon
from kbsync.sources.coverage import WalkedFolders
from tests.bench.figures import Figure, ratio
from tests.bench.scan import LaterClock, bare_walk, make_tree
from tests.fakes.hash_embedder import HashDevice, hash_vectors
from tests.fakes.hashed_seams import hashed_seams

if TYPE_CHECKING:
    from kbsync.model import Vectors

FILES = 100_000
MOVED = 1_000
ROUNDS = 3
_MEGABYTE = 1 << 20


class CountingDevice(HashDevice):
    """Remembers how many texts it was given and none of them."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = 0

    def encode(self, texts: Sequence[str], query: bool) -> Vectors:
        self.texts += len(texts)
        return hash_vectors(texts, self.dimension)


class NoWatcher:
    """A watcher to which nothing happens."""

    pulse = 0
    folders = 0
    unwatched = 0

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def beat(self) -> None: ...
    def follow(self, walked: WalkedFolders) -> None: ...

    def healthy(self) -> bool:
        return True


@contextmanager
def _life(home: str, device: HashDevice) -> Iterator[tuple[Engine, Daemon]]:
    locations = locate({"KBSYNC_HOME": home})
    seams = replace(hashed_seams(device), clock=LaterClock(), make_watcher=lambda *_: NoWatcher())
    engine = open_engine(locations, load_settings(locations.config_file), seams)
    try:
        daemon = build_daemon(engine)
        daemon.reload()
        yield engine, daemon
    finally:
        engine.close()


def _walk(daemon: Daemon) -> float:
    """Walk as the timer does; return the seconds. Nothing of the tree is so young that it must settle."""
    daemon.rescan()
    started = time.perf_counter()
    if not daemon.loops.rescans.step() or daemon.loops.producer.step():
        raise RuntimeError("The tree was not walked whole.")
    return time.perf_counter() - started


def _work(daemon: Daemon) -> float:
    """Work every job that is queued; return the seconds."""
    started = time.perf_counter()
    worker = daemon.loops.workers[0]
    while worker.step():
        pass
    return time.perf_counter() - started


def _bare(root: str) -> float:
    started = time.perf_counter()
    bare_walk(root)
    return time.perf_counter() - started


def _move(root: str, files: int) -> None:
    """Move files as a person does while kbsync is off: whole folders to another name, some names one by one."""
    left = files
    for area in sorted(Path(root).iterdir()):
        for topic in sorted(area.iterdir()) if area.is_dir() else ():
            inside = sorted(topic.glob("*.md"))
            if not left:
                return
            if len(inside) <= left and left > files // 2:
                topic.rename(area / f"renamed {topic.name}")
                left -= len(inside)
                continue
            target = Path(root) / "moved" / topic.name
            target.mkdir(parents=True, exist_ok=True)
            for path in inside[:left]:
                path.rename(target / path.name)
            left -= len(inside[:left])


def measure(files: int = FILES, moved: int = MOVED, rounds: int = ROUNDS) -> list[Figure]:
    """Return seconds, ratios to the bare walk, texts embedded, memory held. Raises where the moves embed anything."""
    memory: list[float] = []
    weigh: Callable[[], None] = lambda: memory.append(psutil.Process().memory_info().rss / _MEGABYTE)  # noqa: E731
    with tempfile.TemporaryDirectory(prefix="kbsync-bench-") as folder:
        root, home = os.path.join(os.path.realpath(folder), "tree"), os.path.join(folder, "home")
        os.mkdir(root)
        os.mkdir(home)
        make_tree(root, files)
        Path(home, "config.toml").write_text(f"[[sources]]\npath = '{root}'\n", encoding="utf-8")
        bare_walk(root)
        device = CountingDevice()
        with _life(home, device) as (_, daemon):
            bare_first = [_bare(root)]
            weigh()
            first = [_walk(daemon)]
            weigh()
            indexing = _work(daemon)
            embedded = device.texts
            weigh()
            bare, again = [], []
            for _ in range(rounds):
                bare.append(_bare(root))
                again.append(_walk(daemon))
                weigh()
        _move(root, moved)
        with _life(home, device) as (engine, daemon):
            bare_moved = [_bare(root)]
            following = [_walk(daemon)]
            weigh()
            proving = _work(daemon)
            events = [event.kind for event in engine.kb.history(None, 3 * moved)[0]]
    if device.texts != embedded or events.count("moved") != moved:
        raise RuntimeError(f"{device.texts - embedded} texts were embedded, {events.count('moved')} files followed.")
    return [
        Figure("tree: os.walk + os.stat", "s", tuple(bare_first + bare + bare_moved)),
        Figure("tree: first scan, all queued", "s", tuple(first)),
        Figure("tree: indexing all of it", "s", (indexing,)),
        Figure("tree: rescan, nothing changed", "s", tuple(again)),
        Figure(f"tree: walk that follows {moved} moves", "s", tuple(following)),
        Figure("tree: proving the moves by their hash", "s", (proving,)),
        ratio("tree: first scan against bare", first, bare_first),
        ratio("tree: rescan against bare", again, bare),
        ratio("tree: walk that follows moves against bare", following, bare_moved),
        Figure("tree: texts embedded, all", "texts", (float(embedded),)),
        Figure("tree: texts embedded by the moves", "texts", (float(device.texts - embedded),)),
        Figure("tree: memory held, from before to after", "MB", tuple(memory)),
    ]
