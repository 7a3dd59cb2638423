"""What runs inside a child process of the cage: it shuts itself in, answers jobs, and never outlives its parent.

Nothing here is called in the parent, except that it reads an `Answer`. Light to import.
"""

from __future__ import annotations

import errno
import os
import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

from kbsync.confinement import Confinement, confine
from kbsync.errors import FailFile, KbsyncError, StorageUnavailable, without_text
from kbsync.reasons import Reason

# What of an error's text and of its frames is worth telling.
_TEXT_CHARACTERS, _FRAMES = 300, 8


@dataclass(frozen=True, slots=True)
class ChildSettings:
    """What a child is given at its start. `work` and `prepare` are pickled callables.

    They are opened only once the child is shut in, so that an import that fails has somebody to tell its reason.
    `file_bytes` is the most it may write into one file; `gpu` the only one it sees, None for all there are; `nice` how
    far it stands back at least.
    """

    work: bytes
    prepare: bytes | None
    parent_pid: int
    threads: int
    gpu: str | None
    file_bytes: int
    nice: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """An error on its way to the parent: ours as they are, others as what they mean for the file."""

    kind: Callable[..., KbsyncError]
    reason: Reason | None
    message: str
    hint: str = ""
    frames: str = ""

    def error(self) -> KbsyncError:
        """Return the error to raise; the child's frames, where it was a surprise, are its note."""
        told = (self.message,) if self.reason is None else (self.reason, self.message)
        error = self.kind(*told, hint=self.hint)
        if self.frames:
            error.add_note(self.frames)
        return error


@dataclass(frozen=True, slots=True)
class Answer:
    """What comes back of one job. `unprepared`: the child could not start its work at all; any job would fail so."""

    result: Any = None
    failure: Failure | None = None
    unprepared: bool = False


class _Child:
    """The state of this process; used by its main thread only."""

    work: Callable[[Any], Any] | None = None
    unprepared: BaseException | None = None
    allowed_path: str | None = None


def allowed_path(started_path: str) -> str:
    """Return where a job that knows better than its parent says how long it may take."""
    return f"{started_path}.allowed"


def allow(seconds: float) -> None:
    """Tell the parent how long the running job may take in all. The work calls it once, or not; outside of a cage it
    does nothing."""
    path, _Child.allowed_path = _Child.allowed_path, None
    if path is not None:
        with _new_file(path) as file:
            file.write(f"{seconds}\n".encode())


def start(settings: ChildSettings) -> None:
    """Shut this process in, then bring in what the work needs. The pool's initializer: it must never raise.

    (A pool whose initializer raises is broken for good and the reason is lost.)
    """
    try:
        confine(
            Confinement(
                settings.parent_pid, settings.threads, settings.nice, settings.gpu, file_bytes=settings.file_bytes
            )
        )
        _Child.work = pickle.loads(settings.work)
        if settings.prepare is not None:
            pickle.loads(settings.prepare)()
    except BaseException as error:  # noqa: BLE001 - told from the first job
        _Child.unprepared = error


def answer(request: Any, started_path: str, answer_path: str) -> None:
    """Do one job: sign that it began, work, leave the answer in its file. Raises OSError where that cannot be written.

    The pool's pipe carries neither result nor error: a large message that is cut off in the middle would block it.
    """
    with _new_file(started_path) as file:
        file.write(str(os.getpid()).encode())
    _Child.allowed_path = allowed_path(started_path)
    answer = _answer(request)
    try:
        _leave(answer_path, answer)
    except Exception as error:  # noqa: BLE001 - too large, no room, not to be pickled: a small answer says so
        os.unlink(answer_path)
        _leave(answer_path, Answer(failure=_meaning(error, request.name)))


def _answer(request: Any) -> Answer:
    if _Child.unprepared is not None or _Child.work is None:
        return Answer(failure=_start_failure(_Child.unprepared, request.name), unprepared=True)
    try:
        return Answer(result=_Child.work(request))
    except BaseException as error:  # noqa: BLE001 - whatever it is, it ends this job, not this process
        return Answer(failure=_meaning(error, request.name))


def _leave(path: str, answer: Answer) -> None:
    with _new_file(path) as file:
        pickle.dump(answer, file, protocol=pickle.HIGHEST_PROTOCOL)


def _new_file(path: str) -> BinaryIO:
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb")


def _meaning(error: BaseException, name: str) -> Failure:
    """Tell what an error of the work means for the file it happened with."""
    if isinstance(error, KbsyncError):
        return Failure(type(error), getattr(error, "reason", None), error.message, error.hint)
    frames = "".join(traceback.format_tb(error.__traceback__)[-_FRAMES:])
    if isinstance(error, MemoryError):
        return Failure(FailFile, Reason.MEMORY, f"{name}: there was not enough memory to read it.", frames=frames)
    if isinstance(error, RecursionError):
        return Failure(FailFile, Reason.TOO_COMPLEX, f"{name}: it is nested too deeply to be read.", frames=frames)
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return Failure(FailFile, Reason.TOO_COMPLEX, f"{name}: what came out of it is too large to be kept.")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        message = f"{name}: the disk is full, it was not read."
        return Failure(StorageUnavailable, Reason.NO_SPACE, message, frames=frames)
    # Whatever a library says of a document may quote it, and this goes into logs.
    message = f"{name}: it could not be read ({without_text(error).rstrip('.')})."
    return Failure(FailFile, Reason.CORRUPT, message, frames=frames)


def _start_failure(error: BaseException | None, name: str) -> Failure:
    if isinstance(error, KbsyncError):
        return _meaning(error, name)
    text = "nothing was started" if error is None else _text(error)
    frames = "" if error is None else "".join(traceback.format_tb(error.__traceback__)[-_FRAMES:])
    return Failure(FailFile, Reason.MODEL, f"{name}: what reads such files does not start: {text}.", frames=frames)


def _text(error: BaseException) -> str:
    text = " ".join(str(error).split())[:_TEXT_CHARACTERS].rstrip(".")
    return f"{text} ({type(error).__name__})" if text else type(error).__name__
