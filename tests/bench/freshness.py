"""How long after its last write a small Markdown file is found, by the daemon as a person runs it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from kbsync.config.locations import locate
from kbsync.interfaces.cli.client import running
from tests.bench.figures import Figure
from tests.bench.library import library_files

DROPS = 20
QUEUED_FILES = 500
# The first start imports torch on whatever disk there is.
_START_S = 300.0
_FOUND_S = 120.0
_LOOK_EVERY_S = 0.05


class Subject(Protocol):
    """A running daemon, as its user meets it."""

    def search(self, query: str) -> list[dict[str, Any]]:
        """Return the hits of a hybrid search, each with `path` and `text`."""
        ...

    def waiting(self) -> int:
        """Return how many jobs are queued or processing."""
        ...

    def add_source(self, folder: str) -> None:
        """Follow one more folder."""
        ...


def measure(drops: int = DROPS, queued_files: int = QUEUED_FILES) -> list[Figure]:
    """Return seconds from the last write to the hit, for new and for changed files, idle and during a first scan."""
    with tempfile.TemporaryDirectory(prefix="kbsync-bench-") as folder:
        fresh, bulk = (os.path.join(os.path.realpath(folder), name) for name in ("fresh", "bulk"))
        os.mkdir(fresh)
        os.mkdir(bulk)
        with program(os.path.join(folder, "home"), fresh) as subject:
            return measured(subject, fresh, bulk, drops, queued_files)


def measured(subject: Subject, fresh: str, bulk: str, drops: int, queued_files: int) -> list[Figure]:
    """Measure a daemon that watches the empty folder `fresh`; it is told of `bulk` when that is full."""
    # The first file takes what comes once, such as the query's first way through the model.
    _drop(subject, fresh, "warm up", 0)
    idle = _drops_and_changes(subject, fresh, "idle", drops)
    for number, path in enumerate(library_files(queued_files)):
        shutil.copy(path, os.path.join(bulk, f"{number:04}-{os.path.basename(path)}"))
    subject.add_source(bulk)
    _until(lambda: subject.waiting() >= min(queued_files, drops) // 2, "the first scan to be queued")
    left = [float(subject.waiting())]
    busy = _drops_and_changes(subject, fresh, "scanning", drops)
    left.append(float(subject.waiting()))
    return [*idle, *busy, Figure("freshness: jobs waiting, begin and end", "jobs", tuple(left))]


@contextmanager
def program(home: str, folder: str) -> Iterator[Subject]:
    """Run `kbsync run` in a process of its own, with its own home, the model ready when it is yielded."""
    os.mkdir(home)
    with open(os.path.join(home, "config.toml"), "w", encoding="utf-8") as file:
        file.write(f"[[sources]]\npath = '{folder}'\n")
    environment = {**os.environ, "KBSYNC_HOME": home}
    command = [sys.executable, "-m", "kbsync", "run", "--no-progress"]
    with open(os.path.join(home, "output"), "wb") as output:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        subject = _Program(home, process)
        _until(subject.ready, "the daemon to load its model", _START_S)
        yield subject
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


class _Program:
    def __init__(self, home: str, process: subprocess.Popen[bytes]) -> None:
        self._home = home
        self._process = process

    def ready(self) -> bool:
        if self._process.poll() is not None:
            with open(os.path.join(self._home, "output"), encoding="utf-8", errors="replace") as output:
                raise RuntimeError(f"The daemon ended: {output.read()[-2000:]}")
        client = running(locate({"KBSYNC_HOME": self._home}))
        # With a query that went through the model the mode is what was asked for.
        return client is not None and client.get("search", q="ready", mode="hybrid")["mode"] == "hybrid"

    def search(self, query: str) -> list[dict[str, Any]]:
        hits: list[dict[str, Any]] = self._client().get("search", q=query, mode="hybrid", limit=10)["hits"]
        return hits

    def waiting(self) -> int:
        counts: dict[str, int] = self._client().get("status")["queue"]
        return counts["queued"] + counts["processing"]

    def add_source(self, folder: str) -> None:
        self._client().post("sources", {"path": folder})

    def _client(self) -> Any:
        return running(locate({"KBSYNC_HOME": self._home}))


def _drops_and_changes(subject: Subject, folder: str, when: str, drops: int) -> list[Figure]:
    dropped = tuple(_drop(subject, folder, when, number) for number in range(drops))
    changed = tuple(_drop(subject, folder, when, number, edition=2) for number in range(drops))
    return [
        Figure(f"freshness: new file, {when}", "s", dropped),
        Figure(f"freshness: changed file, {when}", "s", changed),
    ]


def _drop(subject: Subject, folder: str, when: str, number: int, edition: int = 1) -> float:
    """Write a file whose text holds a word that is nowhere else; return how long it took to be found by it."""
    path = os.path.join(folder, f"{when.replace(' ', '-')}-{number}.md")
    word = f"{when.replace(' ', '')}{'abcdefghij'[number // 10 % 10]}{'klmnopqrst'[number % 10]}{'xyz'[edition]}word"
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"# Garden diary {number}\n\nToday the {word} was planted beside the old wall.\n")
    written = time.perf_counter()
    _until(lambda: any(hit["path"] == path and word in hit["text"] for hit in subject.search(word)), f"{path}")
    return time.perf_counter() - written


def _until(holds: Callable[[], bool], what: str, limit_s: float = _FOUND_S) -> None:
    end = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > end:
            raise RuntimeError(f"Waited {limit_s:.0f} s for {what}.")
        time.sleep(_LOOK_EVERY_S)
