"""What is counted is counted once, whoever counts it and however it ends."""

from __future__ import annotations

import threading

import pytest

from kbsync.measures import BOUNDS_S, Durations, Tally, untimed
from tests.fakes.manual_clock import ManualClock


def test_a_duration_is_counted_in_the_bucket_that_it_fits_into() -> None:
    durations = Durations(ManualClock().monotonic, ("read", "write"))
    for seconds in (0.0, 0.005, 0.006, 300.0, 301.0):
        durations.add("read", seconds)
    told = durations.told()
    assert told["read"].counts == (2, 1, *[0] * (len(BOUNDS_S) - 3), 1, 1)
    assert told["read"].seconds == pytest.approx(601.011)
    assert told["write"].counts == (0,) * (len(BOUNDS_S) + 1), "what did not happen yet is there with nothing"


def test_what_fails_took_its_time_too() -> None:
    clock = ManualClock()
    durations = Durations(clock.monotonic)

    def fail() -> None:
        clock.advance(2.0)
        raise KeyError

    with pytest.raises(KeyError), durations.time("convert"):
        fail()
    assert durations.told()["convert"].seconds == 2.0
    with untimed("convert"):
        clock.advance(2.0)
    assert durations.told()["convert"].seconds == 2.0


def test_what_was_told_does_not_change_any_more() -> None:
    durations, tally = Durations(ManualClock().monotonic), Tally()
    durations.add("read", 1.0)
    tally.add("done", "pdf")
    before, counted = durations.told(), tally.told()
    durations.add("read", 1.0)
    tally.add("done", "pdf")
    assert (sum(before["read"].counts), counted[("done", "pdf")]) == (1, 1)


def test_many_threads_lose_no_count() -> None:
    durations, tally = Durations(ManualClock().monotonic), Tally()
    begin = threading.Barrier(8)

    def count() -> None:
        begin.wait()
        for _ in range(2000):
            durations.add("read", 0.25)
            tally.add("heard")

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(durations.told()["read"].counts) == 16_000
    assert durations.told()["read"].seconds == 4000.0
    assert tally.told() == {("heard",): 16_000}
