"""The timetable only rings; when, the settings say."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from kbsync.clock import SystemClock
from kbsync.daemon.scheduler import Scheduler

DAY_S = 86400.0


@contextmanager
def _started(scheduler: Scheduler) -> Iterator[Scheduler]:
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    try:
        yield scheduler
    finally:
        scheduler.stop()
        thread.join(20)
        assert not thread.is_alive()


def _in_seconds(scheduler: Scheduler, name: str) -> float:
    at = scheduler.status()[name]
    assert isinstance(at, float)
    return at - time.time()


def test_it_rings_for_a_rescan_again_and_again() -> None:
    rang = threading.Semaphore(0)
    with _started(Scheduler(SystemClock(), 0.05, rang.release, lambda: None)):
        for _ in range(3):
            assert rang.acquire(timeout=20)


def test_it_says_when_each_job_runs_next_and_follows_a_changed_setting() -> None:
    with _started(Scheduler(SystemClock(), 300.0, lambda: None, lambda: None)) as scheduler:
        assert 250 < _in_seconds(scheduler, "rescan") <= 300
        assert DAY_S - 50 < _in_seconds(scheduler, "upkeep") <= DAY_S
        scheduler.set_rescan(30.0)
        assert 0 < _in_seconds(scheduler, "rescan") <= 30


def test_a_changed_setting_before_the_start_holds_from_the_start() -> None:
    scheduler = Scheduler(SystemClock(), 300.0, lambda: None, lambda: None)
    scheduler.set_rescan(30.0)
    with _started(scheduler):
        assert 0 < _in_seconds(scheduler, "rescan") <= 30


def test_it_may_be_stopped_before_it_runs_and_twice() -> None:
    scheduler = Scheduler(SystemClock(), 300.0, lambda: None, lambda: None)
    scheduler.stop()
    scheduler.run()
    scheduler.stop()


def test_what_rings_runs_in_no_other_thread_that_could_die_unnoticed() -> None:
    rang: list[threading.Thread] = []
    done = threading.Event()

    def ring() -> None:
        rang.append(threading.current_thread())
        done.set()

    with _started(Scheduler(SystemClock(), 0.05, ring, lambda: None)):
        before = set(threading.enumerate())
        assert done.wait(20)
        assert rang[0] in before


def test_nothing_rings_after_it_was_stopped() -> None:
    rang = threading.Semaphore(0)
    with _started(Scheduler(SystemClock(), 0.05, rang.release, lambda: None)):
        assert rang.acquire(timeout=20)
    while rang.acquire(timeout=0.2):  # one may have been on its way
        pass
    assert not rang.acquire(timeout=0.3)
