"""Memory that this process does not use any more, given back to the system."""

from __future__ import annotations

import ctypes
import sys

# glibc's parameter M_ARENA_MAX: how many heaps threads share. It makes eight a core; none shrinks by itself.
_ARENA_MAX, _ARENAS = -8, 2


def share_heaps() -> None:
    """Have all threads that come share a few heaps, where the system's allocator knows how."""
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(_ARENA_MAX, _ARENAS)


def give_back() -> None:
    """Give back what is free, where the system's allocator knows how. Takes some milliseconds."""
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)
