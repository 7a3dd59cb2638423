"""The engine of T2, and the parts of it that make trouble or refuse what must not happen."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from kbsync.errors import FailFile, RetryLater
from kbsync.model import Conversion, ConversionRequest
from kbsync.reasons import Reason
from kbsync.store.connection import Connection
from tests.fakes.hash_embedder import HashDevice
from tests.fakes.reading_cage import ReadingCage
from tests.fakes.simulated_engine import SimulatedEngine

if TYPE_CHECKING:
    from kbsync.model import Vectors

_NO_LIMIT = 1 << 30


class Wrong(AssertionError):
    """Something did not hold that must always hold."""


class FrugalDevice(HashDevice):
    """Refuses to embed what has a vector already."""

    def __init__(self) -> None:
        super().__init__()
        self.having_vectors: Callable[[Sequence[str]], Collection[str]] = lambda _texts: ()
        self.wrong: list[str] = []

    def encode(self, texts: Sequence[str], query: bool) -> Vectors:
        if not query:
            self.wrong += [f"embedded again: {text[:60]!r}" for text in self.having_vectors(texts)]
        return super().encode(texts, query)


class FaultyCage(ReadingCage):
    """Does to each document what is planned next; where nothing is planned it reads what is one."""

    def __init__(self) -> None:
        super().__init__()
        self.plans: deque[str] = deque()
        self.done = 0
        self.on_late: Callable[[], None] = lambda: None
        self.on_bad: Callable[[], None] = lambda: None

    def run(self, request: ConversionRequest, time_limit_s: float) -> Conversion:
        deed = self.plans.popleft() if self.plans else ""
        self.done += bool(deed)
        if request.kept is None and deed in ("", "late"):
            with open(request.path, "rb") as file:
                deed = deed if file.read(5) == b"%PDF-" else "raise"
        if not deed:
            return super().run(request, time_limit_s)
        if deed == "late":
            conversion = super().run(request, time_limit_s)
            self.on_late()
            return conversion
        self.on_bad()
        match deed:
            case "raise":
                raise FailFile(Reason.CORRUPT, f"{request.name} is damaged.")
            case "hang":
                raise FailFile(Reason.TIMEOUT, f"{request.name}: reading it took longer than {time_limit_s:g} seconds.")
            case "grow":
                raise FailFile(Reason.MEMORY, f"{request.name}: reading it took more than 3 GB of memory.")
            case "junk":
                raise FailFile(Reason.TOO_COMPLEX, f"{request.name}: what came out of it is too large to be kept.")
        raise RetryLater(Reason.CRASHED, f"{request.name}: the process that read it was ended by SIGSEGV.")


class TroubledEngine(SimulatedEngine):
    """Turns each kind of loop once, however many cores there are, and lives on where the database's disk is full."""

    def turn(self) -> bool:
        loops = self.loops
        # As many workers as the machine has cores would make another trace of each machine.
        kinds = {(worker._lane, worker._worst): worker for worker in reversed(loops.workers)}
        workers = [worker.step for _, worker in sorted(kinds.items())]
        busy = False
        steps = [lambda: loops.producer.step() > 0, loops.rescans.step, *workers, loops.reindexer.step]
        for step in [*steps, loops.scrub.step]:
            try:
                busy |= step()
            except RetryLater:
                pass  # the loop waits, and comes again
        loops.watchers.supervise()
        return busy

    def limit_growth(self, pages: int = _NO_LIMIT) -> None:
        """Let the database grow by so many pages and no further: then SQLite itself says that the disk is full."""

        def limit(connection: Connection) -> None:
            connection.pragma("max_page_count", min(int(connection.pragma("page_count")) + pages, _NO_LIMIT))

        self.engine.writer.run(limit)
