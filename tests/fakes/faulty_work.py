"""Work for the cage that goes wrong in every planted way. Light to import: a child does it at its start."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass

from kbsync.errors import FailFile
from kbsync.pipelines.isolated_child import allow
from kbsync.reasons import Reason

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Order:
    """What to do, to a file of that name."""

    name: str
    deed: str = "good"
    number: int = 0


@dataclass(frozen=True, slots=True)
class Inside:
    """What a child sees of the world."""

    pid: int
    descriptors: Mapping[int, str]
    environment: Mapping[str, str]
    nice: int
    folder: str
    umask: int
    oom_score_adj: int
    refused: tuple[str, ...]


def work(order: Order) -> object:
    """Do the deed. A good one returns the number of the order and the pid of the child."""
    match order.deed:
        case "raise":
            raise ValueError("a page\n without end")
        case "raise_ours":
            raise FailFile(Reason.PASSWORD_REQUIRED, f"{order.name} is locked.", hint="Give the password.")
        case "recurse":
            return work(order)
        case "allow_and_hang":
            allow(order.number / 10)
            allow(1_000_000)  # once is all
            _hang()
        case "allow_and_rest":
            allow(60)
            time.sleep(order.number / 10)
        case "hang":
            _hang()
        case "segfault":
            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(0)
        case "exit_7":
            os._exit(7)
        case "close_all":
            os.closerange(0, 256)
        case "junk":
            os.write(1, b"\x80\x04junk" * 100_000)
            sys.stderr.write("junk" * 100_000)
        case "large":
            return b"x" * (300 * MEGABYTE)
        case "grow":
            _grow(2_000)
        case "burst":
            _fat.append(bytearray(b"x") * (20 << 30))
        case "fat":
            _fat.append(bytearray(os.urandom(MEGABYTE) * 250))
        case "unpicklable":
            return lambda: None
        case "slow":
            time.sleep(60)
        case "look":
            return _look()
    return order.number, os.getpid()


_fat: list[bytearray] = []


def not_ready() -> None:
    """Prepare, in vain, as where a system library is missing."""
    raise ImportError("libGL.so.1: cannot open shared object file")


def not_ready_ours() -> None:
    """Prepare, in vain, with a reason of our own."""
    raise FailFile(Reason.MODEL, "cv2 is broken.", hint="Install it again.")


def starts_slowly() -> None:
    """Prepare for longer than the jobs take."""
    time.sleep(1)


def dies_at_start() -> None:
    """Prepare, and die of it."""
    os.kill(os.getpid(), signal.SIGKILL)


def _hang() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # PyDLL keeps the GIL: no Python runs in this process any more, in no thread.
    ctypes.PyDLL(None).sleep(1_000)


def _grow(megabytes: int) -> None:
    for _ in range(megabytes // 20):
        _fat.append(bytearray(b"x" * (20 * MEGABYTE)))
        time.sleep(0.02)
    time.sleep(60)


def _look() -> Inside:
    descriptors = {}
    for entry in os.listdir("/proc/self/fd"):
        try:
            descriptors[int(entry)] = os.readlink(f"/proc/self/fd/{entry}")
        except FileNotFoundError:
            pass  # the one of this listing
    umask = os.umask(0o077)
    with open("/proc/self/oom_score_adj", encoding="ascii") as file:
        score = int(file.read())
    return Inside(os.getpid(), descriptors, dict(os.environ), os.nice(0), os.getcwd(), umask, score, _refused())


def _refused() -> tuple[str, ...]:
    refused = []
    for name, attempt in (
        ("connect", lambda: socket.create_connection(("127.0.0.1", 9), timeout=1)),
        ("resolve", lambda: socket.getaddrinfo("localhost", 80)),
        ("send", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))),
    ):
        try:
            attempt()
        except PermissionError:
            refused.append(name)
        except OSError:
            pass
    return tuple(refused)
