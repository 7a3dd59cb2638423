"""How kbsync yields to the user's own programs: the kernel's priorities for this process, and who may compute how much.

The one place that sets nice and the I/O class. Light to import; children that are shut in use it too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

# normal: as it was started; low: last among those of its class; idle: only when nobody else wants the disk.
IoClass = Literal["normal", "low", "idle"]
# Of best effort the last of its eight places.
_LOWEST_BEST_EFFORT = 7


@dataclass(frozen=True, slots=True)
class Courtesy:
    """How a process yields. `nice` from 0 to 19 is reached, never added to what the process has already.

    `threads`: the most that compute at once in it, None for as many as there are cores. Small, to be pickled.
    """

    nice: int = 0
    io: IoClass = "normal"
    threads: int | None = None


def yield_to_others(courtesy: Courtesy) -> list[str]:
    """Take this process with all its threads back as far as `courtesy` says; return what was refused, a sentence each.

    A process that yields more already stays so: to come forward again is only allowed to a new one.
    """
    return [*_nice(courtesy.nice, _threads()), *_io_class(courtesy.io, _threads())]


def take_children_back(courtesy: Courtesy) -> list[str]:
    """Take all processes that this one started, and theirs, back as far as `courtesy` says; as `yield_to_others`."""
    import psutil

    try:
        threads = [thread for child in psutil.Process().children(recursive=True) for thread in _threads(child.pid)]
    except psutil.Error:
        return []  # the system tells nothing of processes; each child yields by itself when it starts
    return [*_nice(courtesy.nice, threads), *_io_class(courtesy.io, threads)]


class Conduct:
    """The courtesy of this process and of the children that it starts, as last set. Any thread may ask.

    `refused`: what of it the system did not allow, a sentence each.
    """

    def __init__(
        self,
        children: Courtesy,
        yield_to_others: Callable[[Courtesy], list[str]] = yield_to_others,
        take_children_back: Callable[[Courtesy], list[str]] = take_children_back,
    ) -> None:
        self._children = children
        self._yield = yield_to_others
        self._take_back = take_children_back
        self.refused: list[str] = []

    def children(self) -> Courtesy:
        """Return how a child that is started now yields."""
        return self._children

    def follow(self, own: Courtesy, children: Courtesy) -> None:
        """Take this process and its children back at once, and what it starts from now on."""
        self._children = children
        self.refused = list(dict.fromkeys([*self._yield(own), *self._take_back(children)]))


def _nice(wanted: int, threads: Sequence[int]) -> list[str]:
    refused: set[str] = set()
    for thread in threads:
        try:
            if os.getpriority(os.PRIO_PROCESS, thread) < wanted:
                os.setpriority(os.PRIO_PROCESS, thread, wanted)
        except ProcessLookupError:
            continue  # it ended meanwhile
        except OSError as error:
            refused.add(f"The system does not let kbsync set its nice value to {wanted}: {error.strerror}.")
    return sorted(refused)


def _io_class(wanted: IoClass, threads: Sequence[int]) -> list[str]:
    if wanted == "normal" or sys.platform != "linux":
        return []
    import psutil

    refused: set[str] = set()
    for thread in threads:
        try:
            process = psutil.Process(thread)
            if wanted == "idle":
                process.ionice(psutil.IOPRIO_CLASS_IDLE)
            elif process.ionice().ioclass != psutil.IOPRIO_CLASS_IDLE:
                process.ionice(psutil.IOPRIO_CLASS_BE, _LOWEST_BEST_EFFORT)
        except psutil.NoSuchProcess:
            continue
        except (psutil.Error, OSError) as error:
            refused.add(f"The system does not let kbsync set its I/O class to {wanted}: {error}.")
    return sorted(refused)


def _threads(process: int = 0) -> list[int]:
    """Return what the kernel gives priorities to: on Linux each thread has its own, elsewhere the process (0: ours)."""
    if sys.platform != "linux":
        return [process]
    try:
        return [int(name) for name in os.listdir(f"/proc/{process or 'self'}/task")]
    except OSError:
        return [process]
