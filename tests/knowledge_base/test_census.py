"""What programs are shown of the database is exact, and counted anew only where that costs next to nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from kbsync.knowledge_base.census import CensusTaker
from kbsync.model import Priority
from kbsync.store.connection import Connection
from kbsync.store.writer import Readers, T
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_engine import NOTES, SimulatedEngine


class SlowReaders(Readers):
    """Readers that take their time, by a clock that is told; `reads` counts what was asked."""

    def __init__(self, readers: Readers, clock: ManualClock, seconds: float) -> None:
        super().__init__(readers.path)
        self._clock = clock
        self.seconds = seconds
        self.reads = 0

    def read(self, work: Callable[[Connection], T]) -> T:
        self.reads += 1
        self._clock.advance(self.seconds)
        return super().read(work)


def taker(engine: SimulatedEngine, seconds: float = 0.0) -> tuple[CensusTaker, SlowReaders]:
    readers = SlowReaders(engine.engine.readers, engine.clock, seconds)
    return CensusTaker(engine.clock, engine.engine.writer, readers), readers


def test_it_counts_what_is_there(engine: SimulatedEngine) -> None:
    engine.write(f"{NOTES}/a.md", "# A\n\nOne.\n\n## B\n\nTwo.\n")
    engine.write(f"{NOTES}/a.pdf", "corrupt")
    engine.write(f"{NOTES}/b.csv", "a,b\n1,2\n")
    engine.settle()
    engine.write(f"{NOTES}/b.csv", "a,b\n1,3\n")
    engine.settle()
    engine.remove(f"{NOTES}/a.md")
    engine.settle()
    engine.kb.adding.add_note("Waiting.", None)
    engine.clock.advance(90.0)
    counted, vitals = taker(engine)[0].latest(), taker(engine)[0].vitals()
    assert counted.documents == {"csv": 1}, "earlier versions and what is gone are no current documents"
    assert counted.chunks == engine.read("SELECT count(*) FROM chunks")[0][0] > 1
    assert counted.files == {"indexed": 1, "failed": 1, "gone": 1}
    (job,) = counted.jobs
    assert (job.state, job.lane, job.priority, job.count) == ("queued", "text", Priority.ADDED, 1)
    assert engine.clock.now() - job.oldest_at == pytest.approx(90.0)
    assert vitals.sources == {"watching": 1}
    assert vitals.size_bytes > 0
    assert vitals.checked_at is None


def test_the_last_check_is_told(engine: SimulatedEngine) -> None:
    engine.kb.check()
    vitals = taker(engine)[0].vitals()
    assert (vitals.checked_at, vitals.check_is_ok) == (engine.clock.now(), True)


def test_an_idle_database_is_counted_once(engine: SimulatedEngine) -> None:
    census, readers = taker(engine)
    first = census.latest()
    for _ in range(5):
        engine.clock.advance(3600.0)
        assert census.latest() is first
    assert readers.reads == 1
    assert not census.is_due()


def test_a_quick_count_is_exact_at_every_look(engine: SimulatedEngine) -> None:
    census, _readers = taker(engine)
    assert census.latest().documents == {}
    engine.write(f"{NOTES}/a.md", "A.")
    engine.settle()
    assert census.latest().documents == {"markdown": 1}


def test_a_slow_count_keeps_nobody_waiting_and_rests_two_hundred_times_as_long(engine: SimulatedEngine) -> None:
    census, readers = taker(engine, seconds=0.25)
    census.latest()
    engine.note("A note.")
    before = readers.reads
    assert census.latest().documents == {}, "the last one is told"
    assert readers.reads == before
    engine.clock.advance(49.0)
    assert census.latest().documents == {}
    engine.clock.advance(50.0)
    assert census.is_due()
    census.take()
    assert census.latest().documents == {"note": 1}
    assert not census.is_due()
    engine.note("Another one.")
    assert not census.is_due(), "not before it has rested"


def test_who_comes_while_another_counts_takes_what_that_one_finds(engine: SimulatedEngine) -> None:
    class HeardClock(ManualClock):
        asked = threading.Event()

        def monotonic(self) -> float:
            if threading.current_thread().name == "second":
                self.asked.set()
            return super().monotonic()

    clock = HeardClock()
    readers = SlowReaders(engine.engine.readers, clock, 0.25)
    census = CensusTaker(clock, engine.engine.writer, readers)
    second = threading.Thread(target=census.take, name="second")
    read = readers.read

    def while_another_comes(work: Callable[[Connection], T]) -> T:
        second.start()
        assert clock.asked.wait(20)
        return read(work)

    readers.read = while_another_comes  # type: ignore[method-assign]
    census.take()
    second.join(20)
    assert readers.reads == 1
