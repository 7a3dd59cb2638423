"""Shares the devices among all who embed: one order of priority, batches across callers, one thread a device."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import structlog

from kbsync.clock import Clock, SystemClock
from kbsync.embed.attempts import is_well, results, stopping, unusable
from kbsync.embed.embedder import Device, DeviceInfo, means_of_windows, of_all, unready
from kbsync.embed.lifetimes import Deaths, Idleness
from kbsync.embed.roster import ModelState, Roster
from kbsync.embed.waiting import Request, Task, Waiting
from kbsync.embed.windows import readable, windows
from kbsync.errors import KbsyncError, RetryLater, Unready
from kbsync.model import Priority, TokenCounter
from kbsync.reasons import Reason

if TYPE_CHECKING:
    from kbsync.model import Vectors

log = structlog.stdlib.get_logger(__name__)

# A batch takes half a second; a model that is just loading is not waited for. For all threads together.
_STOP_SECONDS = 2.0
# A search is answered by words where the device is stuck for longer; whoever made it is not to wait until it is ended.
_QUERY_SECONDS = 10.0


class Batcher:
    """A `model.Embedder` over one or more devices, for callers in any number of threads.

    Started, every device has a thread, which loads the model when it is first needed, and lets it go when `look` finds
    that nobody needed it for as long as `idleness` says. Not started, the callers' own threads run the batches on the
    first device. `devices` may be a function: then it is called when a device is first needed (asking torch which there
    are takes seconds).

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
        clock: Clock | None = None,
        idleness: Idleness | None = None,
    ) -> None:
        self._devices = devices
        self._counter = counter
        self._max_tokens = max_tokens
        self._fingerprint = fingerprint
        self._model_name = model_name
        self._dimension = dimension
        self._clock = clock or SystemClock()

        # Held while a batch runs in a caller's thread; taken before _changed, never after it.
        self._stepping = threading.Lock()
        self._own_device: Device | None = None
        self._own_deaths = Deaths()

        # Guards everything below; told whenever any of it changes.
        self._changed = threading.Condition()
        self._waiting = Waiting()
        self._requests: set[Request] = set()
        self._threads: list[threading.Thread] = []
        self._started = False
        self._stopped = False
        self._roster = Roster(self._clock, idleness or Idleness())
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
            return bool(self._roster.loaded) and not self._stopped

    @property
    def state(self) -> ModelState:
        """Return whether a query is answered at once, and if not, why."""
        with self._changed:
            return self._roster.state

    @property
    def error(self) -> str | None:
        """Return why the model cannot be loaded now, None where it can or has not been tried."""
        with self._changed:
            return self._roster.error

    @property
    def died(self) -> BaseException | None:
        """Return what ended a device's thread that nobody foresaw, None where they all live, or ended as told."""
        with self._changed:
            return self._died

    @property
    def device_names(self) -> list[str]:
        """Return the devices that have the model loaded, or had when it went to rest; empty until one has."""
        with self._changed:
            return [device.name for device in self._roster.used]

    @property
    def device_info(self) -> DeviceInfo | None:
        """Return what the devices of `device_names` are together, None where that is not known."""
        with self._changed:
            return of_all([info for device in self._roster.used if (info := device.info) is not None])

    @property
    def notices(self) -> list[str]:
        """Return what a person should know of the devices of `device_names`."""
        with self._changed:
            return [notice for device in self._roster.used if (notice := device.notice) is not None]

    @property
    def pending(self) -> int:
        """Return how many texts wait for a device, a long one counted once for each of its windows."""
        with self._changed:
            return len(self._waiting)

    def wake(self) -> None:
        """Have the model loaded where it is not: a person searches, and will search again. Does not wait."""
        with self._changed:
            self._roster.want(asked=True)
            self._changed.notify_all()

    def look(self) -> bool:
        """Let the model go where nobody needed it for long; return whether that begins now. Somebody calls it often.

        A device that is left alone for a while is tried again by it, too.
        """
        with self._changed:
            rests = self._started and not self._requests and self._roster.rest()
            if rests or self._roster.is_waited_for:
                self._changed.notify_all()
            return rests

    def wait_ready(self, timeout: float) -> bool:
        """Have the model loaded; wait up to `timeout` seconds until it is or cannot be; return whether it is."""
        self.wake()
        with self._changed:
            self._changed.wait_for(lambda: self._roster.state in ("ready", "unusable") or self._stopped, timeout)
            return bool(self._roster.loaded) and not self._stopped

    def start(self) -> None:
        """Serve from threads, which load the model with the first text. Does not wait. A second call does nothing."""
        with self._stepping, self._changed:
            if not (self._started or self._stopped):
                self._started = True
                self._spawn("embed-open", self._open)

    def stop(self) -> None:
        """End the threads; whoever waits, and whoever comes, gets RetryLater(MODEL). A second call does nothing."""
        with self._changed:
            again, self._stopped = self._stopped, True
            for request in self._requests:
                request.error = request.error or stopping()
            self._waiting.clear()
            self._changed.notify_all()
            devices = self._roster.devices
            threads = [thread for thread in self._threads if thread is not threading.current_thread()]
        for device in devices:
            device.end()
        deadline = time.monotonic() + (0.0 if again else _STOP_SECONDS)
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def embed(self, texts: Sequence[str], priority: Priority) -> Vectors:
        """Return one normalised float32 row a text, in order, shape (len(texts), dimension). Blocks.

        Raises FailFile(MODEL) where the model fails on one of the texts, Unready(MODEL) where it cannot be used at all,
        RetryLater(MODEL) when the batcher stops or memory is short, or for a query when it takes long.
        """
        parts = [windows(readable(text), self._counter, self._max_tokens) for text in texts]
        flat = [window for part in parts for window in part]
        request = Request(len(flat), self._dimension)
        self._submit(request, [Task(request, row, window, priority) for row, window in enumerate(flat)])
        try:
            self._await(request, _QUERY_SECONDS if priority == Priority.QUERY else None)
        finally:
            with self._changed:  # also when the wait was interrupted: nobody wants the rest any more
                request.error = request.error or stopping()
                self._requests.discard(request)
        return means_of_windows(request.rows, [len(part) for part in parts])

    def step(self) -> bool:
        """Run one batch in the calling thread; return whether there was one. After `start` there never is.

        Raises Unready(MODEL) where the model cannot be loaded.
        """
        with self._stepping:
            with self._changed:
                if self._started or self._stopped or not self._waiting:
                    return False
            device = self._own_device or self._load_own_device()
            with self._changed:
                batch = self._waiting.take(device.batch_tokens)
            try:
                self._run(device, batch, self._own_deaths)
            except BaseException:  # Ctrl+C: others' texts in this batch are not to be lost
                with self._changed:
                    self._waiting.put_back(batch)
                raise
            return bool(batch)

    # ---- in the callers' threads ----

    def _submit(self, request: Request, tasks: Sequence[Task]) -> None:
        with self._changed:
            if self._stopped:
                raise stopping()
            if self._started and (error := self._roster.error) is not None:
                raise Unready(Reason.MODEL, error)
            self._requests.add(request)
            self._waiting.add(tasks)
            self._roster.want(asked=any(task.priority == Priority.QUERY for task in tasks))
            self._changed.notify_all()

    def _await(self, request: Request, limit_s: float | None) -> None:
        while True:
            with self._changed:
                if self._started and not self._changed.wait_for(lambda: request.done, limit_s):
                    raise RetryLater(Reason.MODEL, f"It gave no answer within {limit_s:g} seconds.")
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
            told = unusable(error)
            with self._changed:
                self._roster.error = str(told)
            raise told from error
        with self._changed:
            self._own_device = device
            self._roster.back(device)
            self._changed.notify_all()
        return device

    # ---- in the threads ----

    def _open(self) -> None:
        def look_for_devices() -> None:
            self._counter.count("")  # without it no text is cut: better told now than by each job
            self._device_list()

        if self._is_wanted() and self._tried(look_for_devices, Deaths(), self._fail_all):
            with self._changed:
                self._roster.error = None
                for device in self._roster.devices:
                    self._spawn(f"embed-{device.name}", partial(self._serve, device))
                    if self._stopped:
                        device.end()

    def _serve(self, device: Device) -> None:
        deaths = Deaths()
        lose = partial(self._lose, device)
        try:
            while self._is_wanted() and self._tried(device.load, deaths, lose):
                with self._changed:
                    self._roster.back(device)
                    self._changed.notify_all()
                while device.loaded and (batch := self._next_batch(device)):
                    self._run(device, batch, deaths)
                if device.loaded:
                    deaths.lived()
                    self._let_go(device)
                elif deaths.pause_s and not is_well(device, self._max_tokens, deaths):
                    lose(Unready(Reason.MODEL, f"The process that embeds died {deaths.in_a_row} times in a row."))
        finally:
            self._let_go(device)

    def _is_wanted(self) -> bool:
        """Wait until the model is needed; False means stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._roster.wanted or self._stopped)
            return not self._stopped

    def _tried(self, work: Callable[[], None], deaths: Deaths, lose: Callable[[Unready], None]) -> bool:
        """Do it, again and again where that may help; False where it cannot be, or where all ends."""
        while self._rested_for(deaths.pause_s):
            try:
                work()
                return True
            except Exception as error:  # noqa: BLE001 - a thread's last stop: the error goes to all who wait
                if isinstance(error, Unready) or not isinstance(error, RetryLater):
                    lose(unusable(error))
                    return False
                deaths.died()
                if deaths.pause_s:
                    log.error("model_left_alone", seconds=deaths.pause_s, error=str(error))
                    lose(unready(error))
        return False

    def _rested_for(self, seconds: float) -> bool:
        """Wait so long by the clock, as `look` tells it; False means stop."""
        until = self._clock.monotonic() + seconds
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._clock.monotonic() >= until)
            return not self._stopped

    def _next_batch(self, device: Device) -> list[Task]:
        """Wait for work and take it; an empty list means stop, or let the model go."""
        with self._changed:
            while self._roster.wanted and not self._stopped:
                if batch := self._waiting.take(device.batch_tokens):
                    return batch
                self._changed.wait()
            return []

    def _let_go(self, device: Device) -> None:
        device.unload()
        with self._changed:
            self._roster.note(device)

    def _lose(self, device: Device, why: Unready) -> None:
        """Count a device that cannot be used; when it was the last of them, fail all who wait."""
        with self._changed:
            if self._roster.lose(device, why):
                self._fail_all(why)

    def _fail_all(self, why: Unready) -> None:
        with self._changed:
            self._roster.error = str(why)
            for request in self._requests:
                request.error = request.error or why
            self._waiting.clear()
            self._changed.notify_all()

    def _spawn(self, name: str, run: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                run()
            except BaseException as error:  # a mistake of ours; whoever waits must not wait for ever
                log.exception("embedder_ended", loop=name)
                with self._changed:
                    self._died = error
                    for request in self._requests:
                        request.error = request.error or stopping()
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
        with self._changed:
            self._roster.devices = devices
        return devices

    def _run(self, device: Device, batch: Sequence[Task], deaths: Deaths) -> None:
        def died() -> None:
            with self._changed:
                self._roster.note(device)  # a search is answered by words until its process is there again

        found = results(device, batch, self._dimension, deaths, died)
        with self._changed:
            for task, result in zip(batch, found, strict=True):
                request = task.request
                if isinstance(result, KbsyncError):
                    request.error = request.error or result
                elif not request.done:
                    request.rows[task.row] = result
                    request.missing -= 1
            self._roster.worked(device)
            self._changed.notify_all()
