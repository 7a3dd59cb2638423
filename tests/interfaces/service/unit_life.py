"""Lives through what befalls a unit, under the systemd user manager that it was started by, and prints it as JSON.

`user_manager.sh HOME python -m tests.interfaces.service.unit_life`; HOME is empty.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil

from kbsync.config.locations import Locations, locate
from kbsync.daemon.lock import owner_of
from kbsync.errors import ServiceFailed
from kbsync.interfaces.cli.client import Client
from kbsync.interfaces.service import early_ends
from kbsync.interfaces.service.service import Program
from kbsync.interfaces.service.systemd import Systemd
from kbsync.interfaces.service.systemd_unit import NAME, render
from tests.fakes.eventually import eventually
from tests.faults.forked_daemon import HANGS
from tests.meta.checkout import ROOT

T = TypeVar("T")

PATIENCE_S = 60.0
# The rendered unit with shorter times, and its messages where they can be read: no journal runs here.
_SHORTER = """\
[Service]
RestartSec=100ms
WatchdogSec=4s
StandardError=append:{messages}
"""
# A folder of all that must be escaped in a unit.
ODD = 'it\'s "50%" of $HOME; ${X} \\n größe'


def patiently(look: Callable[[], T]) -> T:
    """Each look is a process or a request, so not as often as elsewhere."""
    return eventually(look, within_s=PATIENCE_S, every_s=0.2)


class Stage:
    """The home, the unit in it, and what was seen."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.base = home / "my kb"
        self.notes, self.others = home / "notes", home / "others"
        self.messages = home / "messages"
        self.environment = {
            "KBSYNC_HOME": str(self.base),
            "KBSYNC_HTTP__ENABLED": "false",
            "KBSYNC_QUIET_S": "0.1",
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
        }
        command = (sys.executable, "-P", "-m", "tests.interfaces.service.light_daemon", "run")
        self.command = command
        self.program = Program((*command, "--service"), self.environment, "")
        self.service = Systemd(self.program, os.environ)
        self.places: Locations = locate(self.environment)
        self.seen: dict[str, Any] = {}

    def configure(self, *folders: Path, more: str = "") -> None:
        self.base.mkdir(exist_ok=True)
        sources = "".join(f"[[sources]]\npath = {json.dumps(str(folder))}\n" for folder in folders)
        (self.base / "config.toml").write_text(f"{more}\n{sources}")

    def show(self, name: str) -> str:
        done = subprocess.run(
            ["systemctl", "--user", "show", f"--property={name}", "--value", NAME],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def pid(self) -> int:
        return int(self.show("MainPID"))

    def runs(self, but: int = 0) -> int:
        """Wait until the unit runs, as another process than `but`; return its number."""

        def look() -> int:
            pid = self.pid()
            return pid if pid not in (0, but) and self.show("ActiveState") == "active" else 0

        return patiently(look)

    def client(self) -> Client:
        owner = owner_of(self.places.lock_file)
        assert owner is not None
        assert owner.socket is not None
        return Client(owner.socket)

    def finds(self, word: str) -> bool:
        return bool(self.client().get("search", q=word, mode="lexical")["hits"])

    def forget_early_ends(self) -> None:
        early_ends.forget(self.places.early_ends_file)

    # ---- the scenes, in the order in which they are played ----

    def odd_names(self) -> None:
        """A program and a variable whose names hold all that means something to systemd."""
        folder = self.home / ODD
        folder.mkdir()
        program, said = folder / "program", folder / "said"
        program.write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$1" "$KBSYNC_HOME" >"$(dirname "$0")/said"\n')
        program.chmod(0o700)
        unit = Path(self.service.file).with_name("odd.service")
        unit.parent.mkdir(parents=True)
        unit.write_text(render(Program((str(program), f"run {ODD}"), {"KBSYNC_HOME": str(folder)}, "")))
        subprocess.run(["systemctl", "--user", "start", "odd"], check=False)  # it never says that it is ready
        self.seen["odd names"] = said.read_text().splitlines() == [str(program), f"run {ODD}", str(folder)]
        unit.unlink()

    def install(self) -> None:
        drop_in = Path(self.service.file + ".d", "shorter.conf")
        drop_in.parent.mkdir(parents=True)
        drop_in.write_text(_SHORTER.format(messages=self.messages))
        self.configure(self.notes)
        self.notes.mkdir()
        self.others.mkdir()
        self.seen["before"] = [self.service.state().running, self.service.state().installed, self.service.uninstall()]
        self.seen["installed"] = self.service.install(start=True)
        pid = self.pid()
        self.seen["installed again"] = self.service.install(start=True)
        state = self.service.state()
        self.seen["state"] = [state.running, state.installed, state.is_current, state.pid == pid]
        self.seen["notices"] = state.notices
        wants = Path(self.service.file).parent / "default.target.wants"
        self.seen["enabled"] = os.listdir(wants)
        self.seen["ready with its socket"] = os.path.exists(self.client().get("status")["endpoints"][0][len("unix:") :])
        confined = Path(f"/proc/{pid}/status").read_text()
        self.seen["confined"] = "NoNewPrivs:\t1" in confined and "Seccomp:\t2" in confined
        self.seen["folder is private"] = oct(Path(self.service.file).stat().st_mode & 0o777)
        command = [sys.executable, "-m", "kbsync", "service", "status"]
        told = subprocess.run(
            command, env={**os.environ, **self.environment}, capture_output=True, text=True, check=False
        )
        self.seen["told"] = [told.returncode, told.stdout, told.stderr]

    def upgrade(self) -> None:
        """Another kbsync than the one that runs: the unit is written anew and the daemon is another process."""
        pid = self.pid()
        changed = {**self.environment, "KBSYNC_LOG_LEVEL": "warning"}
        newer = Systemd(Program(self.program.command, changed, ""), os.environ)
        self.seen["out of date"] = [newer.state().is_current, *newer.state().notices[:1]]
        self.seen["upgraded"] = newer.install(start=True)[:1]
        self.seen["upgraded to another process"] = self.runs(but=pid) != pid
        self.service = newer

    def reload(self) -> None:
        pid = self.runs()
        (self.notes / "quince.md").write_text("The quince ripens late.\n")
        (self.others / "medlar.md").write_text("The medlar ripens later.\n")
        self.configure(self.notes, self.others)
        subprocess.run(["systemctl", "--user", "reload", NAME], check=True)
        patiently(lambda: self.finds("quince") and self.finds("medlar"))
        patiently(lambda: self.show("ActiveState") == "active")
        self.seen["reloaded"] = [self.pid() == pid, self.show("NRestarts"), self.show("StatusText")]

    def killed_child(self) -> None:
        pid = self.runs()
        (self.notes / "endless.pdf").write_bytes(HANGS)

        def reads() -> list[int]:
            return [slot["pid"] for slot in self.client().get("status")["conversion"]["children"] if slot["file"]]

        child = patiently(lambda: [pid for pid in reads() if pid])[0]
        below = psutil.Process(pid).children(recursive=True)
        self.seen["children know the manager"] = [one.pid for one in below if "NOTIFY_SOCKET" in one.environ()]
        os.kill(child, signal.SIGKILL)
        (self.notes / "endless.pdf").unlink()
        patiently(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)
        self.seen["after a killed child"] = [self.show("ActiveState"), self.pid() == pid, self.show("NRestarts")]

    def crash(self) -> None:
        self.forget_early_ends()
        pid = self.runs()
        os.kill(pid, signal.SIGKILL)
        self.runs(but=pid)
        self.seen["after a crash"] = [self.finds("quince"), self.show("NRestarts")]

    def watchdog(self) -> None:
        self.forget_early_ends()
        pid = self.runs()
        os.kill(pid, signal.SIGSTOP)
        self.runs(but=pid)
        messages = self.messages.read_text()
        self.seen["after it hung"] = [self.show("NRestarts"), "Fatal Python error: Aborted" in messages]

    def stop(self) -> None:
        begun = time.monotonic()
        self.seen["stopped"] = self.service.stop()
        self.seen["stopped in time"] = time.monotonic() - begun < 10
        self.seen["ended"] = [self.show("Result"), self.show("ExecMainStatus"), self.service.state().running]
        self.seen["early ends forgotten"] = not os.path.exists(self.places.early_ends_file)

    def beside_another(self) -> None:
        """A daemon runs that somebody started by hand: the unit waits, and comes after it."""
        with self.messages.open("ab") as messages:
            other = subprocess.Popen(self.command, env={**os.environ, **self.environment}, stderr=messages)
        patiently(lambda: (owner := owner_of(self.places.lock_file)) is not None and bool(owner.socket))
        subprocess.run(["systemctl", "--user", "start", "--no-block", NAME], check=True)
        waits = patiently(lambda: "another" in (text := self.show("StatusText")) and text)
        self.seen["beside another"] = [self.show("ActiveState"), str(waits).replace(str(other.pid), "PID")]
        self.seen["told beside another"] = self.service.state().notices[0].replace(str(other.pid), "PID")
        other.terminate()
        other.wait(PATIENCE_S)
        self.runs()
        self.seen["after another"] = [self.finds("quince"), self.show("NRestarts")]

    def bad_configuration(self) -> None:
        self.configure(self.notes, more="rescan_s = 'soon'")
        self.seen["bad configuration"] = self._refused()
        self.seen["not started again"] = [self.show("ActiveState"), self.show("ExecMainStatus"), self.show("NRestarts")]
        self.configure(self.notes)

    def _refused(self) -> str:
        try:
            return str(self.service.restart())
        except ServiceFailed as error:
            return str(error)

    def crash_loop(self) -> None:
        """Every start ends at once: the third one waits."""
        os.rename(self.places.database, self.places.database + ".away")
        for ending in ("-wal", "-shm"):
            Path(self.places.database + ending).unlink(missing_ok=True)
        os.mkdir(self.places.database)
        subprocess.run(["systemctl", "--user", "reset-failed", NAME], check=True)
        subprocess.run(["systemctl", "--user", "start", "--no-block", NAME], check=True)
        waits = patiently(lambda: "soon ended" in (text := self.show("StatusText")) and text)
        self.seen["crash loop"] = [self.show("ActiveState"), waits, self.show("NRestarts")]

    def uninstall(self) -> None:
        self.seen["uninstalled"] = self.service.uninstall()
        self.seen["uninstalled again"] = self.service.uninstall()
        folder = Path(self.service.file).parent
        self.seen["left"] = sorted(path.name for path in folder.rglob("*") if path.name != "default.target.wants")
        state = self.service.state()
        self.seen["at the end"] = [state.installed, state.running]

    def play(self) -> None:
        self.odd_names()
        self.install()
        self.upgrade()
        self.reload()
        self.killed_child()
        self.crash()
        self.watchdog()
        self.stop()
        self.beside_another()
        self.bad_configuration()
        self.crash_loop()
        self.uninstall()


def main() -> None:
    stage = Stage(Path(os.environ["HOME"]))
    try:
        stage.play()
    finally:
        sys.stdout.write("SEEN " + json.dumps(stage.seen) + "\n")
        if sys.exc_info()[0] is not None and stage.messages.exists():
            sys.stderr.write(stage.messages.read_text()[-3000:])


if __name__ == "__main__":
    main()
