"""Where crashes are played: the engine on a real disk in memory, in one thread; what outlives a process is shared.

The clock, how far a play has come and whether the planned failure has happened lie in memory that forked children
share. What was acknowledged and what was embedded is appended to files, as a person and a meter would write it down.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import re
import shutil
import struct
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import apsw

from kbsync.errors import RetryLater
from kbsync.filesystem import RealFileSystem
from kbsync.knowledge_base import restore
from kbsync.model import Source
from kbsync.sources.inbox import Inbox, RealInbox
from kbsync.store import meta
from tests.fakes.hash_embedder import HashDevice
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_engine import SimulatedEngine, World
from tests.fakes.simulated_filesystem import SimulatedFileSystem

if TYPE_CHECKING:
    from kbsync.model import Vectors

Dump = dict[str, Any]

_FIELDS = ("now", "monotonic", "deed", "acted", "fired", "dimension")
_DIGITS = re.compile(r"\d+(-\d+)*")
_TO_DO = (meta.BUILDING_EMBEDDER, meta.REMAKING, meta.FILLING, meta.DISCARDS)
DIMENSIONS = (16, 24)


class SharedNumbers:
    """A few numbers by name in memory that survives a killed child."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8 * len(_FIELDS))

    def __getitem__(self, name: str) -> float:
        value: float = struct.unpack_from("d", self._memory, 8 * _FIELDS.index(name))[0]
        return value

    def __setitem__(self, name: str, value: float) -> None:
        struct.pack_into("d", self._memory, 8 * _FIELDS.index(name), value)


class SharedClock(ManualClock):
    """A clock that goes on where the killed process saw it last."""

    def __init__(self, numbers: SharedNumbers) -> None:
        self._numbers = numbers

    def now(self) -> float:
        return self._numbers["now"]

    def monotonic(self) -> float:
        return self._numbers["monotonic"]

    def advance(self, seconds: float) -> None:
        self._numbers["now"] += seconds
        self._numbers["monotonic"] += seconds


class MeteredDevice(HashDevice):
    """Writes down every text that it is given to embed, in a file that outlives the process."""

    def __init__(self, dimension: int, meter: Path) -> None:
        super().__init__(dimension)
        self._meter = meter

    def encode(self, texts: Sequence[str], query: bool) -> Vectors:
        if not query:
            marks = (f"{self.dimension} {hashlib.sha256(text.encode()).hexdigest()}\n" for text in texts)
            _append(self._meter, "".join(marks))
        return super().encode(texts, query)


class CrashEngine(SimulatedEngine):
    """One life of the daemon on the stage. A loop that is told to come again later does so."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        super().__init__(stage.world())

    def open_inbox(self, source: Source) -> Inbox:
        return RealInbox(source)

    def turn(self) -> bool:
        loops = self.loops
        busy = False
        steps: list[Callable[[], object]] = [loops.producer.step, loops.rescans.step]
        steps += [loops.reindexer.step, loops.scrub.step, self.daemon.upkeep.step]
        for step in steps:
            with contextlib.suppress(RetryLater):
                busy |= bool(step())
        for worker in loops.workers:
            with contextlib.suppress(RetryLater):
                if worker.step():
                    busy = True
                    self._stage.acknowledge_documents(self)
        return busy


class Stage:
    """A home and a person's folders below `base`, and the life of the daemon that works on them now."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.home = base / "home"
        self.numbers = SharedNumbers()
        self.clock = SharedClock(self.numbers)
        self._acknowledged = base / "acknowledged"
        self._embedded = base / "embedded"
        self._engine: CrashEngine | None = None

    def clear(self) -> None:
        """Begin anew with empty folders, a clock that is a little ahead of the disk's and the first model."""
        shutil.rmtree(self.base, ignore_errors=True)
        for folder in (self.home, self.path("notes"), self.path("archive"), self.path("inbox")):
            folder.mkdir(parents=True)
        self.numbers["dimension"] = DIMENSIONS[0]
        self.begin()
        self.configure()

    def begin(self) -> None:
        """Have a play begin: nothing was done, acknowledged or embedded yet."""
        self.numbers["now"] = max(self.numbers["now"], time.time() + 10.0)
        self.numbers["monotonic"] = max(self.numbers["monotonic"], 1_000.0)
        self.numbers["deed"] = self.numbers["acted"] = self.numbers["fired"] = 0
        for record in (self._acknowledged, self._embedded, self.path("damaged")):
            record.unlink(missing_ok=True)
        for backup in self.base.glob("backup*"):
            shutil.rmtree(backup)

    # ---- a person and their disk ----

    def path(self, name: str) -> Path:
        return self.base / name

    def configure(self, *folders: str, text: str = "") -> None:
        """Write the configuration: mirrors of these folders, `notes` and `archive` where none is named; an inbox."""
        entries = [f'[[sources]]\npath = "{self.path(name)}"\n' for name in folders or ("notes", "archive")]
        entries.append(f'[[sources]]\npath = "{self.path("inbox")}"\nmode = "inbox"\n')
        (self.home / "config.toml").write_text("\n".join(["workers = 1", text, *entries]))

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file, and have the daemon that runs hear of it."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        self._report(path, gone=False)

    def remove(self, name: str) -> None:
        self.path(name).unlink(missing_ok=True)
        self._report(self.path(name), gone=True)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or folder; done before, it stays done."""
        if self.path(old).exists():
            self.path(new).parent.mkdir(parents=True, exist_ok=True)
            self.path(old).rename(self.path(new))
        self._report(self.path(old), gone=True)
        self._report(self.path(new), gone=False)

    def _report(self, path: Path, *, gone: bool) -> None:
        if self._engine is not None:
            self._engine.report(str(path), closed=not gone, gone=gone)

    # ---- the daemon ----

    @property
    def engine(self) -> CrashEngine:
        assert self._engine is not None, "no daemon runs"
        return self._engine

    @property
    def data(self) -> Path:
        return self.home / "data"

    def world(self) -> World:
        devices = {dimension: MeteredDevice(dimension, self._embedded) for dimension in DIMENSIONS}
        device = devices.pop(int(self.numbers["dimension"]))
        return World(
            self.home, self.clock, cast(SimulatedFileSystem, RealFileSystem()), device, tuple(devices.values())
        )

    @property
    def is_open(self) -> bool:
        return self._engine is not None

    def open(self) -> None:
        """Start the daemon as `kbsync run` does."""
        restore.carry_through(self.world().locations)
        self._engine = CrashEngine(self)

    def close(self) -> None:
        """End the daemon as SIGTERM does."""
        engine, self._engine = self.engine, None
        engine.daemon.stop()
        engine.close()

    def restart(self) -> None:
        if self._engine is not None:
            self.close()
        self.open()

    def outside(self, statement: str) -> None:
        """Have another program change the database while no daemon runs."""
        with contextlib.closing(apsw.Connection(str(self.data / "kb.sqlite3"))) as connection:
            connection.execute(statement)

    # ---- what was promised ----

    def acknowledge(self, what: str, value: object) -> None:
        """Write down that somebody was told of it: it may not be lost any more."""
        _append(self._acknowledged, f"{what} {value}\n")

    def acknowledge_documents(self, engine: CrashEngine) -> None:
        """Write down which documents are told to be indexed, and of how many chunks they are."""
        for row in engine.read(
            "SELECT content_hash, (SELECT count(*) FROM chunks WHERE document_id = documents.id) FROM documents"
        ):
            self.acknowledge("document", "{} {}".format(*row))

    def broken_promises(self, *, but_removed: bool) -> list[str]:
        """Return what was acknowledged before and is not there. `but_removed`: documents may be removed by now."""
        rows = self.engine.read(
            "SELECT content_hash, (SELECT count(*) FROM chunks WHERE document_id = documents.id) FROM documents"
        )
        there = {f"document {content_hash} {count}" for content_hash, count in rows}
        there |= {f"job {number}" for (number,) in self.engine.read("SELECT id FROM jobs")}
        told = sorted(set(_lines(self._acknowledged)))
        taken = {line.split()[1] for line in told if line.startswith("removing ")}
        wrong = []
        for line in told:
            what, value, *_ = line.split()
            if what == "removed" and any(value in row for row in rows):
                wrong.append(f"is there again: {value}")
            elif what == "job" or (what == "document" and value not in taken and not but_removed):
                wrong += [] if line in there else [f"acknowledged and lost: {line}"]
        return wrong

    def embedded(self) -> Counter[str]:
        """Return how often each text was embedded by each model."""
        return Counter(_lines(self._embedded))

    # ---- looking ----

    def dump(self) -> Dump:
        """Return all that must be equal whatever happened on the way. Asserts that the check finds nothing wrong."""
        engine = self.engine
        return {
            **engine.index(),
            "all documents": engine.read("SELECT content_hash, state FROM documents ORDER BY 1"),
            "jobs that do not end": engine.read("SELECT path FROM jobs WHERE state IN ('queued', 'processing')"),
            "jobs that failed": engine.read("SELECT path, reason FROM jobs WHERE state = 'failed' ORDER BY 1, 2"),
            "sources": engine.read("SELECT path, state, reason FROM sources ORDER BY 1"),
            "still to be done": [row for row in engine.read("SELECT key FROM meta ORDER BY 1") if row[0] in _TO_DO],
            "models": engine.read("SELECT fingerprint FROM embedders ORDER BY 1"),
            "the data folder": sorted({_DIGITS.sub("N", path.name) for path in self.data.iterdir()}),
            "kept": sorted(
                str(path.relative_to(self.data))
                for folder in ("staging", "documents", "conversions")
                for path in (self.data / folder).rglob("*")
            ),
            "damaged copies": [copy.name for copy in (self.data / "documents").glob("*.*") if not _is_its_hash(copy)],
            "the person's files": {
                str(path.relative_to(self.base)): path.read_bytes()
                for name in ("notes", "archive", "inbox", "elsewhere")
                for path in sorted(self.path(name).rglob("*"))
                if path.is_file()
            },
        }


def _is_its_hash(path: Path) -> bool:
    return hashlib.sha256(path.read_bytes()).hexdigest() == path.name.partition(".")[0]


def _append(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
