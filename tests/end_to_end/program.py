"""The program as a user has it: a home of its own, commands in processes, a daemon that can be signalled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from kbsync.config.locations import Locations, locate
from kbsync.daemon.lock import owner_of
from kbsync.interfaces.cli.client import Client
from tests.fakes.eventually import eventually

Record = dict[str, Any]

# A loaded machine may take this long for what takes seconds.
PATIENCE_S = 90.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command printed and how it ended."""

    code: int
    stdout: str
    stderr: str

    def json(self) -> Record:
        record = json.loads(self.stdout)
        assert isinstance(record, dict)
        return record


def is_alive(process: psutil.Process) -> bool:
    """Return whether a process runs; a dead one may wait for somebody to take note of it."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Daemon:
    """A running `kbsync run`."""

    def __init__(self, process: subprocess.Popen[bytes], places: Locations, messages: Path) -> None:
        self.process = process
        self.places = places
        self._messages = messages
        self._offspring: dict[int, psutil.Process] = {}

    @property
    def client(self) -> Client:
        owner = owner_of(self.places.lock_file)
        assert owner is not None
        assert owner.socket is not None
        return Client(owner.socket)

    @property
    def messages(self) -> str:
        """Return what it wrote to stderr so far."""
        return self._messages.read_text(encoding="utf-8", errors="replace")

    def serves(self) -> bool:
        assert self.process.poll() is None, self.messages
        owner = owner_of(self.places.lock_file)
        return owner is not None and owner.socket is not None and os.path.exists(owner.socket)

    def has_model(self) -> bool:
        """Say whether the model is loaded; where nothing needed it yet, a search has it loaded."""
        assert self.process.poll() is None, self.messages
        status = self.client.get("status")
        if status["model_state"] == "resting":
            self.client.get("search", q="quince", mode="hybrid")
        return bool(status["model_ready"])

    def settle(self) -> Record:
        """Wait until all that is in the folders now is dealt with."""
        ticket = int(self.client.post("local/rescan")["ticket"])
        answer: Record = {}

        def settled() -> bool:
            answer.update(self.client.get("local/settled", ticket=ticket))
            return bool(answer["settled"])

        eventually(settled, within_s=PATIENCE_S, every_s=0.1)
        return answer

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; remember the children it has now."""
        for child in psutil.Process(self.process.pid).children(recursive=True):
            self._offspring[child.pid] = child
        self.process.send_signal(number)

    def ended(self, *, within_s: float) -> int:
        """Return the exit code, which must come in time."""
        return self.process.wait(within_s)

    def children_left(self, within_s: float = 2.0) -> list[int]:
        """Return which of the processes that it had are still there after so long.

        Python's own tracker of resources hears of its parent's end, and ends by itself, some milliseconds later.
        """
        deadline = time.monotonic() + within_s
        while (left := [pid for pid, child in self._offspring.items() if is_alive(child)]) and (
            time.monotonic() < deadline
        ):
            time.sleep(0.02)
        return left


class Program:
    """kbsync with KBSYNC_HOME at `home`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("KBSYNC_")}
        # Any free port: several daemons run on this machine at once.
        self.environment |= {"KBSYNC_HOME": str(home), "PYTHONUTF8": "1", "KBSYNC_HTTP__PORT": "0"}
        self.places = locate(self.environment)

    def run(self, *arguments: str | bytes, code: int | None = 0) -> Answer:
        """Run a command to its end. `code`: what the exit code must be, None for any."""
        done = subprocess.run(
            [sys.executable, "-m", "kbsync", *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
        )
        answer = Answer(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"))
        assert code is None or answer.code == code, answer
        return answer

    def json(self, *arguments: str | bytes, code: int | None = 0) -> Record:
        """Run a command with --json and return what it printed."""
        return self.run(*arguments, "--json", code=code).json()

    def configure(self, *sources: Path, **settings: object) -> None:
        """Write config.toml."""
        self.home.mkdir(parents=True, exist_ok=True)
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        lines += [f"[[sources]]\npath = {json.dumps(str(source))}" for source in sources]
        Path(self.places.config_file).write_text("\n".join(lines) + "\n", encoding="utf-8")

    @contextmanager
    def daemon(self) -> Iterator[Daemon]:
        """Start the daemon and yield when its socket answers; whatever becomes of the test, it ends."""
        self.home.mkdir(parents=True, exist_ok=True)
        messages = self.home / "daemon-messages"
        with messages.open("ab") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "kbsync", "run"],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                start_new_session=True,
            )
        daemon = Daemon(process, self.places, messages)
        try:
            eventually(daemon.serves, within_s=PATIENCE_S)
            yield daemon
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
                try:
                    process.wait(15)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait(5)
