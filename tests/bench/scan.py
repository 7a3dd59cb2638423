"""What walking, judging and queueing a tree costs against plain `os.walk` and `os.stat` of the same tree."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable

from kbsync.clock import SystemClock
from kbsync.config.sections import SourceSettings
from kbsync.config.settings import Settings
from kbsync.daemon.rescans import Rescans
from kbsync.daemon.source_walk import SourceWalks
from kbsync.daemon.wake import Wake
from kbsync.filesystem import RealFileSystem
from kbsync.knowledge_base.configured import ConfiguredSources
from kbsync.model import Change
from kbsync.store.connection import Connection
from kbsync.store.writer import Readers, Writer
from tests.bench.figures import Figure, ratio

FILES = 20_000
ROUNDS = 5
FIRST_ROUNDS = 3
_FILES_IN_A_FOLDER = 50


class LaterClock(SystemClock):
    """The machine's clock, but ahead: the tree that was just made is old enough to be read."""

    def now(self) -> float:
        return super().now() + 60.0


def make_tree(root: str, files: int) -> None:
    """Make so many tiny files, 50 in a folder, ten folders in a folder; one in fifty is left out by a rule."""
    for number in range(files):
        folder = number // _FILES_IN_A_FOLDER
        path = os.path.join(root, f"area{folder // 10}", f"topic{folder % 10}")
        if number % _FILES_IN_A_FOLDER == 0:
            os.makedirs(path)
        ending = "tmp" if number % _FILES_IN_A_FOLDER == 7 else "md"
        with open(os.path.join(path, f"note{number}.{ending}"), "w", encoding="utf-8") as file:
            file.write(f"note {number}\n")
    with open(os.path.join(root, ".gitignore"), "w", encoding="utf-8") as file:
        file.write("build/\n*.log\n")


def bare_walk(root: str) -> int:
    """Look at every file as any program must, and return how many there are."""
    seen = 0
    for folder, _folders, names in os.walk(root):
        for name in names:
            os.stat(os.path.join(folder, name))
            seen += 1
    return seen


class Scanned:
    """A database of its own for one tree, and the daemon's walk over it. Nothing is worked, so all stays queued."""

    def __init__(self, folder: str, root: str) -> None:
        self._database = os.path.join(folder, "kb.sqlite3")
        self._root = root

    def open(self) -> None:
        clock, stop = LaterClock(), threading.Event()
        self._writer, self._readers = Writer(self._database), Readers(self._database)
        self._writer.open()
        self._writer.start()
        sources = ConfiguredSources(self._writer, self._readers, clock)
        [source], _ended = sources.follow(Settings(sources=(SourceSettings(path=self._root),)))
        self._source_id = source.id
        self._settling: list[Change] = []
        walks = SourceWalks(
            RealFileSystem(),
            clock,
            self._writer,
            self._readers,
            sources,
            frozenset(),
            self._settling.append,
            Wake(),
            stop,
            lambda _source_id, _folders: None,
            lambda _source_id: False,
        )
        self._rescans = Rescans(clock, sources, walks, Wake(), stop)

    def walk(self) -> tuple[int, int]:
        """Walk once as the daemon does; return (files seen, files queued)."""
        self._rescans.request_all()
        if not self._rescans.step() or self._settling:
            raise RuntimeError("The tree was not walked whole.")
        last = self._rescans.last[self._source_id]
        return last.files, last.queued

    def settle(self) -> None:
        """Write that everything queued was indexed, as the workers do one by one."""

        def settle(connection: Connection) -> None:
            connection.execute("UPDATE files SET state = 'indexed', reason = NULL WHERE state = 'waiting'")
            connection.execute("DELETE FROM jobs")

        self._writer.run(settle)

    def close(self) -> None:
        self._writer.close()
        self._readers.close()


def measure(files: int = FILES, rounds: int = ROUNDS, first_rounds: int = FIRST_ROUNDS) -> list[Figure]:
    """Return seconds of the bare walk, of a first scan and of a rescan with nothing changed, and their ratios."""
    with tempfile.TemporaryDirectory(prefix="kbsync-bench-") as folder:
        root = os.path.join(os.path.realpath(folder), "tree")
        os.mkdir(root)
        make_tree(root, files)
        bare_walk(root)
        bare_first, first = [], []
        for number in range(first_rounds):
            home = os.path.join(folder, f"first{number}")
            os.mkdir(home)
            scanned = Scanned(home, root)
            scanned.open()
            bare_first.append(_seconds(lambda: bare_walk(root)))
            first.append(_seconds(lambda scanned=scanned: scanned.walk()))  # type: ignore[misc]
            if number < first_rounds - 1:
                scanned.close()
        scanned.settle()
        bare, again = [], []
        for _ in range(rounds):
            bare.append(_seconds(lambda: bare_walk(root)))
            again.append(_seconds(lambda: scanned.walk()))
        seen, queued = scanned.walk()
        scanned.close()
    if (seen, queued) != (files + 1, 0):
        raise RuntimeError(f"The last rescan saw {seen} files and queued {queued}.")
    return [
        Figure("scan: os.walk + os.stat", "s", tuple(bare_first + bare)),
        Figure("scan: first scan, all queued", "s", tuple(first)),
        Figure("scan: rescan, nothing changed", "s", tuple(again)),
        ratio("scan: first scan against bare", first, bare_first),
        ratio("scan: rescan against bare", again, bare),
    ]


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
