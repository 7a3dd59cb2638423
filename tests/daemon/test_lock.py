"""One process works on a data folder: the lock holds between processes, names its owner, and dies with it."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbsync.daemon.lock import DataLock, Owner, named_in, owner_of
from kbsync.errors import EngineBusy, StopEngine

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
    """P14: one process works on a data folder."""
    with _held(path, "daemon", "/run/kb.sock") as process:
        assert owner_of(str(path)) == Owner(process.pid, "daemon", "/run/kb.sock")
        with pytest.raises(EngineBusy, match=f"daemon .process {process.pid}."):
            DataLock(str(path)).acquire("command")


def test_a_lock_is_free_as_soon_as_its_process_was_killed(path: Path) -> None:
    """P14: whatever process number its file still names."""
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
        assert path.read_bytes() == b"\n", "it names nobody, and keeps its room on the disk"
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


# ---- a lock file that somebody removes or replaces ----


def _removed(path: Path) -> None:
    path.unlink()


def _replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_text("{}")
    other.replace(path)


@pytest.mark.parametrize("meddle", [_removed, _replaced])
def test_a_lock_file_that_was_meddled_with_lets_nobody_in(path: Path, meddle: Callable[[Path], None]) -> None:
    """P14: the folder is locked too; a second daemon would write into the first one's database."""
    with _held(path, "daemon", "/run/kb.sock"):
        meddle(path)
        with pytest.raises(EngineBusy, match=str(path.parent)):
            DataLock(str(path)).acquire("command")


@pytest.mark.parametrize("meddle", [_removed, _replaced])
def test_the_holder_puts_a_lock_file_back_that_was_meddled_with(path: Path, meddle: Callable[[Path], None]) -> None:
    """P14: else no command would find the daemon any more."""
    lock = DataLock(str(path))
    lock.acquire("daemon")
    lock.publish("daemon", "/run/kb.sock")
    meddle(path)
    assert owner_of(str(path)) is None
    lock.keep()
    assert owner_of(str(path)) == Owner(os.getpid(), "daemon", "/run/kb.sock")
    lock.publish("daemon", None)
    lock.keep()
    assert owner_of(str(path)) == Owner(os.getpid(), "daemon", None)
    lock.release()
    lock.keep()
    assert owner_of(str(path)) is None
    lock.acquire("command")
    lock.release()


def test_a_lock_file_that_cannot_be_put_back_now_is_put_back_later(path: Path) -> None:
    """P14: a folder in its place, or somebody who looks at it in that moment, is no reason to end."""
    lock = DataLock(str(path))
    lock.acquire("daemon")
    path.unlink()
    path.mkdir()
    lock.keep()
    path.rmdir()
    lock.keep()
    assert owner_of(str(path)) == Owner(os.getpid(), "daemon", None)
    lock.release()


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_disk_that_cannot_lock_is_told_and_not_used(path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """P14: some network disks; without a lock nothing keeps two programs apart."""

    def flock(_descriptor: int, _operation: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", flock)
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(StopEngine, match="cannot be locked") as caught:
        DataLock(str(path)).acquire("daemon")
    assert "KBSYNC_HOME" in caught.value.hint
    assert len(os.listdir("/dev/fd")) == before


def test_a_disk_that_locks_files_only_is_good_enough(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P14: NFS locks no folders."""
    real = fcntl.flock

    def flock(descriptor: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    lock = DataLock(str(path))
    lock.acquire("daemon")
    with pytest.raises(EngineBusy):
        DataLock(str(path)).acquire("command")
    lock.release()


def test_another_folder_in_the_place_of_ours_ends_the_holder_and_one_that_is_back_does_not(path: Path) -> None:
    """P14: a data folder that was moved away, and what the next start makes there, are never worked on by one."""
    lock = DataLock(str(path))
    lock.acquire("daemon")
    away = path.parent.with_name("away")
    path.parent.rename(away)
    lock.keep()
    away.rename(path.parent)
    lock.keep()
    assert owner_of(str(path)) == Owner(os.getpid(), "daemon", None)
    path.parent.rename(away)
    path.parent.mkdir()
    with pytest.raises(StopEngine, match="moved away"):
        lock.keep()
    lock.release()


def test_data_of_another_user_are_told_as_such(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_arguments: object, **_more: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", forbidden)
        with pytest.raises(StopEngine, match="another user's"):
            owner_of(str(path))


def test_a_file_on_the_way_to_the_lock_is_told(tmp_path: Path) -> None:
    """As where HOME is /dev/null."""
    (tmp_path / "data").touch()
    with pytest.raises(StopEngine, match="Not a directory"):
        owner_of(str(tmp_path / "data" / "kb.lock"))


def test_a_pipe_in_place_of_the_lock_is_told_and_not_waited_for(path: Path) -> None:
    path.parent.mkdir()
    os.mkfifo(path)
    with pytest.raises(StopEngine, match="is no file"):
        owner_of(str(path))
    assert named_in(str(path)) is None
    with pytest.raises(StopEngine, match="is no file"):
        DataLock(str(path)).acquire("command")


def test_what_a_start_does_is_read_whole_whatever_was_there_before(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader between the two steps of writing would take the daemon for a command."""
    lock, seen, truncate = DataLock(str(path)), [], os.ftruncate
    lock.acquire("daemon")

    def looked_at(descriptor: int, length: int) -> None:
        seen.append(owner_of(str(path)))
        truncate(descriptor, length)

    try:
        lock.publish("daemon", None, "doing that, which takes long to say", 1.0)
        monkeypatch.setattr(os, "ftruncate", looked_at)
        lock.publish("daemon", None, "doing this", 2.0)
    finally:
        monkeypatch.undo()
        lock.release()
    assert seen == [Owner(os.getpid(), "daemon", None, "doing this", 2.0)]
