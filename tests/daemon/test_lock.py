"""One process works on a data folder: the lock holds between processes, names its owner, and dies with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbsync.daemon.lock import DataLock, Owner, owner_of
from kbsync.errors import EngineBusy

_HOLD = """
import sys
from kbsync.daemon.lock import DataLock
lock = DataLock(sys.argv[1])
lock.acquire(sys.argv[2])
if sys.argv[3]:
    lock.publish(sys.argv[2], sys.argv[3])
print("held", flush=True)
sys.stdin.readline()
lock.release()
print("released", flush=True)
sys.stdin.readline()
"""


@contextmanager
def _held(path: Path, role: str = "daemon", socket: str = "") -> Iterator[subprocess.Popen[str]]:
    """Yield another process that holds the lock; a line to it makes it release, another one end."""
    command = [sys.executable, "-c", _HOLD, str(path), role, socket]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "kb.lock"


def test_a_second_process_is_refused_and_told_who_holds_the_lock(path: Path) -> None:
    with _held(path, "daemon", "/run/kb.sock") as process:
        assert owner_of(str(path)) == Owner(process.pid, "daemon", "/run/kb.sock")
        with pytest.raises(EngineBusy, match=f"daemon .process {process.pid}."):
            DataLock(str(path)).acquire("command")


def test_a_lock_is_free_as_soon_as_its_process_was_killed(path: Path) -> None:
    with _held(path, "daemon", "/run/kb.sock") as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert path.read_text(encoding="utf-8") != "", "what it wrote is still there"
        assert owner_of(str(path)) is None
        lock = DataLock(str(path))
        lock.acquire("command")
        try:
            assert owner_of(str(path)) == Owner(os.getpid(), "command", None)
        finally:
            lock.release()


def test_a_released_lock_is_free_and_names_nobody(path: Path) -> None:
    with _held(path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "released\n"
        assert owner_of(str(path)) is None
        assert path.read_bytes() == b""
        lock = DataLock(str(path))
        lock.acquire("daemon")
        lock.release()
        lock.release()


def test_a_command_is_waited_for(path: Path) -> None:
    with _held(path, "command") as process:
        lock = DataLock(str(path))
        begun = time.monotonic()
        with pytest.raises(EngineBusy, match="command"):
            lock.acquire("daemon", wait_s=0.3)
        assert time.monotonic() - begun >= 0.3
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        lock.acquire("daemon", wait_s=20)
        lock.release()


def test_a_running_daemon_is_not_waited_for(path: Path) -> None:
    with _held(path, "daemon", "/run/kb.sock"):
        begun = time.monotonic()
        with pytest.raises(EngineBusy):
            DataLock(str(path)).acquire("command", wait_s=60)
        assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"pid": "x"}', b"\xff\xfe", b'{"pid": 1, "role": "daemon", "socket": "/old"}' + b" " * 4000],
)
def test_what_an_earlier_process_left_in_the_file_means_nothing(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    assert owner_of(str(path)) is None
    lock = DataLock(str(path))
    lock.acquire("daemon")
    try:
        lock.publish("daemon", "/run/new.sock")
        assert owner_of(str(path)) == Owner(os.getpid(), "daemon", "/run/new.sock")
    finally:
        lock.release()


def test_the_lock_is_private_and_never_a_link(path: Path, tmp_path: Path) -> None:
    lock = DataLock(str(path))
    lock.acquire("command")
    lock.release()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.unlink()
    target = tmp_path / "precious"
    target.write_text("precious", encoding="utf-8")
    path.symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        DataLock(str(path)).acquire("command")
    assert target.read_text(encoding="utf-8") == "precious"


def test_only_the_holder_publishes(path: Path) -> None:
    with pytest.raises(ValueError, match="not held"):
        DataLock(str(path)).publish("daemon", None)


def test_a_lock_that_nobody_ever_took_has_no_owner(path: Path) -> None:
    assert owner_of(str(path)) is None
