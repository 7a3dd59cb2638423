"""The bell between threads."""

from __future__ import annotations

import threading
import time

from kbsync.daemon.wake import Wake

FAR = 30.0


def test_a_ring_between_the_look_and_the_wait_is_not_lost() -> None:
    wake = Wake()
    seen = wake.rings()
    wake.ring()
    begun = time.monotonic()
    wake.wait(seen, FAR)
    assert time.monotonic() - begun < FAR / 2


def test_a_ring_wakes_everybody_who_waits() -> None:
    wake = Wake()
    seen = wake.rings()
    waiting = [threading.Thread(target=wake.wait, args=(seen, FAR)) for _ in range(3)]
    for thread in waiting:
        thread.start()
    wake.ring()
    for thread in waiting:
        thread.join(FAR / 2)
        assert not thread.is_alive()


def test_without_a_ring_the_wait_ends_by_itself() -> None:
    wake = Wake()
    begun = time.monotonic()
    wake.wait(wake.rings(), 0.05)
    assert time.monotonic() - begun >= 0.04
