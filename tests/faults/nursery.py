"""Begins real daemons in no time, signals and kills them, and tells what they leave behind."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType

import psutil

from kbsync.config.locations import Locations, locate
from kbsync.daemon.lock import owner_of
from kbsync.interfaces.cli.client import Client
from tests.fakes.eventually import eventually
from tests.meta.checkout import ROOT

# A loaded machine may take this long for what takes tenths of a second.
PATIENCE_S = 60.0


def lives(process: psutil.Process) -> bool:
    """Say whether a process runs. One that is dead and not yet fetched by whoever adopted it does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _is_shut_in(process: psutil.Process) -> bool:
    """Say whether a child of the cage is ready: the system is to end it first where memory runs out."""
    try:
        with open(f"/proc/{process.pid}/oom_score_adj", encoding="ascii") as file:
            return int(file.read()) == 1000
    except OSError:  # it has ended
        return False


class Nursery:
    """Holds the process that forks daemons, and at most one daemon at a time. One thread uses it.

    `forks` counts how often a daemon that had threads forked.
    """

    def __init__(self) -> None:
        self.forks = 0
        self.pid = 0
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._offspring: dict[int, psutil.Process] = {}
        self._has_ended = threading.Event()

    def __enter__(self) -> Nursery:
        # One thread in its libraries of arithmetic: where there are more, no fork is safe.
        single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        kept = {key: value for key, value in os.environ.items() if not key.startswith("KBSYNC_")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.forked_daemon"],
            cwd=ROOT,
            env={**kept, **single, "PYTHONUTF8": "1", "KBSYNC_HTTP__ENABLED": "false"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()

    def begin(self, home: Path, trouble: str = "") -> None:
        """Have a daemon begin with this home, without waiting until it serves."""
        assert self._process.stdin is not None
        if self.pid and not self._has_ended.is_set():  # a test failed over it
            os.kill(self.pid, signal.SIGKILL)
            self.ended()
        self.places = locate({"KBSYNC_HOME": str(home)})
        self._offspring = {}
        self._has_ended.clear()
        self._process.stdin.write(json.dumps({"home": str(home), "trouble": trouble}).encode() + b"\n")
        self._process.stdin.flush()
        self.pid = int(self._told("begun"))

    def begin_serving(self, home: Path, trouble: str = "") -> Client:
        """Have a daemon begin and wait until it answers. Raises AssertionError where it ends before."""
        self.begin(home, trouble)

        def look() -> Client | None:
            self.assert_alive()
            return self.client()

        client = eventually(look, within_s=PATIENCE_S)
        assert client is not None
        return client

    def assert_alive(self) -> None:
        """Fail with its messages where the daemon has ended by itself."""
        assert not self._has_ended.is_set(), self.messages()

    def client(self) -> Client | None:
        """Return a client of the daemon, None as long as it does not serve."""
        owner = owner_of(self.places.lock_file)
        if owner is None or owner.pid != self.pid or owner.socket is None or not os.path.exists(owner.socket):
            return None
        return Client(owner.socket)

    def children(self) -> list[psutil.Process]:
        """Return the processes below the daemon now, and remember them."""
        found = psutil.Process(self.pid).children(recursive=True)
        self._offspring.update((child.pid, child) for child in found)
        return found

    def signal(self, number: signal.Signals) -> None:
        self.children()
        os.kill(self.pid, number)

    def ended(self, within_s: float = PATIENCE_S) -> int:
        """Wait for the daemon's end; return its exit code, or the signal that ended it as a negative number."""
        code = int(self._told("ended", within_s))
        self.pid = 0
        return code

    def left(self, within_s: float = 2.0) -> list[psutil.Process]:
        """Return which of the daemon's remembered children live so long after its end.

        One that was just starting ends when it has started and sees that nobody is there: that takes as long as the
        machine needs for it.
        """
        began = time.monotonic()
        while left := [child for child in self._offspring.values() if lives(child)]:
            seconds = time.monotonic() - began
            if seconds > PATIENCE_S or (seconds > within_s and any(map(_is_shut_in, left))):
                break
            time.sleep(0.01)
        return left

    def messages(self) -> str:
        """Return what all daemons of this home wrote to stdout and stderr."""
        path = Path(self.places.config_file).parent / "daemon-messages"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def _told(self, what: str, within_s: float = PATIENCE_S) -> str:
        deadline = time.monotonic() + within_s
        while True:
            line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            word, _, rest = line.partition(" ")
            if word == what:
                return rest
            self.forks += word == "forked"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.decode().rstrip())
            if line.startswith(b"ended"):
                self._has_ended.set()


def settled(client: Client) -> dict[str, object]:
    """Wait until everything that is in the folders now is dealt with; return what the daemon says then."""
    ticket = client.post("local/rescan")["ticket"]
    answer: dict[str, object] = {}

    def look() -> bool:
        answer.update(client.get("local/settled", ticket=ticket))
        return bool(answer["settled"])

    eventually(look, within_s=180.0, every_s=0.05)
    return answer


def configured(home: Path, *entries: str, **settings: object) -> Locations:
    """Write config.toml: `settings` at its top, each of `entries` the text of a source."""
    home.mkdir(parents=True, exist_ok=True)
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    text = "\n".join([*lines, *(f"[[sources]]\n{entry}" for entry in entries)])
    (home / "config.toml").write_text(f"{text}\n", encoding="utf-8")
    return locate({"KBSYNC_HOME": str(home)})
