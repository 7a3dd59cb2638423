"""The cage: work on files that may crash, hang or eat memory runs in child processes, where it costs one job.

It knows nothing of what the work is; `isolated_slot` watches one child, `isolated_child` is what runs inside it.
"""

from __future__ import annotations

import errno
import os
import pickle
import queue
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

import structlog

from kbsync.clock import Clock
from kbsync.courtesy import Courtesy
from kbsync.errors import RetryLater, StorageUnavailable
from kbsync.pipelines.isolated_child import ChildSettings
from kbsync.pipelines.isolated_slot import CageLimits, Named, NotStarted, Slot, SlotStatus, stopping
from kbsync.pipelines.isolation_plan import Slots
from kbsync.reasons import Reason

__all__ = ["Cage", "CageLimits", "SlotStatus"]

log = structlog.stdlib.get_logger(__name__)

Request = TypeVar("Request", bound=Named)
Result = TypeVar("Result")

# So many children in a row may die before they begin a job; then it is the installation, not chance.
_STARTS = 3
# A child that could not get ready answers so long for those that come after; then a new one tries.
_UNPREPARED_S = 60.0
# Memory that is short now is looked at again after so long.
_ROOM_LOOK_S = 2.0
# While a child is warm, so often is looked whether it is needed any longer.
_IDLE_LOOK_S = 10.0


class Cage(Generic[Request, Result]):
    """Runs `work` on requests, each in a child process, as many at once as there are slots.

    `prepare` is called once in a new child: what takes long to import and load. Both must be picklable; so must
    requests and results. `folder` is private; the cage keeps its files in `folder`/cage, which it empties when first
    used. Children start with the first jobs and stay warm while there is work. `courtesy` says how one yields that
    starts now, `room` whether so many bytes of memory are free: without them no second one starts. `close` when done.
    """

    def __init__(
        self,
        work: Callable[[Request], Result],
        slots: Slots,
        folder: str,
        clock: Clock,
        *,
        prepare: Callable[[], None] | None = None,
        limits: CageLimits | None = None,
        courtesy: Callable[[], Courtesy] = Courtesy,
        room: Callable[[int], bool] = lambda _needed: True,
    ) -> None:
        self._limits = limits or CageLimits()
        self._clock = clock
        self._folder = os.path.join(folder, "cage")
        self._room = room
        self._closed = threading.Event()
        # Guards the free slots, the keeper's start, and that nothing is ordered after the end.
        self._changed = threading.Condition()
        self._keeper: threading.Thread | None = None
        self._orders: queue.SimpleQueue[tuple[Callable[[], None], Future[None]] | None] = queue.SimpleQueue()
        self._slots = tuple(
            Slot(
                ChildSettings(
                    work=pickle.dumps(work),
                    prepare=pickle.dumps(prepare) if prepare else None,
                    parent_pid=os.getpid(),
                    threads=slots.threads,
                    gpu=slots.gpus[number] if slots.gpus else None,
                    file_bytes=self._limits.answer_bytes,
                ),
                os.path.join(self._folder, str(number)),
                self._limits,
                clock,
                self._closed,
                courtesy,
            )
            for number in range(slots.count)
        )
        self._free = list(self._slots)

    def run(self, request: Request, time_limit_s: float) -> Result:
        """Do one piece of work and return its result. Blocks, also while every slot is busy; from any thread.

        `time_limit_s` counts from the work's begin; work that learns how much there is to do may set another one by
        `isolated_child.allow`.

        Raises FailFile(TIMEOUT, MEMORY, TOO_COMPLEX), RetryLater(CRASHED) for a child that died over it, RetryLater
        where no child starts or the cage is closed, and whatever KbsyncError the work raised. Any other exception of
        the work is FailFile(CORRUPT), of `prepare` FailFile(MODEL), with the frames as a note.
        """
        slot = self._take()
        try:
            for _ in range(_STARTS):
                try:
                    self._get_ready(slot)
                    answer = slot.work(request, time_limit_s)
                    break
                except NotStarted as error:
                    refused = error
                    slot.drop()
                    log.warning("child_not_started", error=str(error))
            else:
                raise stopping() if self._closed.is_set() else _no_child(request.name, refused)
        finally:
            self._give_back(slot)
        if answer.failure is not None:
            raise answer.failure.error()
        result: Result = answer.result
        return result

    def status(self) -> tuple[SlotStatus, ...]:
        """Return what every slot does now."""
        return tuple(slot.status() for slot in self._slots)

    def step(self) -> None:
        """Let the children go that had nothing to do for long. The keeper calls it."""
        now = self._clock.monotonic()
        with self._changed:
            idle = [slot for slot in self._free if slot.warm and now - slot.idle_since >= self._limits.idle_s]
            self._free = [slot for slot in self._free if slot not in idle]
        for slot in idle:
            try:
                slot.drop()
            finally:
                self._give_back(slot)

    def close(self) -> None:
        """End all children and forget the rest, within a second. Running jobs raise RetryLater. Twice without harm."""
        with self._changed:
            self._closed.set()
            self._changed.notify_all()
            keeper, self._keeper = self._keeper, None
        # The keeper last: the children's parent-death signal hangs on it, and it may be starting one more.
        droppers = [threading.Thread(target=slot.drop, name="cage-close") for slot in self._slots]
        for thread in droppers:
            thread.start()
        for thread in droppers:
            thread.join()
        if keeper is not None:
            self._orders.put(None)
            keeper.join()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _take(self) -> Slot:
        with self._changed:
            while not self._closed.is_set():
                slot = self._choose()
                if slot is not None:
                    self._free.remove(slot)
                    return slot
                self._changed.wait(_ROOM_LOOK_S if self._free else None)
            raise stopping()

    def _choose(self) -> Slot | None:
        """Return a free slot, a warm one first; None where there is none, or no memory for one child more."""
        warm = next((slot for slot in self._free if slot.warm), None)
        if warm is not None or not self._free:
            return warm
        used = [slot for slot in self._slots if slot not in self._free]
        # Those that work have not grown up yet, perhaps.
        grown = self._limits.recycle_bytes
        needed = grown + sum(max(0, grown - slot.status().resident_bytes) for slot in used)
        return self._free[0] if not used or self._room(needed) else None

    def _give_back(self, slot: Slot) -> None:
        with self._changed:
            self._free.append(slot)
            self._changed.notify()

    def _get_ready(self, slot: Slot) -> None:
        unprepared = slot.unprepared_since
        stale = unprepared is not None and self._clock.monotonic() - unprepared > _UNPREPARED_S
        if not stale and slot.usable:
            return
        slot.drop()
        self._order(slot.start)

    # ---- the keeper: a thread that lives as long as the cage, and spawns ----

    def _order(self, work: Callable[[], None]) -> None:
        """Have the keeper do something, and wait for it."""
        done: Future[None] = Future()
        with self._changed:
            if self._closed.is_set():
                raise stopping()
            if self._keeper is None:
                self._make_folder()
                self._keeper = threading.Thread(target=self._keep, name="cage-keeper", daemon=True)
                self._keeper.start()
            self._orders.put((work, done))
        done.result()

    def _keep(self) -> None:
        while True:
            pause = _IDLE_LOOK_S if any(slot.warm for slot in self._slots) else None
            try:
                order = self._orders.get(timeout=pause)
            except queue.Empty:
                try:
                    self.step()
                except Exception:  # the keeper must live: who orders a child waits for it, and the children hang on it
                    log.exception("child_not_let_go")
                continue
            if order is None:
                return
            work, done = order
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - it is the orderer's
                done.set_exception(error)
            else:
                done.set_result(None)

    def _make_folder(self) -> None:
        # What a killed daemon left behind goes.
        shutil.rmtree(self._folder, ignore_errors=True)
        try:
            os.makedirs(self._folder, 0o700, exist_ok=True)
        except OSError as error:
            reason = Reason.NO_SPACE if error.errno in (errno.ENOSPC, errno.EDQUOT) else Reason.IO
            raise StorageUnavailable(reason, f"{self._folder} cannot be made: {error.strerror}.") from error


def _no_child(name: str, error: NotStarted) -> RetryLater:
    return RetryLater(Reason.MODEL, f"{name}: what reads such files does not start: {error}.")
