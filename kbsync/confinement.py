"""How a child process shuts itself in: it ends with its parent, is silent, knows little, and reaches no network.

For processes whose work is native code over other people's files: it may crash, hang or take all memory.
"""

from __future__ import annotations

import ctypes
import errno
import multiprocessing
import os
import resource
import signal
import sys
import threading
from dataclasses import dataclass
from multiprocessing import connection
from typing import Any

from kbsync.courtesy import Courtesy, yield_to_others

_PR_SET_PDEATHSIG = 1

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
    *("HF_", "TORCH", "PYTORCH", "DOCLING_", "ORT_"),
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
class Confinement:
    """How one child is shut in. `nice`: at least so far it stands back, see `courtesy`.

    `threads`: how many compute at once in it, None for as many as its libraries choose.
    `file_bytes` is the most it may write into one file, None for any; `gpu` the only one it sees, None for all there
    are.
    """

    parent_pid: int
    threads: int | None
    nice: int
    gpu: str | None = None
    file_bytes: int | None = None


def confine(confinement: Confinement) -> None:
    """Shut this process in, for the rest of its life. Call it before anything heavy is imported."""
    # First of all: a parent that dies now must not leave this process behind.
    _die_with_parent(confinement.parent_pid)
    # The handler of whoever started it is Python and waits for native code to return; the system's ends it at once.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _silence()
    _clean_environment(confinement)
    os.umask(0o077)
    # The folder that the parent was started in may be on a disk that somebody wants to take away.
    os.chdir(os.sep)
    _yield_to_others(confinement.nice)
    # A core file would hold the document; a file above the limit is refused by the kernel (EFBIG).
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if confinement.file_bytes is not None:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        wanted = confinement.file_bytes if hard == resource.RLIM_INFINITY else min(confinement.file_bytes, hard)
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


def _clean_environment(confinement: Confinement) -> None:
    for name in list(os.environ):
        kept = name in _KEPT or name.startswith(_KEPT_BEGINNINGS)
        if not kept or any(word in name.upper() for word in _SECRET_WORDS):
            del os.environ[name]
    os.environ.update(_OFFLINE)
    # By default a thread that waits for the others keeps its core busy: beside other programs a small batch took seven
    # times as long with that, and six times the processor.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if confinement.threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(confinement.threads)
    if confinement.gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = confinement.gpu


def _yield_to_others(nice: int) -> None:
    """Let the user's programs and our own search go first, and be what the kernel ends when memory runs out."""
    yield_to_others(Courtesy(nice))  # the I/O class comes from its parent
    try:
        if sys.platform == "linux":
            with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
                file.write("1000")
    except OSError:
        pass  # a wish: some containers forbid it


def _refuse_network(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _NETWORK_EVENTS:
        raise PermissionError(errno.EPERM, "documents are read offline: no network in this process")
