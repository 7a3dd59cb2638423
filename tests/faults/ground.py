"""Where bad documents are read: the whole engine over a disk in memory, and real children in the cage behind it.

All limits are the shipped ones; only the stub's answers have a smaller one.
"""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType

import psutil

from kbsync.clock import SystemClock
from kbsync.model import Conversion, ConversionRequest, Parsed
from kbsync.pipelines import docling_converter
from kbsync.pipelines.isolation import Cage, CageLimits, SlotStatus
from kbsync.pipelines.isolation_plan import Slots, time_limit_for
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World
from tests.fakes.word_counter import WordCounter
from tests.faults.bad_documents import SEGFAULT, BadDocument, Traps
from tests.faults.made_files import WILD_NAMES

_STUB_ANSWER_BYTES = 8 << 20
_SECRET = "canary7f3a"
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a document: `state(reason)`, seconds, the most memory of this process above what it had before
    and of the child in all (bytes), and what went wrong, in words.
    """

    state: str
    seconds: float
    own_bytes: int
    child_bytes: int
    wrong: tuple[str, ...]


class _OnePage:
    """A cage that grants what a document of one page may take: the size of these says nothing about their pages."""

    def __init__(self, cage: Cage[ConversionRequest, Conversion]) -> None:
        self._cage = cage

    def run(self, request: ConversionRequest, time_limit_s: float) -> Conversion:
        return self._cage.run(request, min(time_limit_s, time_limit_for(1, 0)))

    def status(self) -> tuple[SlotStatus, ...]:
        return self._cage.status()

    def close(self) -> None:
        self._cage.close()


class Ground:
    """Reads bad documents one after the other; nothing of one is left when the next comes. One thread uses it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._engines: dict[bool, tuple[SimulatedEngine, _OnePage]] = {}
        self._documents = 0

    def __enter__(self) -> Ground:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        secret = self._folder / "secret.txt"
        secret.write_text(_SECRET)
        self._traps = Traps(self._listener.getsockname()[1], secret)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for engine, _ in self._engines.values():
            engine.close()
        self._listener.close()

    def read(self, document: BadDocument) -> Outcome:
        """Put a document into a source, wait until all is settled, and say what became of it."""
        engine, cage = self._engine(document.stub)
        self._documents += 1
        path = f"{NOTES}/{self._documents}/{document.name}"
        content = document.make(self._traps)
        with _Memory(cage) as memory:
            began = time.monotonic()
            engine.write(path, content)
            engine.settle()
            seconds = time.monotonic() - began
        state, reason = engine.state(path)
        ended = f"{state}({reason})" if reason else str(state)
        wrong = []
        if ended not in document.expected:
            wrong.append(f"it is {ended}")
        if document.words and ended.startswith("indexed") and path not in engine.found(document.words):
            wrong.append(f"{document.words!r} is not found")
        if engine.read("SELECT count(*) FROM chunks WHERE text LIKE ?", f"%{_SECRET}%") != [(0,)]:
            wrong.append("the secret file is in the index")
        if left := self._left(engine):
            wrong.append(f"left on the disk: {sorted(left)}")
        if self._connected():
            wrong.append("something was fetched")
        engine.remove(path)
        engine.settle()
        return Outcome(ended, seconds, memory.own_bytes, memory.child_bytes, tuple(wrong))

    def _engine(self, stub: bool) -> tuple[SimulatedEngine, _OnePage]:
        if stub not in self._engines:
            home = self._folder / ("stubs" if stub else "documents")
            world = World.new(home)
            world.configure(NOTES)
            cage = _OnePage(_stub_cage(str(home)) if stub else _docling_cage(str(home)))
            self._engines[stub] = SimulatedEngine(world, cage), cage
        return self._engines[stub]

    def _left(self, engine: SimulatedEngine) -> set[str]:
        """Return what lies about of a document: private copies, and members of an archive that were extracted."""
        folders = [self._folder.parent, Path(tempfile.gettempdir()), Path.cwd(), Path.cwd().parent]
        found = [*self._folder.rglob("*"), *(folder / name for folder in folders for name in WILD_NAMES)]
        extracted = {str(path) for path in found if path.name in WILD_NAMES and path.exists()}
        return extracted | set(os.listdir(engine.world.locations.staging_dir))

    def _connected(self) -> bool:
        try:
            self._listener.accept()[0].close()
        except BlockingIOError:
            return False
        return True


class _Memory:
    """Watches how much memory this process and the cage's child take, from begin to end."""

    def __init__(self, cage: _OnePage) -> None:
        self._cage = cage
        self._own = psutil.Process()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._before = self._own.memory_info().rss
        self.own_bytes = 0
        self.child_bytes = 0

    def __enter__(self) -> _Memory:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(_LOOK_S):
            self.own_bytes = max(self.own_bytes, self._own.memory_info().rss - self._before)
            resident = (slot.resident_bytes for slot in self._cage.status())
            self.child_bytes = max(self.child_bytes, *resident, 0)


def _docling_cage(folder: str) -> Cage[ConversionRequest, Conversion]:
    threads = os.cpu_count() or 1
    return Cage(
        partial(docling_converter.convert, open_counter=_open_counter),
        Slots(1, threads),
        folder,
        SystemClock(),
        prepare=partial(docling_converter.warm_up, "auto", (), threads),
    )


def _stub_cage(folder: str) -> Cage[ConversionRequest, Conversion]:
    limits = CageLimits(answer_bytes=_STUB_ANSWER_BYTES)
    return Cage(_trouble, Slots(1, 1), folder, SystemClock(), limits=limits)


def _open_counter(_tokenizer_json: str) -> WordCounter:
    return WordCounter()


def _trouble(request: ConversionRequest) -> Conversion:
    if request.name == SEGFAULT:
        os.kill(os.getpid(), signal.SIGSEGV)
    return Conversion(Parsed(()), None, (), bytes(4 * _STUB_ANSWER_BYTES), "stub")
