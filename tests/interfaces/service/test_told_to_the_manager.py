"""A whole daemon and what a service manager hears of it, where no real one can be started too."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kbsync.config.locations import locate
from kbsync.daemon.lock import DataLock
from tests.fakes.eventually import eventually
from tests.meta.checkout import ROOT

PATIENCE_S = 60.0


class Manager:
    """The socket of a service manager, and the lines that came."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.lines: list[str] = []

    def heard(self, line: str) -> bool:
        """Say whether such a line came; what is before it and itself are taken away."""
        try:
            while True:
                self.lines += self._listener.recv(4096).decode().split("\n")
        except BlockingIOError:
            pass
        for number, one in enumerate(self.lines):
            if one.startswith(line):
                del self.lines[: number + 1]
                return True
        return False

    def hears(self, line: str) -> None:
        eventually(lambda: self.heard(line), within_s=PATIENCE_S, every_s=0.1)


@contextmanager
def daemon(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Manager]]:
    home = tmp_path / "home"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.interfaces.service.light_daemon", "run", "--service"],
            env={
                **{key: value for key, value in os.environ.items() if not key.startswith("KBSYNC_")},
                "KBSYNC_HOME": str(home),
                "KBSYNC_HTTP__ENABLED": "false",
                "PYTHONPATH": str(ROOT),
                "NOTIFY_SOCKET": str(tmp_path / "notify"),
                "WATCHDOG_USEC": "2000000",
            },
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield process, Manager(listener)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def test_a_manager_hears_of_the_wait_the_start_every_turn_the_reload_and_the_end(tmp_path: Path) -> None:
    """S03: whoever else works on the data is waited for, and nothing is given up."""
    lock = DataLock(locate({"KBSYNC_HOME": str(tmp_path / "home")}).lock_file)
    lock.acquire("daemon")
    try:
        with daemon(tmp_path) as (process, manager):
            manager.hears("STATUS=waiting for another kbsync to end: The daemon (process ")
            manager.hears("EXTEND_TIMEOUT_USEC=")
            assert not manager.heard("READY=1")
            lock.release()
            manager.hears("STATUS=bringing the database to its current form")
            manager.hears("READY=1")
            manager.hears("STATUS=no folder is watched yet")
            manager.hears("WATCHDOG=1")
            manager.hears("WATCHDOG=1")
            process.send_signal(signal.SIGHUP)
            manager.hears("RELOADING=1")
            manager.hears("MONOTONIC_USEC=")
            manager.hears("READY=1")
            process.terminate()
            manager.hears("STOPPING=1")
            assert process.wait(PATIENCE_S) == 0
    finally:
        lock.release()
