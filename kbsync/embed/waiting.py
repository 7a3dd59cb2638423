"""The texts that wait for a device, and which of them go together next. No threads: the batcher's lock guards it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from kbsync.embed.batch_sizes import next_batch
from kbsync.embed.windows import Window
from kbsync.errors import KbsyncError
from kbsync.model import Priority

if TYPE_CHECKING:
    from kbsync.model import Vectors

# Among so many waiting texts of one priority the next batch is chosen: enough to find like lengths.
_LOOK_AHEAD = 256


class Request:
    """One call of `embed`: its windows' vectors as they come in."""

    def __init__(self, windows: int, dimension: int) -> None:
        self.rows: Vectors = np.zeros((windows, dimension), dtype=np.float32)
        self.missing = windows
        self.error: KbsyncError | None = None

    @property
    def done(self) -> bool:
        return self.error is not None or self.missing == 0


@dataclass(frozen=True, slots=True)
class Task:
    """One window to be embedded, and where its vector goes."""

    request: Request
    row: int
    window: Window
    priority: Priority


class Waiting:
    """Tasks by priority and request, in the order of their coming."""

    def __init__(self) -> None:
        self._by_priority: dict[Priority, dict[Request, deque[Task]]] = {priority: {} for priority in sorted(Priority)}

    def __len__(self) -> int:
        return sum(len(tasks) for requests in self._by_priority.values() for tasks in requests.values())

    def add(self, tasks: Iterable[Task]) -> None:
        """Put tasks behind those that wait."""
        for task in tasks:
            self._by_priority[task.priority].setdefault(task.request, deque()).append(task)

    def put_back(self, batch: Iterable[Task]) -> None:
        """Put tasks that were taken in front of the others of their requests, in their order."""
        for task in reversed(list(batch)):
            self._by_priority[task.priority].setdefault(task.request, deque()).appendleft(task)

    def clear(self) -> None:
        """Forget all."""
        for requests in self._by_priority.values():
            requests.clear()

    def take(self, budget: int) -> list[Task]:
        """Remove and return the next batch, of at most `budget` tokens, of the most urgent priority that has one."""
        for requests in self._by_priority.values():
            for over in [request for request in requests if request.done]:
                del requests[over]  # another window of it failed, or its caller went away
            # Who has least left goes first: a note is not kept waiting by a book. The sort keeps the order of coming.
            nearest = sorted(requests, key=lambda request: request.missing)
            near = list(islice((task for request in nearest for task in requests[request]), _LOOK_AHEAD))
            if near:
                batch = [near[index] for index in sorted(next_batch([task.window.tokens for task in near], budget))]
                for task in batch:
                    requests[task.request].remove(task)
                    if not requests[task.request]:
                        del requests[task.request]
                return batch
        return []
