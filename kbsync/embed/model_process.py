"""One child process that holds models, seen from the parent: starts it, asks it, and ends it, also in the middle."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from kbsync.confinement import Confinement
from kbsync.courtesy import Courtesy
from kbsync.embed import model_child
from kbsync.embed.model_child import Answer, Question

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

# An answer without rows is small.
_ANSWER_BYTES = 1 << 20
# The kernel ends a killed process at once, except one that hangs in a driver.
_END_S = 2.0


class ProcessDied(Exception):
    """The child is gone; the text says how, to follow on "The process"."""


@dataclass(frozen=True, slots=True)
class ChildTerms:
    """How children that hold models run: what they yield to others, and what share of a GPU's memory they may take.

    `serve` is what runs in them; it must be picklable.
    """

    courtesy: Callable[[], Courtesy] = Courtesy
    gpu_memory_share: float = 1.0
    serve: Callable[[Connection, Confinement], None] = model_child.serve


class ModelProcess:
    """A child that runs `model_child.serve`. One thread asks at a time; any thread may `end` it, once and for all."""

    def __init__(self, terms: ChildTerms) -> None:
        self._terms = terms
        self._asking = threading.Lock()
        self._changing = threading.Lock()
        self._link: Connection | None = None
        self._process: BaseProcess | None = None
        self._exit: Future[int | None] = Future()
        self._ended = False
        self._late = False

    def ask(self, question: Question, limit_s: float, rows_bytes: int = 0) -> Any:
        """Return the answer's result; the first question starts the process. Blocks, at most `limit_s` seconds.

        `rows_bytes`: of the rows that are to come back. Raises KbsyncError as the question did, and ProcessDied where
        no answer comes: the process has ended then, whatever was the matter, and never comes back.
        """
        with self._asking:
            # Native code is not to be interrupted, and a process that is stopped does not even read the question.
            timer = threading.Timer(limit_s, self._end_late)
            timer.daemon = True
            timer.start()
            try:
                link = self._link or self._begin()
                link.send_bytes(pickle.dumps(question, protocol=pickle.HIGHEST_PROTOCOL))
                answer = pickle.loads(link.recv_bytes(_ANSWER_BYTES + rows_bytes))
                if not isinstance(answer, Answer):
                    raise EOFError
            except (OSError, EOFError, pickle.UnpicklingError) as error:
                self._kill()
                raise ProcessDied(self._how(limit_s, error)) from error
            finally:
                timer.cancel()
                if self._ended and self._link is not None:
                    self._link.close()
        if answer.error is not None:
            raise answer.error
        return answer.result

    def end(self) -> None:
        """Kill it. Returns when it is gone; without harm where it never was."""
        self._kill()
        if self._asking.acquire(blocking=False):  # else who asks closes it
            try:
                if self._link is not None:
                    self._link.close()
            finally:
                self._asking.release()

    def _begin(self) -> Connection:
        begun: Future[None] = Future()
        link, theirs = multiprocessing.get_context("spawn").Pipe()
        self._link = link
        # The kernel's parent-death signal comes when the *thread* ends that started a process: this one lives as long.
        threading.Thread(target=self._keep, args=(theirs, begun), name="model-process", daemon=True).start()
        begun.result()
        return link

    def _keep(self, theirs: Connection, begun: Future[None]) -> None:
        courtesy = self._terms.courtesy()
        confinement = Confinement(os.getpid(), courtesy.threads, courtesy.nice)
        process = multiprocessing.get_context("spawn").Process(
            target=self._terms.serve, args=(theirs, confinement), name="kbsync-model", daemon=True
        )
        try:
            with self._changing:
                if self._ended:
                    raise EOFError
                process.start()
                self._process = process
        except BaseException as error:  # noqa: BLE001 - it is who asked that is told
            self._exit.set_result(None)
            begun.set_exception(error if isinstance(error, OSError | EOFError) else OSError(str(error)))
            return
        finally:
            theirs.close()
        begun.set_result(None)
        process.join()
        self._exit.set_result(process.exitcode)

    def _end_late(self) -> None:
        self._late = True
        self._kill()

    def _kill(self) -> None:
        with self._changing:
            self._ended = True
            process = self._process
        if process is not None:
            process.kill()
            try:
                self._exit.result(_END_S)
            except FutureTimeout:
                pass  # it hangs in the kernel, where nobody reaches it

    def _how(self, limit_s: float, error: Exception) -> str:
        if self._late:
            return f"gave no answer within {limit_s:g} seconds and was ended"
        if self._process is None:
            return f"did not start: {error}"
        if isinstance(error, pickle.UnpicklingError) or (type(error) is OSError and error.errno is None):
            return "gave an answer that is none and was ended"  # too long, among others
        code = self._exit.result() if self._exit.done() else None
        if code is None or code >= 0:
            return "ended without an answer"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"was ended by {name}"
