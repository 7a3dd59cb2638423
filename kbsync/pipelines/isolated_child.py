"""What runs inside a child process of the cage: it shuts itself in, answers jobs, and never outlives its parent.

Nothing here is called in the parent, except that it reads an `Answer`. Light to import.
"""

from __future__ import annotations

import ctypes
import errno
import multiprocessing
import os
import pickle
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import connection
from typing import Any, BinaryIO

from kbsync.errors import FailFile, KbsyncError, StorageUnavailable
from kbsync.reasons import Reason

# A third of what others get. With a tenth (10), a busy machine needs longer than the time limits allow.
_NICE = 5
_PR_SET_PDEATHSIG = 1
# What of an error's text and of its frames is worth telling.
_TEXT_CHARACTERS, _FRAMES = 300, 8

# What a child may know of its parent's environment: where things are, how to speak, how to compute. All else goes.
_KEPT = frozenset(
    (
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "TMPDIR",
        "TMP",
        "TEMP",
        "TZ",
        "LANG",
        "LANGUAGE",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
    )
)
_KEPT_BEGINNINGS = (
    *("LC_", "LD_", "DYLD_", "PYTHON", "XDG_CACHE", "XDG_CONFIG", "XDG_DATA"),
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "CUDA", "NVIDIA_", "HIP_", "ROCR_"),
    *("HF_", "TORCH", "DOCLING_", "ORT_"),
)
_SECRET_WORDS = ("TOKEN", "SECRET", "PASS", "KEY", "CREDENTIAL", "AUTH")
# The models are on the disk; a library that asks the network anyway would wait for it. onnxruntime keeps a diary of its
# processes to be sent to its maker, from its very import.
_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "ORT_DISABLE_TELEMETRY": "1",
}
_NETWORK_EVENTS = frozenset(
    f"socket.{event}"
    for event in (
        *("connect", "bind", "sendto", "sendmsg"),
        *("getaddrinfo", "gethostbyname", "gethostbyaddr", "getnameinfo"),
    )
)


@dataclass(frozen=True, slots=True)
class ChildSettings:
    """What a child is given at its start. `work` and `prepare` are pickled callables.

    They are opened only once the child is shut in, so that an import that fails has somebody to tell its reason.
    `file_bytes` is the most it may write into one file; `gpu` the only one it sees, None for all there are.
    """

    work: bytes
    prepare: bytes | None
    parent_pid: int
    threads: int
    gpu: str | None
    file_bytes: int


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
        _shut_in(settings)
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
    return Failure(FailFile, Reason.CORRUPT, f"{name}: it could not be read: {_text(error)}.", frames=frames)


def _start_failure(error: BaseException | None, name: str) -> Failure:
    if isinstance(error, KbsyncError):
        return _meaning(error, name)
    text = "nothing was started" if error is None else _text(error)
    frames = "" if error is None else "".join(traceback.format_tb(error.__traceback__)[-_FRAMES:])
    return Failure(FailFile, Reason.MODEL, f"{name}: what reads such files does not start: {text}.", frames=frames)


def _text(error: BaseException) -> str:
    text = " ".join(str(error).split())[:_TEXT_CHARACTERS].rstrip(".")
    return f"{text} ({type(error).__name__})" if text else type(error).__name__


# ---- shutting in ----


def _shut_in(settings: ChildSettings) -> None:
    # First of all: a parent that dies now must not leave this process behind.
    _die_with_parent(settings.parent_pid)
    # The pool's own handler is Python and waits for native code to return; the system's ends the process at once.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _silence()
    _clean_environment(settings)
    os.umask(0o077)
    # The folder that the parent was started in may be on a disk that somebody wants to take away.
    os.chdir(os.sep)
    _yield_to_others()
    # A core file would hold the document; a file above the limit is refused by the kernel (EFBIG).
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    wanted = settings.file_bytes if hard == resource.RLIM_INFINITY else min(settings.file_bytes, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (wanted, hard))
    # A hook cannot be taken off again. It rules Python; native code could still open a socket of its own.
    sys.addaudithook(_refuse_network)


def _die_with_parent(parent_pid: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent_pid:  # it died before the signal was ordered
            os._exit(1)
    # Everywhere else, and as a second line. Only the kernel's signal reaches native code that holds the GIL.
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), name="parent-watch", daemon=True).start()


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)


def _silence() -> None:
    """Take the terminal or log of the parent away: libraries print to it, and what they print may be the document."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    if nothing > 2:
        os.close(nothing)


def _clean_environment(settings: ChildSettings) -> None:
    for name in list(os.environ):
        kept = name in _KEPT or name.startswith(_KEPT_BEGINNINGS)
        if not kept or any(word in name.upper() for word in _SECRET_WORDS):
            del os.environ[name]
    os.environ.update(_OFFLINE)
    os.environ["OMP_NUM_THREADS"] = str(settings.threads)
    if settings.gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = settings.gpu


def _yield_to_others() -> None:
    """Let the user's programs and our own search go first, and be what the kernel ends when memory runs out."""
    try:
        os.nice(_NICE)
        if sys.platform == "linux":
            with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
                file.write("1000")
    except OSError:
        pass  # a wish: some containers forbid it


def _refuse_network(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _NETWORK_EVENTS:
        raise PermissionError(errno.EPERM, "documents are read offline: no network in this process")
