"""Waiting for a state that comes by itself, with a deadline: never for a time to pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(look: Callable[[], T], *, within_s: float = 30.0, every_s: float = 0.02) -> T:
    """Return the first look that is true; fail where none is within `within_s` seconds."""
    deadline = time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {within_s} s; the last look was {found!r}"
        time.sleep(every_s)
    return found
