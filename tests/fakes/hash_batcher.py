"""Batchers on fake devices, and calls that are known to wait in them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kbsync.embed.batcher import Batcher
from kbsync.embed.embedder import Device
from kbsync.model import Priority
from tests.fakes.hash_embedder import WordCounter

if TYPE_CHECKING:
    from kbsync.model import Vectors

# How many seconds a test waits for what must come.
WAIT = 20.0


def batcher_on(*devices: Device, max_tokens: int = 20) -> Batcher:
    return Batcher(devices, WordCounter(), max_tokens, fingerprint="f", model_name="hashed", dimension=16)


@contextmanager
def running(batcher: Batcher) -> Iterator[Batcher]:
    batcher.start()
    try:
        yield batcher
    finally:
        batcher.stop()


def queued(batcher: Batcher, callers: ThreadPoolExecutor, texts: list[str], priority: Priority) -> Future[Vectors]:
    """Call `embed` in a thread and return when its texts wait in the batcher, whose device is busy."""
    wanted = batcher.pending + len(texts)
    future = callers.submit(batcher.embed, texts, priority)
    until(lambda: batcher.pending == wanted)
    return future


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)
