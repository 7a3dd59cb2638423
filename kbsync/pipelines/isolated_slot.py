"""One place for one child process, seen from the parent: starts it, gives it jobs, watches and ends it."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, Protocol

import structlog

from kbsync import machine
from kbsync.clock import Clock
from kbsync.courtesy import Courtesy
from kbsync.errors import FailFile, RetryLater, StorageUnavailable
from kbsync.pipelines import isolated_child
from kbsync.pipelines.isolated_child import Answer, ChildSettings
from kbsync.reasons import Reason

if TYPE_CHECKING:
    import psutil

log = structlog.stdlib.get_logger(__name__)

GIGABYTE = 1 << 30
# So often a job's child is looked at. A child fills about 200 MB of memory in that time.
_LOOK_S = 0.1
# A child that is gone without an answer is given so long: its answer may still be on the way.
_LATE_ANSWER_S = 1.0
# Of what a job waits for the CPU that others have, so many times its time limit does not count.
_MOST_WAITED = 4.0
# pebble asks with SIGTERM first, which native code does not hear; its own 3 s would make every stop slow.
_TERM_S = 0.3


class Named(Protocol):
    """Any request: `name` is the file as the user calls it, for messages."""

    @property
    def name(self) -> str: ...


class NotStarted(Exception):
    """The child never began the job, so the job is not to blame: it is given to another child."""


@dataclass(frozen=True, slots=True)
class CageLimits:
    """When a child is ended. Bytes of resident memory, bytes of an answer, seconds.

    Over `memory_bytes` its job fails; over `recycle_bytes` after a job, or idle for `idle_s`, it just goes.
    `start_s` is for importing and loading models, which no job's time limit counts.
    """

    memory_bytes: int = 3 * GIGABYTE
    recycle_bytes: int = 5 * GIGABYTE // 2
    answer_bytes: int = 512 << 20
    idle_s: float = 300.0
    start_s: float = 600.0


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """What a slot does now. `file` and `seconds` of the running job; `peak_bytes` of all its children, as watched."""

    state: Literal["none", "idle", "busy"]
    pid: int | None
    file: str | None
    seconds: float | None
    resident_bytes: int
    peak_bytes: int


class _Pool(Protocol):
    """What is used of pebble.ProcessPool."""

    @property
    def active(self) -> bool: ...
    def schedule(self, function: Callable[..., None], args: Iterable[Any]) -> Future[None]: ...
    def stop(self) -> object: ...
    def join(self) -> object: ...


class Slot:
    """Holds one pool of one worker: a broken pool takes nobody with it. One thread at a time runs a job in it.

    `stem` begins the path of its files. `drop` and `status` may be called from any thread. Whatever happened to a
    child, its pool is never mended but dropped whole.
    """

    def __init__(
        self,
        settings: ChildSettings,
        stem: str,
        limits: CageLimits,
        clock: Clock,
        closed: threading.Event,
        courtesy: Callable[[], Courtesy],
    ) -> None:
        self._settings = settings
        self._stem = stem
        self._limits = limits
        self._clock = clock
        self._closed = closed
        self._courtesy = courtesy
        self._lock = threading.Lock()
        self._ending = threading.Lock()
        self._pool: _Pool | None = None
        self._child: psutil.Process | None = None
        self._jobs = count()
        self._running: tuple[str, float] | None = None
        self._peak = 0
        self.idle_since = 0.0
        self.unprepared_since: float | None = None

    @property
    def warm(self) -> bool:
        """Return whether there is a pool, broken or not."""
        return self._pool is not None

    @property
    def usable(self) -> bool:
        """Return whether a job can be given to it without a new start."""
        pool = self._pool
        return pool is not None and pool.active

    def start(self) -> None:
        """Spawn a child and return without waiting for it. Raises NotStarted where the system refuses, RetryLater
        once the cage is closed.

        Only to be called from a thread that outlives the child: the kernel's parent-death signal comes when the
        *thread* that spawned it ends.
        """
        import pebble

        pebble.CONSTS.term_timeout = _TERM_S
        pool: _Pool = pebble.ProcessPool(
            max_workers=1,
            initializer=isolated_child.start,
            initargs=(replace(self._settings, nice=self._courtesy().nice),),
            context=multiprocessing.get_context("spawn"),
        )
        with self._lock:
            if self._closed.is_set():
                raise stopping()
            self._pool = pool  # from here on `drop` ends it, also in the middle of its start
        self.unprepared_since = None
        try:
            started = pool.active  # asking starts it
        except (BrokenProcessPool, OSError) as error:
            raise NotStarted(str(error.__cause__ or error)) from error
        if not started and not self._closed.is_set():
            raise NotStarted("its process pool did not start")

    def drop(self) -> None:
        """End the child and its pool, busy or not; blocks some tenths of a second. Without harm where there is none.

        When it returns the child is gone, whoever ended it.
        """
        with self._ending:
            with self._lock:
                pool, self._pool = self._pool, None
                child, self._child = self._child, None
            if pool is None:
                return
            pool.stop()
            if child is not None:
                _kill(child)
            pool.join()

    def work(self, request: Named, time_limit_s: float) -> Answer:
        """Give the child one job and wait for its answer, watching.

        Raises NotStarted, FailFile(TIMEOUT, MEMORY) and RetryLater (the child died, the cage was closed, disk full).
        """
        stem = f"{self._stem}-{next(self._jobs)}"
        signed, answered = f"{stem}.started", f"{stem}.answer"
        self._running = request.name, self._clock.monotonic()
        try:
            self._do(request, time_limit_s, signed, answered)
            answer = self._read(answered, request.name)
            if answer.unprepared:
                self.unprepared_since = self.unprepared_since or self._clock.monotonic()
            if self._resident() > self._limits.recycle_bytes:
                log.info("child_recycled", bytes=self._resident())
                self.drop()
            return answer
        except BaseException:
            self.drop()  # what is left in it, or of it, is not trusted with another job
            raise
        finally:
            self._running = None
            self.idle_since = self._clock.monotonic()
            for path in (signed, isolated_child.allowed_path(signed), answered):
                try:
                    os.unlink(path)
                except OSError:
                    pass  # it was never there, or its disk is read-only now: the next start removes the whole folder

    def status(self) -> SlotStatus:
        """Return what it does now; from any thread."""
        running, child, warm = self._running, self._child, self.warm
        return SlotStatus(
            state="busy" if running else "idle" if warm else "none",
            pid=child.pid if child else None,
            file=running[0] if running else None,
            seconds=self._clock.monotonic() - running[1] if running else None,
            resident_bytes=_resident(child) if child else 0,
            peak_bytes=self._peak,
        )

    def _do(self, request: Named, time_limit_s: float, signed: str, answered: str) -> None:
        import pebble

        pool = self._pool
        if pool is None:
            raise NotStarted("it was ended")
        try:
            # Without pebble's own time limit: that reads the wall clock, which jumps.
            future = pool.schedule(isolated_child.answer, args=(request, signed, answered))
        except RuntimeError as error:  # its idle worker died: such a pool is broken for good
            raise NotStarted(str(error)) from error
        self._watch(future, request.name, time_limit_s, signed)
        came = future.exception()
        if isinstance(came, pebble.ProcessExpired | BrokenProcessPool):
            # Broken also where the child dies so early that pebble has not yet heard that it began.
            if not os.path.exists(signed):
                raise NotStarted("its process died at the start") from came
            raise _died(request.name, getattr(came, "exitcode", None))
        if isinstance(came, OSError):
            reason = Reason.NO_SPACE if came.errno in (errno.ENOSPC, errno.EDQUOT) else Reason.IO
            raise StorageUnavailable(
                reason,
                f"What came out of {request.name} could not be written to {os.path.dirname(signed)}: {came.strerror}.",
                hint="Free some space, or have the disk checked.",
            )
        if came is not None:
            raise came

    def _watch(self, future: Future[None], name: str, time_limit_s: float, signed: str) -> None:
        """Return when the pool has an outcome, or raise what ended the job before."""
        deadline, begun, limited, waited = self._clock.monotonic() + self._limits.start_s, False, False, 0.0
        while not wait((future,), _LOOK_S).done:
            if self._closed.is_set():
                raise stopping()
            if not begun and self._signed(signed):
                begun, deadline = True, self._clock.monotonic() + time_limit_s
                waited = self._waited_for_cpu()
            if begun and not limited and (allowed := _allowed(signed)) is not None:
                limited, deadline, time_limit_s = True, deadline - time_limit_s + allowed, allowed
            late = self._clock.monotonic() - deadline
            if late > 0 and (not begun or is_over(late, self._waited_for_cpu() - waited, time_limit_s)):
                if not begun:
                    raise NotStarted(f"its process was not ready after {self._limits.start_s:g} seconds")
                raise FailFile(Reason.TIMEOUT, f"{name}: reading it took longer than {time_limit_s:g} seconds.")
            if begun and self._resident() > self._limits.memory_bytes:
                gigabytes = self._limits.memory_bytes / GIGABYTE
                raise FailFile(Reason.MEMORY, f"{name}: reading it took more than {gigabytes:.2g} GB of memory.")
            # pebble does not tell the end of a child that left with exit code 0.
            if begun and not self._alive() and not wait((future,), _LATE_ANSWER_S).done:
                raise _died(name, 0)
        self._signed(signed)
        self._resident()

    def _signed(self, path: str) -> bool:
        """Return whether the child has begun the job, and learn which process it is."""
        import psutil

        try:
            with open(path, "rb") as file:
                child = psutil.Process(int(file.read(20)))
                ours = child.ppid() == os.getpid()
        except (FileNotFoundError, ValueError):  # not there, or just being written
            return False
        except psutil.Error:  # began and died
            return True
        if ours and (self._child is None or self._child.pid != child.pid):
            self._child = child
        return True

    def _waited_for_cpu(self) -> float:
        child = self._child
        return 0.0 if child is None else machine.waited_for_cpu(child.pid)

    def _alive(self) -> bool:
        import psutil

        child = self._child
        try:
            return child is not None and child.is_running() and child.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def _resident(self) -> int:
        child = self._child
        resident = _resident(child) if child else 0
        self._peak = max(self._peak, resident)
        return resident

    def _read(self, path: str, name: str) -> Answer:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with open(descriptor, "rb") as file:
            if os.fstat(descriptor).st_size > self._limits.answer_bytes:
                raise FailFile(Reason.TOO_COMPLEX, f"{name}: what came out of it is too large to be kept.")
            answer = pickle.load(file)
        if not isinstance(answer, Answer):
            raise _died(name, None)
        return answer


def _allowed(signed: str) -> float | None:
    """Return the seconds that the job itself says it may take, None as long as it says nothing."""
    try:
        with open(isolated_child.allowed_path(signed), encoding="ascii") as file:
            told = file.read(40)
    except FileNotFoundError:
        return None
    return float(told) if told.endswith("\n") else None  # it may be just being written


def is_over(late_s: float, waited_s: float, time_limit_s: float) -> bool:
    """Decide whether a job that is late by so many seconds is ended. Of them it `waited_s` for the CPU.

    A child yields to everybody: on a busy machine it is no fault of its document that it takes long.
    """
    return late_s > min(max(0.0, waited_s), _MOST_WAITED * time_limit_s)


def stopping() -> RetryLater:
    """Return the error of a job that cannot go on because the cage is closed."""
    return RetryLater(Reason.RETRY, "kbsync is stopping.")


def _died(name: str, exit_code: int | None) -> RetryLater:
    how = "ended without an answer"
    if exit_code is not None and exit_code < 0:
        try:
            how = f"was ended by {signal.Signals(-exit_code).name}"
        except ValueError:
            how = f"was ended by signal {-exit_code}"
    elif exit_code:
        how = f"ended with exit code {exit_code}"
    return RetryLater(Reason.CRASHED, f"{name}: the process that read it {how}.")


def _kill(child: psutil.Process) -> None:
    import psutil

    try:
        child.kill()  # looks first whether the pid is still that process
    except psutil.Error:
        pass  # gone already


def _resident(child: psutil.Process) -> int:
    import psutil

    try:
        return int(child.memory_info().rss)
    except psutil.Error:
        return 0
