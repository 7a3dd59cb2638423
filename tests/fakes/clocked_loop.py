"""An event loop by whose time nothing passes until a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from tests.fakes.manual_clock import ManualClock

T = TypeVar("T")


class ClockedLoop(asyncio.SelectorEventLoop):
    """Tells the time by a clock that is moved by hand; sockets are real."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._hand = clock

    def time(self) -> float:
        return self._hand.monotonic()


def run_by(clock: ManualClock, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; its timers fire as the clock is moved."""
    with asyncio.Runner(loop_factory=lambda: ClockedLoop(clock)) as runner:
        return runner.run(work)


async def pass_time(clock: ManualClock, seconds: float) -> None:
    """Let so many seconds pass for everything that waits for a time; of its timers the earliest fires first."""
    over = asyncio.ensure_future(asyncio.sleep(seconds))
    await asyncio.sleep(0)  # it has begun to wait
    clock.advance(seconds)
    await over
