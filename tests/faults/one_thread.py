"""A program that forks must have one thread: numpy's library for matrices starts its own unless it is told not to."""

from __future__ import annotations

import os
import sys

_ONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def begin_again_with_one_thread(module: str) -> None:
    """Start this module anew, with the same arguments, unless it was started so. For the begin of its `main`."""
    if any(os.environ.get(name) != value for name, value in _ONE.items()):
        os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], {**os.environ, **_ONE})


def threads() -> int:
    """Return how many threads this process has, those of libraries too."""
    return len(os.listdir("/proc/self/task"))
