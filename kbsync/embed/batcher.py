"""Shares the devices among all who embed: one order of priority, batches across callers, one thread a device."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import numpy as np
import structlog

from kbsync.embed.batch_sizes import next_batch
from kbsync.embed.embedder import Device, checked, failed, mean_of_windows, unready
from kbsync.embed.token_counter import encodable
from kbsync.embed.windows import Window, windows
from kbsync.errors import KbsyncError, RetryLater, Unready
from kbsync.model import Priority, TokenCounter
from kbsync.reasons import Reason

if TYPE_CHECKING:
    from kbsync.model import Vectors

log = structlog.stdlib.get_logger(__name__)

# Among so many waiting texts of one priority the next batch is chosen: enough to find like lengths.
_LOOK_AHEAD = 256
# A batch takes half a second; a model that is just loading is not waited for. For all threads together.
_STOP_SECONDS = 2.0


class _Request:
    """One call of `embed`: its windows' vectors as they come in. Guarded by the batcher's lock."""

    def __init__(self, windows: int, dimension: int) -> None:
        self.rows: Vectors = np.zeros((windows, dimension), dtype=np.float32)
        self.missing = windows
        self.error: KbsyncError | None = None

    @property
    def done(self) -> bool:
        return self.error is not None or self.missing == 0


@dataclass(frozen=True, slots=True)
class _Task:
    """One window to be embedded, and where its vector goes."""

    request: _Request
    row: int
    window: Window
    priority: Priority


class Batcher:
    """A `model.Embedder` over one or more devices, for callers in any number of threads.

    Started, every device has a thread, which loads the model first. Not started, the callers' own threads run the
    batches on the first device. `devices` may be a function: then it is called when a device is first needed (asking
    torch which there are takes seconds).

    Texts go ahead by priority, within one those of the caller who has least left to wait for. A batch holds one
    priority only, so that nothing urgent waits for the company of what is not. A blank text counts as one space.
    """

    def __init__(
        self,
        devices: Sequence[Device] | Callable[[], Sequence[Device]],
        counter: TokenCounter,
        max_tokens: int,
        *,
        fingerprint: str,
        model_name: str,
        dimension: int,
    ) -> None:
        self._devices = devices
        self._counter = counter
        self._max_tokens = max_tokens
        self._fingerprint = fingerprint
        self._model_name = model_name
        self._dimension = dimension

        # Held while a batch runs in a caller's thread; taken before _changed, never after it.
        self._stepping = threading.Lock()
        self._own_device: Device | None = None

        # Guards everything below; told whenever any of it changes.
        self._changed = threading.Condition()
        self._waiting: dict[Priority, dict[_Request, deque[_Task]]] = {priority: {} for priority in sorted(Priority)}
        self._requests: set[_Request] = set()
        self._threads: list[threading.Thread] = []
        self._started = False
        self._stopped = False
        self._loaded: list[Device] = []
        self._lost = 0
        self._error: str | None = None
        self._died: BaseException | None = None

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    @property
    def model_name(self) -> str:
        return self._model_name

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def ready(self) -> bool:
        """Tell whether a device has the model loaded, so that a query is answered at once."""
        with self._changed:
            return bool(self._loaded) and not self._stopped

    @property
    def error(self) -> str | None:
        """Return why the model could not be loaded, None where it could or has not been tried."""
        with self._changed:
            return self._error

    @property
    def died(self) -> BaseException | None:
        """Return what ended a device's thread that nobody foresaw, None where they all live, or ended as told."""
        with self._changed:
            return self._died

    @property
    def device_names(self) -> list[str]:
        """Return the devices that have the model loaded; empty until one has."""
        with self._changed:
            return [device.name for device in self._loaded]

    @property
    def notices(self) -> list[str]:
        """Return what a person should know of the devices that have the model loaded."""
        with self._changed:
            return [notice for device in self._loaded if (notice := device.notice) is not None]

    @property
    def pending(self) -> int:
        """Return how many texts wait for a device, a long one counted once for each of its windows."""
        with self._changed:
            return sum(len(tasks) for requests in self._waiting.values() for tasks in requests.values())

    def wait_ready(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until the model is loaded or cannot be; return whether it is."""
        with self._changed:
            self._changed.wait_for(lambda: self._loaded or self._error is not None or self._stopped, timeout)
            return bool(self._loaded) and not self._stopped

    def start(self) -> None:
        """Load the models and serve from threads, without waiting for either. A second call does nothing."""
        with self._stepping, self._changed:
            if not (self._started or self._stopped):
                self._started = True
                self._spawn("embed-open", self._open)

    def stop(self) -> None:
        """End the threads; whoever waits, and whoever comes, gets RetryLater(MODEL). A second call does nothing."""
        with self._changed:
            again, self._stopped = self._stopped, True
            for request in self._requests:
                request.error = request.error or _stopping()
            for requests in self._waiting.values():
                requests.clear()
            self._changed.notify_all()
            threads = [thread for thread in self._threads if thread is not threading.current_thread()]
        deadline = time.monotonic() + (0.0 if again else _STOP_SECONDS)
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def embed(self, texts: Sequence[str], priority: Priority) -> Vectors:
        """Return one normalised float32 row a text, in order, shape (len(texts), dimension). Blocks.

        Raises FailFile(MODEL) where the model fails on one of the texts, Unready(MODEL) where it cannot be used at all,
        RetryLater(MODEL) when the batcher stops or memory is short.
        """
        parts = [windows(_readable(text), self._counter, self._max_tokens) for text in texts]
        flat = [window for part in parts for window in part]
        request = _Request(len(flat), self._dimension)
        self._submit(request, [_Task(request, row, window, priority) for row, window in enumerate(flat)])
        try:
            self._await(request)
        finally:
            with self._changed:  # also when the wait was interrupted: nobody wants the rest any more
                request.error = request.error or _stopping()
                self._requests.discard(request)
        edges = np.cumsum([0, *(len(part) for part in parts)])
        means = [
            request.rows[start:end] if end - start == 1 else mean_of_windows(request.rows[start:end])
            for start, end in pairwise(edges)
        ]
        return np.concatenate(means) if means else np.zeros((0, self._dimension), dtype=np.float32)

    def step(self) -> bool:
        """Run one batch in the calling thread; return whether there was one. After `start` there never is.

        Raises Unready(MODEL) where the model cannot be loaded.
        """
        with self._stepping:
            with self._changed:
                if self._started or self._stopped or not any(self._waiting.values()):
                    return False
            device = self._own_device or self._load_own_device()
            with self._changed:
                batch = self._take(device.batch_tokens)
            try:
                self._run(device, batch)
            except BaseException:  # Ctrl+C: others' texts in this batch are not to be lost
                with self._changed:
                    for task in reversed(batch):
                        self._waiting[task.priority].setdefault(task.request, deque()).appendleft(task)
                raise
            return bool(batch)

    # ---- in the callers' threads ----

    def _submit(self, request: _Request, tasks: Sequence[_Task]) -> None:
        with self._changed:
            if self._stopped:
                raise _stopping()
            if self._started and self._error is not None:
                raise Unready(Reason.MODEL, self._error)
            self._requests.add(request)
            for task in tasks:
                self._waiting[task.priority].setdefault(request, deque()).append(task)
            self._changed.notify_all()

    def _await(self, request: _Request) -> None:
        while True:
            with self._changed:
                if self._started:
                    self._changed.wait_for(lambda: request.done)
                if request.done:
                    break
            # False here means that another thread's step ran our texts, or that start or stop came in between.
            self.step()
        if request.error is not None:
            raise request.error

    def _load_own_device(self) -> Device:
        try:
            device = self._device_list()[0]
            device.load()
        except Exception as error:
            told = _unusable(error)
            with self._changed:
                self._error = str(told)
            raise told from error
        with self._changed:
            self._own_device, self._error = device, None
            self._loaded = [device]
            self._changed.notify_all()
        return device

    # ---- in the threads ----

    def _open(self) -> None:
        try:
            self._counter.count("")  # without it no text is cut: better told now than by each job
            devices = self._device_list()
        except Exception as error:  # noqa: BLE001 - a thread's last stop: the error goes to all who wait
            self._lose(error, of=1)
            return
        with self._changed:
            if not self._stopped:
                for device in devices:
                    self._spawn(f"embed-{device.name}", partial(self._serve, device, len(devices)))

    def _serve(self, device: Device, of: int) -> None:
        try:
            device.load()
        except Exception as error:  # noqa: BLE001 - as above; other devices may do better
            self._lose(error, of)
            return
        with self._changed:
            self._loaded.append(device)
            self._changed.notify_all()
        while batch := self._next_batch(device):
            self._run(device, batch)

    def _next_batch(self, device: Device) -> list[_Task]:
        """Wait for work and take it; an empty list means stop."""
        with self._changed:
            while not self._stopped:
                if batch := self._take(device.batch_tokens):
                    return batch
                self._changed.wait()
            return []

    def _lose(self, error: Exception, of: int) -> None:
        """Count a device that could not load; when it was the last of them, fail all who wait."""
        with self._changed:
            self._lost += 1
            if self._lost == of:
                told = _unusable(error)
                self._error = str(told)
                for request in self._requests:
                    request.error = request.error or told
            self._changed.notify_all()

    def _spawn(self, name: str, run: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                run()
            except BaseException as error:  # a mistake of ours; whoever waits must not wait for ever
                log.exception("embedder_ended", thread=name)
                with self._changed:
                    self._died = error
                    for request in self._requests:
                        request.error = request.error or _stopping()
                    self._changed.notify_all()

        # Daemons: a load of 13 s cannot be interrupted and must not hold up the end of the process.
        thread = threading.Thread(target=guarded, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    # ---- in either ----

    def _device_list(self) -> Sequence[Device]:
        devices = self._devices() if callable(self._devices) else self._devices
        if not devices:
            raise unready(ValueError("there is no device to run it on."))
        return devices

    def _take(self, budget: int) -> list[_Task]:
        """Remove and return the next batch of the most urgent priority that has one. Call with the lock held."""
        for requests in self._waiting.values():
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

    def _run(self, device: Device, batch: Sequence[_Task]) -> None:
        results = self._results(device, batch)
        with self._changed:
            for task, result in zip(batch, results, strict=True):
                request = task.request
                if isinstance(result, KbsyncError):
                    request.error = request.error or result
                elif not request.done:
                    request.rows[task.row] = result
                    request.missing -= 1
            self._changed.notify_all()

    def _results(self, device: Device, batch: Sequence[_Task]) -> Sequence[Vectors | KbsyncError]:
        """Return a vector or an error for each task; after a failure each is tried alone, to harm no other."""
        if not batch:
            return []
        try:
            vectors = device.encode([task.window.text for task in batch], batch[0].priority == Priority.QUERY)
            return list(checked(vectors, len(batch), self._dimension))
        except RetryLater as error:  # not the texts' fault, so it is no use to try them one by one
            return [error] * len(batch)
        except Exception as error:  # noqa: BLE001 - the thread must live; each caller gets its own error
            if len(batch) == 1:
                return [failed(error)]
        return [result for task in batch for result in self._results(device, [task])]


def _readable(text: str) -> str:
    return encodable(text) if text.strip() else " "


def _unusable(error: Exception) -> Unready:
    """Return what is told of a model that could not be loaded; what nobody foresaw is logged whole."""
    if not isinstance(error, KbsyncError):
        log.error("model_not_loaded", exc_info=error)
    return unready(error)


def _stopping() -> RetryLater:
    return RetryLater(Reason.MODEL, "The embedder is stopping.", hint="The work is kept and goes on at the next start.")
