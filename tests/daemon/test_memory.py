"""Memory that is free goes back to the system."""

from __future__ import annotations

import sys

import psutil
import pytest

from kbsync.daemon import memory


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc is asked")
def test_what_is_free_goes_back_to_the_system() -> None:
    process = psutil.Process()
    # Blocks below what the allocator maps one by one, every 100th of which stays: the heap between cannot shrink.
    blocks = [bytearray(60_000) for _ in range(3000)]
    kept = blocks[::100]
    held = process.memory_info().rss
    del blocks
    memory.give_back()
    assert held - process.memory_info().rss > 100_000_000
    assert len(kept) == 30
