"""The batcher on fake devices: what happens to whom when something fails, or when it is stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kbsync.embed import batcher as batcher_module
from kbsync.embed.batcher import Batcher
from kbsync.embed.embedder import Device
from kbsync.errors import ConfigurationError, FailFile, RetryLater, Unready
from kbsync.model import Priority
from kbsync.reasons import Reason
from tests.fakes.hash_batcher import WAIT, batcher_on, queued, running, until
from tests.fakes.hash_embedder import GatedDevice, HashDevice, WordCounter, hash_vectors

if TYPE_CHECKING:
    from kbsync.model import Vectors


class FailingDevice(GatedDevice):
    """Gives `answer` where a text of the batch is "bad"."""

    def __init__(self, answer: Callable[[int], Vectors]) -> None:
        super().__init__()
        self._answer = answer

    def encode(self, texts: Sequence[str], query: bool) -> Vectors:
        vectors = super().encode(texts, query)
        return self._answer(len(texts)) if "bad" in texts else vectors


class UnloadableDevice(HashDevice):
    def load(self) -> None:
        raise Unready(Reason.MODEL, "The weights are gone.", hint="Install them.")


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


def raising(error: Exception) -> Callable[[int], Vectors]:
    def answer(count: int) -> Vectors:
        raise error

    return answer


def filled(value: float, columns: int = 16) -> Callable[[int], Vectors]:
    return lambda count: np.full((count, columns), value, dtype=np.float32)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(raising(FailFile(Reason.MODEL, "no")), id="FailFile"),
        pytest.param(raising(ValueError("foreign")), id="foreign error"),
        pytest.param(filled(float("nan")), id="NaN"),
        pytest.param(filled(float("inf")), id="infinity"),
        pytest.param(filled(3e38), id="overflow"),
        pytest.param(filled(0), id="zero"),
        pytest.param(filled(1, columns=15), id="short vector"),
        pytest.param(lambda count: np.ones((count + 1, 16), dtype=np.float32), id="a row too many"),
    ],
)
def test_a_bad_text_fails_its_own_caller_only(answer: Callable[[int], Vectors], callers: ThreadPoolExecutor) -> None:
    """D09: what is no vector is refused, and nobody else's text suffers."""
    device = FailingDevice(answer)
    with running(batcher_on(device)) as batcher:
        busy = callers.submit(batcher.embed, ["busy"], Priority.SCAN)
        assert device.begun.acquire(timeout=WAIT)
        futures = {text: queued(batcher, callers, [text, "fine"], Priority.SCAN) for text in ("good", "bad", "better")}
        device.gate.release(20)
        busy.result(WAIT)
        with pytest.raises(FailFile) as caught:
            futures["bad"].result(WAIT)
        for text in ("good", "better"):
            np.testing.assert_allclose(futures[text].result(WAIT), hash_vectors([text, "fine"], 16), atol=1e-6)
        assert batcher.embed(["next"], Priority.SCAN).shape == (1, 16)

    assert caught.value.reason is Reason.MODEL
    assert device.batches[1] == (("good", "fine", "bad", "fine", "better", "fine"), False)


def test_a_device_that_wants_to_be_asked_later_is_not_asked_for_each_text() -> None:
    device = FailingDevice(raising(RetryLater(Reason.MODEL, "Memory is short.")))
    device.gate.release(20)

    with pytest.raises(RetryLater, match="short"):
        batcher_on(device).embed(["good", "bad", "better"], Priority.SCAN)

    assert len(device.batches) == 1


def test_after_a_failure_the_rest_of_that_call_is_not_embedded(callers: ThreadPoolExecutor) -> None:
    device = FailingDevice(raising(ValueError("foreign")))
    device.gate.release(100)

    with pytest.raises(FailFile):
        batcher_on(device).embed(["bad", *["word"] * 500], Priority.SCAN)

    assert sum(len(texts) for texts, _ in device.batches) < 150


def test_a_model_that_cannot_be_loaded_is_waited_for_by_who_waits_and_who_comes(callers: ThreadPoolExecutor) -> None:
    with running(batcher_on(UnloadableDevice())) as batcher:
        assert batcher.wait_ready(WAIT) is False
        assert batcher.ready is False
        assert batcher.error is not None
        assert "weights are gone" in batcher.error
        with pytest.raises(Unready, match="weights are gone"):
            batcher.embed(["text"], Priority.SCAN)


def test_who_waits_while_the_model_loads_is_told_when_it_fails(callers: ThreadPoolExecutor) -> None:
    loading = threading.Event()

    class SlowlyUnloadableDevice(UnloadableDevice):
        def load(self) -> None:
            assert loading.wait(WAIT)
            super().load()

    with running(batcher_on(SlowlyUnloadableDevice())) as batcher:
        assert batcher.error is None
        future = queued(batcher, callers, ["text"], Priority.SCAN)
        assert batcher.wait_ready(0) is False
        loading.set()
        with pytest.raises(Unready, match="weights are gone"):
            future.result(WAIT)


def test_without_threads_a_model_that_cannot_be_loaded_is_told_to_the_caller() -> None:
    batcher = batcher_on(UnloadableDevice())

    for _ in range(2):
        with pytest.raises(Unready, match="weights are gone"):
            batcher.embed(["text"], Priority.SCAN)
    assert batcher.error is not None


class UncountableCounter(WordCounter):
    def count(self, text: str) -> int:
        raise Unready(Reason.MODEL, "The tokenizer is damaged.")


@pytest.mark.parametrize("started", [True, False])
def test_a_tokenizer_that_cannot_be_used_is_a_model_that_cannot(started: bool) -> None:
    device = HashDevice()
    batcher = Batcher([device], UncountableCounter(), 20, fingerprint="f", model_name="hashed", dimension=16)
    if started:
        batcher.start()
        assert batcher.wait_ready(WAIT) is False
        assert "tokenizer" in str(batcher.error)
    try:
        with pytest.raises(Unready, match="tokenizer"):
            batcher.embed(["text"], Priority.SCAN)
    finally:
        batcher.stop()
    assert device.loads == 0


def test_what_a_device_has_to_say_is_told_once_it_is_used() -> None:
    device = HashDevice()
    device.notice = "The GPU is gone."
    with running(batcher_on(device, HashDevice(name="fake:1"))) as batcher:
        batcher.embed(["text"], Priority.SCAN)
        until(lambda: len(batcher.device_names) == 2)
        assert batcher.notices == ["The GPU is gone."]


def test_one_device_that_loads_is_enough() -> None:
    with running(batcher_on(UnloadableDevice(name="fake:0"), HashDevice(name="fake:1"))) as batcher:
        assert batcher.wait_ready(WAIT)
        assert batcher.embed(["text"], Priority.SCAN).shape == (1, 16)
        assert batcher.device_names == ["fake:1"]
        assert batcher.error is None


def no_cuda() -> Sequence[Device]:
    raise ConfigurationError("There is no cuda.")


@pytest.mark.parametrize(("devices", "message"), [((), "no device"), (tuple, "no device"), (no_cuda, "no cuda")])
@pytest.mark.parametrize("started", [True, False])
def test_no_device_is_an_error_for_the_caller(
    devices: Sequence[Device] | Callable[[], Sequence[Device]], message: str, started: bool
) -> None:
    batcher = Batcher(devices, WordCounter(), 20, fingerprint="f", model_name="hashed", dimension=16)
    if started:
        batcher.start()
    try:
        with pytest.raises(Unready, match=message):
            batcher.embed(["text"], Priority.SCAN)
    finally:
        batcher.stop()


# ---- stopping ----


def test_stopping_fails_who_waits_with_a_promise(callers: ThreadPoolExecutor) -> None:
    device = GatedDevice(batch_tokens=1)
    batcher = batcher_on(device)
    before = set(threading.enumerate())
    batcher.start()
    in_work = callers.submit(batcher.embed, ["in work", "next"], Priority.SCAN)
    assert device.begun.acquire(timeout=WAIT)
    waiting = queued(batcher, callers, ["waits"], Priority.SCAN)
    stopping = callers.submit(batcher.stop)

    for future in (in_work, waiting):
        with pytest.raises(RetryLater) as caught:
            future.result(WAIT)
        assert caught.value.reason is Reason.MODEL
    device.gate.release(5)
    stopping.result(WAIT)
    assert len(device.batches) == 1
    ours = [thread for thread in set(threading.enumerate()) - before if thread.name == "embed-fake"]
    assert not ours


def test_a_search_waits_for_no_device_that_hangs(monkeypatch: pytest.MonkeyPatch, callers: ThreadPoolExecutor) -> None:
    monkeypatch.setattr(batcher_module, "_QUERY_SECONDS", 0.1)
    device = GatedDevice()
    with running(batcher_on(device)) as batcher:
        job = callers.submit(batcher.embed, ["long"], Priority.SCAN)
        assert device.begun.acquire(timeout=WAIT)
        with pytest.raises(RetryLater, match=r"no answer within 0\.1 seconds") as caught:
            batcher.embed(["asked"], Priority.QUERY)
        assert caught.value.reason is Reason.MODEL
        device.gate.release(2)
        assert job.result(WAIT).shape == (1, 16), "a job waits for as long as it takes"
        assert batcher.embed(["asked"], Priority.QUERY).shape == (1, 16)
    assert [texts for texts, _ in device.batches] == [("long",), ("asked",)], "nobody waited for the first one any more"


def test_after_stopping_nothing_is_embedded() -> None:
    device = HashDevice()
    batcher = batcher_on(device)
    batcher.start()
    assert batcher.wait_ready(WAIT)
    batcher.stop()
    batcher.stop()
    batcher.start()

    assert batcher.ready is False
    assert batcher.step() is False
    with pytest.raises(RetryLater):
        batcher.embed(["text"], Priority.SCAN)
    assert device.batches == []


def test_starting_twice_loads_once() -> None:
    device = HashDevice()
    batcher = batcher_on(device)
    batcher.start()
    with running(batcher):
        assert batcher.wait_ready(WAIT)
        batcher.embed(["text"], Priority.SCAN)

    assert device.loads == 1


def test_an_interrupted_step_loses_no_other_callers_texts(callers: ThreadPoolExecutor) -> None:
    class InterruptedDevice(HashDevice):
        def encode(self, texts: Sequence[str], query: bool) -> Vectors:
            if not self.batches:
                self.batches.append((tuple(texts), query))
                raise KeyboardInterrupt
            return super().encode(texts, query)

    device = InterruptedDevice()
    batcher = batcher_on(device)
    with pytest.raises(KeyboardInterrupt):
        batcher.embed(["mine"], Priority.SCAN)

    assert batcher.pending == 1
    assert batcher.embed(["theirs"], Priority.SCAN).shape == (1, 16)
    assert device.batches[1] == (("theirs",), False)


class DyingDevice(HashDevice):
    """Ends its thread by what no device raises."""

    def encode(self, texts: Sequence[str], query: bool) -> Vectors:
        raise SystemExit("a mistake in a library")


def test_a_thread_that_died_is_told_and_leaves_nobody_waiting(callers: ThreadPoolExecutor) -> None:
    """P16: the daemon asks for it at every tick, and ends."""
    batcher = batcher_on(DyingDevice())
    assert batcher.died is None
    batcher.start()
    try:
        with pytest.raises(RetryLater):
            callers.submit(batcher.embed, ["quince"], Priority.SCAN).result(WAIT)
        until(lambda: batcher.died is not None)
        assert isinstance(batcher.died, SystemExit)
    finally:
        batcher.stop()


def test_stopping_waits_for_a_model_that_loads_only_once_and_not_for_long() -> None:
    """P04: the import of a large library cannot be interrupted."""
    loads, go = threading.Event(), threading.Event()

    class SlowDevice(HashDevice):
        def load(self) -> None:
            loads.set()
            assert go.wait(WAIT)

    batcher = batcher_on(SlowDevice(name="a"), SlowDevice(name="b"))
    batcher.start()
    batcher.wake()
    assert loads.wait(WAIT)
    began = time.monotonic()
    batcher.stop()
    batcher.stop()
    assert time.monotonic() - began < 5.0
    go.set()
