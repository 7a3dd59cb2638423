"""A machine that is ill in many ways at once: `kbsync doctor` names them, what it says is done, and it looks again.

`python -m tests.faults.ill_machine FOLDER` runs as root of a user and mount namespace of its own (`unshare -Urm`); the
program that is tried runs there without root's power over closed files. It prints both answers as JSON.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from kbsync.embed.model_files import packaged_model

_WEIGHTS = "model.safetensors"
_WATCHES = "/proc/sys/user/max_inotify_watches"
# Such a process is nobody any more where files are closed to it, as every user is.
_POWERLESS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
_PROGRAMS = {
    "kbsync": '#!/bin/sh\nexec "{python}" -P -W ignore -m kbsync "$@"\n',
    # A manager that runs every unit, and lets its user's services live on.
    "systemctl": """#!/bin/sh
case "$*" in
    *Version*) echo 257 ;;
    *show*) printf 'LoadState=loaded\\nActiveState=active\\nSubState=running\\nUnitFileState=enabled\\nMainPID=0\\n' ;;
esac
""",
    "loginctl": "#!/bin/sh\necho yes\n",
    "nvidia-smi": "#!/bin/sh\necho 'NVIDIA T4, 15360, 15000, 570.1'\n",
    "timedatectl": "#!/bin/sh\necho yes\n",
}


class IllMachine:
    """The folder of a user, with everything that is wrong in it, and the variables of a shell."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.disk, self.bin = base / "disk", base / "bin"
        self.home = self.disk / "kbsync home"
        self.data, self.state, self.logs = self.home / "data", self.home / "state", self.home / "logs"
        self.config = self.home / "config.toml"
        self.model, self.notes, self.closed = base / "model", base / "notes", base / "closed notes"
        self.shadow, self.stale = base / "shadow", base / "stale"
        self.unit = base / "settings" / "systemd" / "user" / "kbsync.service"
        self.other = socket.create_server(("127.0.0.1", 0))
        self.port = self.other.getsockname()[1]
        self.files = 200
        self.variables = {
            "PATH": f"{self.bin}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(base),
            "XDG_CONFIG_HOME": str(base / "settings"),
            "KBSYNC_HOME": str(self.home),
            "KBSYNC_WORKRES": "2",
            "PYTHONPATH": f"{self.shadow}:{self.stale}",
        }

    def fall_ill(self) -> None:
        """Make everything wrong that is."""
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "small", str(self.disk)], check=True)
        for folder in (self.data / "documents", self.state, self.logs, self.model, self.closed, self.bin, self.stale):
            folder.mkdir(parents=True)
        for folder in (self.home, self.data, self.state, self.logs):
            folder.chmod(0o700)
        for name, text in _PROGRAMS.items():
            (self.bin / name).write_text(text.format(python=sys.executable) if name == "kbsync" else text)
            (self.bin / name).chmod(0o755)
        for number in range(20):
            (self.notes / f"folder{number:02}").mkdir(parents=True)
        Path(_WATCHES).write_text("5")
        for path in Path(packaged_model().folder).iterdir():
            if path.name != _WEIGHTS:
                (self.model / path.name).symlink_to(path)
        self.configure(self.port, "cuda:3")
        token = self.state / "token"
        token.write_text("a token that everybody reads")
        token.chmod(0o644)
        log = self.logs / "kbsync.log"
        log.touch(0o600)
        os.utime(log, (4_000_000_000, 4_000_000_000))
        (self.home / "ingest-errors.log").mkdir()
        address = self.state / "kbsync.sock"
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(address))
        lock = self.data / "kb.lock"
        lock.write_text(json.dumps({"pid": self._gone(), "role": "daemon", "socket": str(address)}))
        lock.chmod(0o600)
        (self.shadow / "cv2").mkdir(parents=True)
        (self.shadow / "cv2" / "__init__.py").write_text("raise ImportError('libGL.so.1: cannot open shared object')\n")
        old = self.stale / "apsw-3.40.0.dist-info"
        old.mkdir()
        (old / "METADATA").write_text("Metadata-Version: 2.1\nName: apsw\nVersion: 3.40.0\n")
        self.unit.parent.mkdir(parents=True)
        self.unit.write_text(f"{_mark()}\n[Service]\nExecStart=/usr/bin/python3.9 -m kbsync run\n")
        (self.data / "documents").chmod(0)
        self.closed.chmod(0)

    def configure(self, port: int, device: str) -> None:
        """Write config.toml."""
        sources = "".join(f"[[sources]]\npath = {json.dumps(str(path))}\n" for path in (self.notes, self.closed))
        models = f"[models]\nembedder = {json.dumps(str(self.model))}\ndevice = {json.dumps(device)}\n"
        self.config.write_text(f"{sources}[http]\nport = {port}\n{models}", encoding="utf-8")

    def doctor(self) -> dict[str, Any]:
        """Return what the program says."""
        done = self.run("kbsync doctor --json")
        answer: dict[str, Any] = json.loads(done.stdout)
        return {**answer, "code": done.returncode, "stderr": done.stderr}

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a person types it, without power over closed files."""
        shell = ["sh", "-c", f"ulimit -Sn {self.files}; {command}"]
        return subprocess.run(
            [*_POWERLESS, *shell], env=self.variables, cwd=self.base, capture_output=True, text=True, check=False
        )

    def cure(self, remedies: dict[str, list[str]]) -> list[str]:
        """Do what each check said, and return the names of those that were cured by the very command."""
        by_command = []
        for name, told in remedies.items():
            for remedy in told:
                if self._cured_by_hand(name, remedy):
                    continue
                done = self.run(remedy)
                assert done.returncode == 0, (name, remedy, done.stderr)
                by_command.append(name)
        # What is installed is rendered from the variables as they are now.
        done = self.run(remedies["service"][0])
        assert done.returncode == 0, done.stderr
        return [*by_command, "service"]

    def _cured_by_hand(self, name: str, remedy: str) -> bool:
        """Do what is no command of an ordinary user's, as it was told; return whether it was such."""
        if name == "disk":
            assert re.fullmatch(rf"Free at least \d+ MB on the disk that holds {re.escape(str(self.data))}\.", remedy)
            subprocess.run(["mount", "-o", "remount,size=1g", str(self.disk)], check=True)
        elif name == "watched_folders":
            setting = re.search(
                r"^echo user\.max_inotify_watches=(\d+) \| sudo tee -a (\S+) && sudo sysctl -p \2$", remedy
            )
            assert setting is not None, remedy
            Path(_WATCHES).write_text(setting[1])
        elif name == "open_files":
            self.files = int(remedy.removeprefix("ulimit -n "))
        elif name == "variables":
            del self.variables[remedy.removeprefix("unset ")]
        elif name in ("opencv", "python", "libraries"):
            self._import_what_is_installed(name, remedy)
        elif name == "embedding_model":
            assert remedy == f"Put a whole model into {self.model} again, or: kbsync models use packaged"
            weights = self.model / _WEIGHTS
            if not weights.is_symlink():
                weights.symlink_to(Path(packaged_model().folder) / _WEIGHTS)
        elif name == "port":
            assert remedy.startswith(f"Set port = 0 under [http] in {self.config}")
            self.configure(0, "auto")
        elif name == "graphics_card":
            assert remedy == 'Set device = "auto" under [models] in config.toml.'
            self.configure(self.port, "auto")
        elif name == "clock":
            _, _, command = remedy.partition("if the clock is right: ")
            assert self.run(command).returncode == 0
        else:
            return name == "service"
        return True

    def _import_what_is_installed(self, name: str, remedy: str) -> None:
        if name == "libraries":  # no network here: the stale one goes instead of a new one coming over it
            assert remedy == shlex.join([sys.executable, "-m", "pip", "install", "apsw>=3.51.3"]), remedy
            self.variables.pop("PYTHONPATH", None)
            return
        assert re.match(rf"Take {re.escape(str(self.shadow))}\S* out of PYTHONPATH", remedy), remedy
        if "PYTHONPATH" in self.variables:
            self.variables["PYTHONPATH"] = str(self.stale)

    @staticmethod
    def _gone() -> int:
        """Return the number of a process that has ended."""
        with subprocess.Popen(["true"]) as ended:
            ended.wait()
        return ended.pid


def _mark() -> str:
    from kbsync.interfaces.service.systemd_unit import MARK

    return MARK


def listing(folder: Path) -> list[tuple[str, int, int]]:
    """Return every path below a folder with its mode and its time: what a program that only looks leaves as it is."""
    return sorted((str(path), path.lstat().st_mode, path.lstat().st_mtime_ns) for path in folder.rglob("*"))


def main(base: Path) -> dict[str, object]:
    machine = IllMachine(base)
    machine.fall_ill()
    before = listing(base)
    ill = machine.doctor()
    is_untouched = listing(base) == before
    remedies: dict[str, list[str]] = {}
    for check in ill["checks"]:
        if check["state"] != "ok":
            remedies.setdefault(check["name"], []).append(check["remedy"])
    by_command = machine.cure(remedies)
    return {"ill": ill, "is_untouched": is_untouched, "by_command": by_command, "well": machine.doctor()}


if __name__ == "__main__":
    print("SEEN " + json.dumps(main(Path(sys.argv[1]))))
