"""The batcher on fake devices: who goes first, and who shares a batch."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest
from structlog.testing import capture_logs

from kbsync.embed.batcher import Batcher
from kbsync.errors import Unready
from kbsync.model import Priority
from tests.fakes.hash_batcher import WAIT, batcher_on, queued, running
from tests.fakes.hash_embedder import GatedDevice, HashDevice, WordCounter, hash_vectors

if TYPE_CHECKING:
    from kbsync.model import Vectors


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


# ---- without threads ----


def test_not_started_it_embeds_in_the_calling_thread() -> None:
    device = HashDevice()
    batcher = batcher_on(device)

    vectors = batcher.embed(["one", "two"], Priority.SCAN)

    np.testing.assert_allclose(vectors, hash_vectors(["one", "two"], 16), atol=1e-6)
    assert device.loads == 1
    assert batcher.ready
    assert batcher.device_names == ["fake"]


def test_a_step_without_work_does_nothing_and_loads_nothing() -> None:
    device = HashDevice()

    assert batcher_on(device).step() is False
    assert device.loads == 0


def test_the_devices_are_asked_for_only_when_one_is_needed() -> None:
    asked: list[HashDevice] = []

    def devices() -> list[HashDevice]:
        asked.append(HashDevice())
        return asked

    batcher = Batcher(devices, WordCounter(), 20, fingerprint="f", model_name="hashed", dimension=16)
    assert batcher.embed([], Priority.SCAN).shape == (0, 16)
    assert not asked

    batcher.embed(["one"], Priority.SCAN)
    batcher.embed(["two"], Priority.SCAN)

    assert len(asked) == 1
    assert asked[0].loads == 1


def test_threads_without_a_started_batcher_take_turns() -> None:
    batcher = batcher_on(HashDevice(batch_tokens=4))

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda number: batcher.embed([f"t{number} a", "b c d"], Priority.SCAN), range(40)))

    for number, vectors in enumerate(results):
        np.testing.assert_allclose(vectors, hash_vectors([f"t{number} a", "b c d"], 16), atol=1e-6)


# ---- order and batches ----


def test_priorities_go_first_in_their_order(callers: ThreadPoolExecutor) -> None:
    device = GatedDevice()
    with running(batcher_on(device)) as batcher:
        futures = [callers.submit(batcher.embed, ["first"], Priority.SCAN)]
        assert device.begun.acquire(timeout=WAIT)
        for priority in [Priority.LOW, Priority.SCAN, Priority.EVENT, Priority.ADDED, Priority.QUERY]:
            futures.append(queued(batcher, callers, [priority.name], priority))
        device.gate.release(10)
        for future in futures:
            future.result(WAIT)

    assert device.batches == [
        (("first",), False),
        (("QUERY",), True),
        (("ADDED",), False),
        (("EVENT",), False),
        (("SCAN",), False),
        (("LOW",), False),
    ]


def test_a_query_overtakes_bulk_work_after_one_batch(callers: ThreadPoolExecutor) -> None:
    device = GatedDevice(batch_tokens=4)
    with running(batcher_on(device)) as batcher:
        bulk = callers.submit(batcher.embed, ["a b c d"] * 50, Priority.SCAN)
        assert device.begun.acquire(timeout=WAIT)
        query = queued(batcher, callers, ["question"], Priority.QUERY)
        device.gate.release(2)
        query.result(WAIT)
        assert not bulk.done()
        assert len(device.batches) == 2
        device.gate.release(50)
        bulk.result(WAIT)


def test_a_batch_holds_texts_of_several_callers_up_to_its_budget(callers: ThreadPoolExecutor) -> None:
    device = GatedDevice(batch_tokens=6)
    with running(batcher_on(device)) as batcher:
        futures = [callers.submit(batcher.embed, ["first"], Priority.SCAN)]
        assert device.begun.acquire(timeout=WAIT)
        futures += [queued(batcher, callers, [f"{name} {name}"], Priority.SCAN) for name in "abcdef"]
        device.gate.release(10)
        for future in futures:
            future.result(WAIT)

    assert [texts for texts, _ in device.batches[1:]] == [("a a", "b b", "c c"), ("d d", "e e", "f f")]


def test_the_oldest_text_is_in_the_next_batch_however_odd_its_length() -> None:
    device = HashDevice(batch_tokens=8)
    batcher = batcher_on(device)

    batcher.embed(["odd " * 7, *["short"] * 40], Priority.SCAN)

    assert device.batches[0][0] == ("odd " * 7,)


def test_devices_work_side_by_side(callers: ThreadPoolExecutor) -> None:
    meeting = threading.Barrier(3)

    class MeetingDevice(HashDevice):
        def encode(self, texts: Sequence[str], query: bool) -> Vectors:
            meeting.wait(WAIT)
            return super().encode(texts, query)

    devices = [MeetingDevice(name=f"fake:{number}", batch_tokens=1) for number in range(3)]
    with running(batcher_on(*devices)) as batcher:
        texts = [f"t{number}" for number in range(9)]
        vectors = callers.submit(batcher.embed, texts, Priority.SCAN).result(WAIT)
        assert sorted(batcher.device_names) == ["fake:0", "fake:1", "fake:2"]

    np.testing.assert_allclose(vectors, hash_vectors(texts, 16), atol=1e-6)
    assert [len(device.batches) for device in devices] == [3, 3, 3]


def test_no_text_reaches_a_device_longer_than_the_model_reads() -> None:
    device = HashDevice(batch_tokens=1000)
    batcher_on(device, max_tokens=20).embed(["word " * 333, "short"], Priority.SCAN)

    texts = [text for batch, _ in device.batches for text in batch]
    assert max(len(text.split()) for text in texts) <= 20
    assert sum(text.count("word") for text in texts) == 333


@pytest.mark.parametrize("blank", ["", " ", "\n\n"])
def test_a_blank_text_is_embedded_as_one_space(blank: str) -> None:
    device = HashDevice()
    batcher_on(device).embed([blank], Priority.SCAN)

    assert device.batches == [((" ",), False)]


def test_a_short_text_is_not_kept_waiting_by_a_book_of_the_same_priority(callers: ThreadPoolExecutor) -> None:
    device = GatedDevice()
    batcher = batcher_on(device)
    with running(batcher):
        blocker = callers.submit(batcher.embed, ["the first"], Priority.EVENT)
        assert device.begun.acquire(timeout=WAIT)
        book = queued(batcher, callers, [f"page {number} of the book" for number in range(100)], Priority.EVENT)
        note = queued(batcher, callers, ["a note"], Priority.EVENT)
        device.gate.release(200)
        for future, count in ((blocker, 1), (book, 100), (note, 1)):
            assert len(future.result(WAIT)) == count
    assert "a note" in device.batches[1][0]


@pytest.mark.parametrize("threads", [False, True])
def test_a_model_that_cannot_be_loaded_is_in_the_log_whole(threads: bool) -> None:
    """P11: what is told refers to the log."""

    class Broken(HashDevice):
        def load(self) -> None:
            raise ImportError("libcudart.so.12: cannot open shared object file")

    batcher = batcher_on(Broken())
    with capture_logs() as logged:
        if threads:
            batcher.start()
        with pytest.raises(Unready, match=r"shared object file\. The log tells more\."):
            batcher.embed(["quince"], Priority.SCAN)
        batcher.stop()
    assert [isinstance(entry["exc_info"], ImportError) for entry in logged] == [True]
