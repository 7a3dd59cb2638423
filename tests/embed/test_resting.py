"""The model comes when it is needed and goes when it is not, and a process that dies stops nobody for long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from kbsync.embed.batcher import Batcher
from kbsync.embed.embedder import Device
from kbsync.embed.lifetimes import Idleness
from kbsync.errors import RetryLater, Unready
from kbsync.model import Priority
from kbsync.reasons import Reason
from tests.fakes.hash_batcher import WAIT, queued, running, until
from tests.fakes.hash_embedder import GatedDevice, HashDevice, WordCounter
from tests.fakes.manual_clock import ManualClock

if TYPE_CHECKING:
    from kbsync.model import Vectors


def on(clock: ManualClock, *devices: Device, idle_s: float | None = 300.0) -> Batcher:
    return Batcher(
        devices,
        WordCounter(),
        20,
        fingerprint="f",
        model_name="hashed",
        dimension=16,
        clock=clock,
        idleness=Idleness(idle_s),
    )


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


def test_nothing_is_loaded_before_it_is_needed() -> None:
    device = HashDevice()
    with running(on(ManualClock(), device)) as batcher:
        assert batcher.state == "resting"
        assert batcher.look() is False
        assert (batcher.ready, batcher.device_names, device.loads) == (False, [], 0)
        batcher.embed(["one"], Priority.SCAN)
        assert (batcher.ready, batcher.state, device.loads) == (True, "ready", 1)


def test_a_model_that_nobody_needs_goes_and_comes_back_with_the_next_text() -> None:
    clock, device = ManualClock(), HashDevice()
    with running(on(clock, device)) as batcher:
        batcher.embed(["one"], Priority.SCAN)
        clock.advance(299)
        assert batcher.look() is False
        clock.advance(2)
        assert batcher.look() is True
        assert (batcher.ready, batcher.state) == (False, "resting")
        until(lambda: device.unloads == 1)
        assert batcher.device_names == ["fake"], "what it ran on is still told"
        assert batcher.look() is False

        assert batcher.embed(["two"], Priority.SCAN).shape == (1, 16)
        assert (batcher.state, device.loads) == ("ready", 2)


def test_after_a_search_it_stays_for_an_hour() -> None:
    clock, device = ManualClock(), HashDevice()
    with running(on(clock, device)) as batcher:
        batcher.embed(["question"], Priority.QUERY)
        clock.advance(3599)
        assert batcher.look() is False
        clock.advance(2)
        assert batcher.look() is True


def test_a_search_wakes_it_without_waiting() -> None:
    clock, device = ManualClock(), HashDevice()
    with running(on(clock, device)) as batcher:
        batcher.wake()
        until(lambda: batcher.ready)
        clock.advance(3599)
        assert batcher.look() is False, "who searched will search again"


def test_a_model_at_work_does_not_go(callers: ThreadPoolExecutor) -> None:
    clock, device = ManualClock(), GatedDevice()
    with running(on(clock, device, idle_s=0.0)) as batcher:
        future = callers.submit(batcher.embed, ["one"], Priority.SCAN)
        assert device.begun.acquire(timeout=WAIT)
        clock.advance(1e6)
        assert batcher.look() is False
        device.gate.release()
        future.result(WAIT)
        assert batcher.look() is True


def test_never_is_never() -> None:
    clock, device = ManualClock(), HashDevice()
    with running(on(clock, device, idle_s=None)) as batcher:
        batcher.embed(["one"], Priority.SCAN)
        clock.advance(1e9)
        assert batcher.look() is False


class DyingDevice(HashDevice):
    """Dies over the text "die", and at the loads that a test says."""

    def __init__(self, loads_that_die: int = 0) -> None:
        super().__init__(batch_tokens=1000)
        self.loads_that_die = loads_that_die
        self.dies_of_all = False
        self.gate = threading.Event()
        self.gate.set()

    def load(self) -> None:
        assert self.gate.wait(WAIT)
        if self.loaded:
            return
        self.loads += 1
        if self.loads_that_die:
            self.loads_that_die -= 1
            raise RetryLater(Reason.MODEL, "Its process was ended by SIGKILL.")
        self.loaded = True

    def encode(self, texts: Sequence[str], query: bool) -> Vectors:
        self.load()
        vectors = super().encode(texts, query)
        if "die" in texts or self.dies_of_all:
            self.loaded = False
            raise RetryLater(Reason.CRASHED, "Its process was ended by SIGKILL.")
        return vectors


def asked_together(
    batcher: Batcher, callers: ThreadPoolExecutor, device: DyingDevice, *texts: str
) -> Callable[[], list[str]]:
    """Have all texts wait for one batch; return what says how each ended."""
    device.gate.clear()
    futures = [queued(batcher, callers, [text], Priority.SCAN) for text in texts]
    device.gate.set()

    def ended() -> list[str]:
        return [type(error).__name__ if (error := future.exception(WAIT)) else "done" for future in futures]

    return ended


def test_a_text_that_kills_the_process_is_told_alone_and_all_others_are_embedded(callers: ThreadPoolExecutor) -> None:
    device = DyingDevice()
    with running(on(ManualClock(), device)) as batcher:
        ended = asked_together(batcher, callers, device, "one", "die", "two", "three")
        assert ended() == ["done", "RetryLater", "done", "done"]
        assert device.loads == 3, "one death of the batch, one of the text alone"
        assert batcher.embed(["next"], Priority.SCAN).shape == (1, 16)


def test_texts_of_one_file_kill_the_process_once_more_not_each(callers: ThreadPoolExecutor) -> None:
    device = DyingDevice()
    with running(on(ManualClock(), device)) as batcher:
        with pytest.raises(RetryLater) as caught:
            batcher.embed(["die"] * 9, Priority.SCAN)
        assert caught.value.reason is Reason.CRASHED
        assert [len(texts) for texts, _ in device.batches] == [9, 1]


def test_texts_that_kill_it_one_after_the_other_make_no_model_unusable(callers: ThreadPoolExecutor) -> None:
    device = DyingDevice()
    with running(on(ManualClock(), device)) as batcher:
        ended = asked_together(batcher, callers, device, *["die"] * 5)
        assert ended() == ["RetryLater"] * 3 + ["Unready"] * 2
        for _ in range(9):
            with pytest.raises(RetryLater):
                batcher.embed(["die"], Priority.SCAN)
        assert batcher.embed(["one"], Priority.SCAN).shape == (1, 16)
        assert batcher.error is None


def test_where_text_after_text_kills_it_the_rest_waits_uncounted(callers: ThreadPoolExecutor) -> None:
    clock, device = ManualClock(), DyingDevice()
    device.dies_of_all = True
    with running(on(clock, device)) as batcher:
        ended = asked_together(batcher, callers, device, *["die"] * 5)
        assert ended() == ["RetryLater"] * 3 + ["Unready"] * 2
        until(lambda: batcher.error is not None)
        with pytest.raises(Unready, match="4 times in a row"):
            batcher.embed(["one"], Priority.SCAN)
        assert (batcher.state, batcher.ready) == ("unusable", False)
        device.dies_of_all = False
        clock.advance(600)
        batcher.look()
        until(lambda: batcher.error is None and batcher.ready)
        assert batcher.embed(["one"], Priority.SCAN).shape == (1, 16)


def test_a_process_that_dies_at_its_start_is_tried_again_at_once_and_then_with_pauses() -> None:
    clock, device = ManualClock(), DyingDevice(loads_that_die=4)
    with running(on(clock, device)) as batcher:
        with pytest.raises(Unready, match="SIGKILL"):
            batcher.embed(["one"], Priority.SCAN)
        assert device.loads == 3
        batcher.look()
        assert device.loads == 3, "it is left alone for a minute"
        clock.advance(61)
        batcher.look()
        until(lambda: device.loads == 4)
        assert batcher.error is not None
        clock.advance(241)
        batcher.look()
        until(lambda: batcher.error is None)
        assert batcher.embed(["one"], Priority.SCAN).shape == (1, 16)


def test_one_early_death_is_nobodys_trouble() -> None:
    device = DyingDevice(loads_that_die=2)
    with running(on(ManualClock(), device)) as batcher:
        assert batcher.embed(["one"], Priority.SCAN).shape == (1, 16)
        assert batcher.error is None


def test_stopping_ends_every_device() -> None:
    devices = HashDevice(), HashDevice(name="other")
    batcher = on(ManualClock(), *devices)
    batcher.start()
    batcher.embed(["one"], Priority.SCAN)
    batcher.stop()
    assert [device.is_ended for device in devices] == [True, True]
    until(lambda: not any(device.loaded for device in devices))
