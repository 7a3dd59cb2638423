"""A device in a child process: what it survives, and what it costs. The children hold hashed words, no torch."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest

from kbsync.courtesy import Courtesy
from kbsync.embed import child_device, model_process
from kbsync.embed.child_device import ChildDevice, ChildReranker
from kbsync.embed.lifetimes import Idleness
from kbsync.embed.model_child import Encode
from kbsync.embed.model_files import ModelFiles
from kbsync.embed.model_process import ChildTerms, ModelProcess
from kbsync.errors import FailFile, KbsyncError, RetryLater, Unready
from kbsync.reasons import Reason
from tests.fakes.eventually import eventually
from tests.fakes.faulty_models import DIMENSION, serve
from tests.fakes.hash_embedder import hash_vectors
from tests.fakes.manual_clock import ManualClock

pytestmark = pytest.mark.timeout(180)  # each child is a Python that starts: a second, on a busy machine many

TERMS = ChildTerms(lambda: Courtesy(nice=3), 0.5, serve)


def device_in(folder: Path, name: str = "cuda:0", clock: ManualClock | None = None) -> ChildDevice:
    files = ModelFiles(str(folder), "hashed", DIMENSION, 64, frozenset(), "", "", "hashed-16")
    return ChildDevice(files, name, None, TERMS, clock or ManualClock())


@pytest.fixture
def device(tmp_path: Path) -> Iterator[ChildDevice]:
    device = device_in(tmp_path)
    yield device
    device.end()


def pid_of(device: ChildDevice) -> int:
    return int(device.encode(["pid"], query=False)[0, 0])


def test_it_embeds_what_the_child_embeds_and_says_what_it_is(device: ChildDevice) -> None:
    assert not device.loaded
    rows = device.encode(["one", "two"], query=False)
    np.testing.assert_array_equal(rows, hash_vectors(["one", "two"], DIMENSION))
    assert rows.dtype == np.float32
    assert (device.loaded, device.name, device.batch_tokens, device.notice) == (True, "cuda:0", 64, None)
    assert device.info is not None
    assert (device.info.kind, device.info.name) == ("cuda", "a chip")


def test_the_child_is_shut_in_stands_back_and_goes_with_the_model(device: ChildDevice) -> None:
    child = psutil.Process(pid_of(device))
    assert child.ppid() == os.getpid()
    assert child.nice() >= 3
    if psutil.LINUX:
        assert Path(f"/proc/{child.pid}/oom_score_adj").read_text().strip() == "1000"
        assert os.readlink(f"/proc/{child.pid}/fd/2") == os.devnull
    device.unload()
    assert not device.loaded
    assert not psutil.pid_exists(child.pid) or child.status() == psutil.STATUS_ZOMBIE
    assert pid_of(device) != child.pid, "the next text starts another one"


def test_an_error_of_the_model_costs_no_process(device: ChildDevice) -> None:
    before = pid_of(device)
    with pytest.raises(FailFile, match="bad text"):
        device.encode(["bad"], query=False)
    assert pid_of(device) == before


@pytest.mark.parametrize(
    ("mishap", "told"), [("die", "SIGKILL"), ("leave", "without an answer"), ("much", "that is none")]
)
def test_a_death_is_told_and_the_next_text_has_a_new_process(device: ChildDevice, mishap: str, told: str) -> None:
    """P05: killed, gone without a word, an answer beyond all measure."""
    with pytest.raises(RetryLater, match=told) as caught:
        device.encode(["one", mishap], query=False)
    assert caught.value.reason is Reason.CRASHED
    assert not device.loaded
    assert device.encode(["one"], query=False).shape == (1, DIMENSION)


def test_one_that_hangs_is_ended_in_time(device: ChildDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """P06: also where it is stopped and does not even read the question."""
    monkeypatch.setattr(child_device, "_ENCODE_S", 0.3)
    device.load()
    with pytest.raises(RetryLater, match=r"no answer within 0\.3 seconds"):
        device.encode(["hang"], query=False)
    monkeypatch.setattr(child_device, "_ENCODE_S", 60.0)
    os.kill(pid_of(device), signal.SIGSTOP)
    monkeypatch.setattr(child_device, "_ENCODE_S", 0.3)
    with pytest.raises(RetryLater, match="no answer"):
        device.encode(["x" * (1 << 20)], query=False)


def test_the_end_interrupts_what_runs_and_is_for_good(device: ChildDevice) -> None:
    """P04: a stop waits for no batch and no import."""
    device.load()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(device.encode, ["hang"], False)
        time.sleep(0.05)
        device.end()
        with pytest.raises(RetryLater, match="stopping") as caught:
            running.result(20)
    assert caught.value.reason is Reason.MODEL
    with pytest.raises(RetryLater, match="stopping"):
        device.load()


def test_a_process_that_dies_at_loading_is_no_texts_fault(tmp_path: Path) -> None:
    (tmp_path / "die-cpu").write_bytes(b"1")
    device = device_in(tmp_path, "cpu")
    try:
        with pytest.raises(RetryLater, match="while it loaded the model") as caught:
            device.encode(["one"], query=False)
        assert caught.value.reason is Reason.MODEL
        assert device.encode(["one"], query=False).shape == (1, DIMENSION)
    finally:
        device.end()


@pytest.mark.parametrize("order", ["unready-cuda:0", "die-cuda:0"])
def test_where_a_gpu_takes_no_model_the_cpu_does(tmp_path: Path, order: str) -> None:
    """P11: also where its driver kills the process."""
    (tmp_path / order).write_bytes(b"12")
    device = device_in(tmp_path)
    try:
        for _ in range(2):
            try:
                device.load()
            except RetryLater as error:
                assert error.reason is Reason.MODEL  # noqa: PT017 - it may be raised or not
        device.load()
        assert device.name == "cpu"
        assert str(device.notice).startswith("The embedding device cuda:0 failed (")
    finally:
        device.end()


def test_where_no_device_takes_the_model_it_cannot_be_used(tmp_path: Path) -> None:
    for name in ("cuda:0", "cpu"):
        (tmp_path / f"unready-{name}").touch()
    device = device_in(tmp_path)
    try:
        with pytest.raises(Unready, match="on cpu"):
            device.load()
    finally:
        device.end()


def test_a_gpu_that_failed_is_tried_again_in_a_new_process_after_a_while(tmp_path: Path) -> None:
    """P11: nothing can be read from some after an error until the process ends."""
    clock = ManualClock()
    device = device_in(tmp_path, clock=clock)
    try:
        first = pid_of(device)
        device.encode(["fall"], query=False)
        assert (device.name, device.notice) == ("cpu", "The embedding device cuda:0 failed.")
        clock.advance(59)
        assert pid_of(device) == first
        clock.advance(2)
        assert pid_of(device) != first
        assert (device.name, device.notice) == ("cuda:0", None)
    finally:
        device.end()


def test_a_process_lives_longer_than_the_thread_that_asked_first(device: ChildDevice) -> None:
    """The kernel's parent-death signal comes with the end of a thread."""
    thread = threading.Thread(target=device.load)
    thread.start()
    thread.join()
    assert device.loaded
    assert device.encode(["one"], query=False).shape == (1, DIMENSION)


def test_a_process_that_never_was_ends_without_harm() -> None:
    process = ModelProcess(TERMS)
    process.end()
    process.end()
    with pytest.raises(model_process.ProcessDied):
        process.ask(Encode(("one",), False), 5.0)


# ---- the reranker ----


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


def reranker_in(folder: Path, clock: ManualClock) -> ChildReranker:
    return ChildReranker(str(folder), "cpu", TERMS, clock, Idleness(300.0))


def scored(reranker: ChildReranker) -> list[float] | None:
    try:
        return reranker.scores("q", ["", "a"])
    except RetryLater as error:
        assert "being loaded" in str(error)  # noqa: PT017 - it may be raised or not
        return None


def test_nobody_waits_for_a_reranker_that_loads(folder: Path) -> None:
    clock = ManualClock()
    reranker = reranker_in(folder, clock)
    try:
        assert scored(reranker) is None
        assert eventually(lambda: scored(reranker), within_s=60) == [1.0, 0.5]
        with pytest.raises(RetryLater, match="SIGKILL"):
            reranker.scores("q", ["die"])
        assert scored(reranker) is None, "another one comes"
        assert eventually(lambda: scored(reranker), within_s=60) == [1.0, 0.5]
        clock.advance(3599)
        reranker.look()
        assert scored(reranker) is not None
        clock.advance(3601)
        reranker.look()
        assert scored(reranker) is None, "it went to rest"
    finally:
        reranker.unload()


def test_a_reranker_that_is_none_is_not_loaded_with_every_search(folder: Path) -> None:
    (folder / "unready-reranker").touch()
    clock = ManualClock()
    reranker = reranker_in(folder, clock)

    def refused() -> KbsyncError | None:
        try:
            reranker.scores("q", ["a"])
        except RetryLater:
            return None
        except KbsyncError as error:
            return error
        return None

    try:
        assert isinstance(eventually(refused, within_s=60), FailFile)
        assert isinstance(refused(), FailFile)
        clock.advance(61)
        (folder / "unready-reranker").unlink()
        assert eventually(lambda: scored(reranker), within_s=60) == [1.0, 0.5]
    finally:
        reranker.unload()


def test_a_reranker_that_is_away_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(Unready, match=r"models\.reranker"):
        reranker_in(tmp_path / "away", ManualClock()).scores("q", ["a"])
