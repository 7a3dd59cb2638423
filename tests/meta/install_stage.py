"""A home and a user without root for packaging/install.sh, and wheels that play kbsync and write down its calls."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.faults.unprivileged import NOBODY
from tests.meta.checkout import ROOT

# Spaces, and letters of others: everything must be quoted, and nothing may think in ASCII.
HOME_NAME = "Müller 家"

# Plays kbsync. What the system says of the service lies in a file, and so does a daemon that somebody started by hand.
PROGRAM = """
import json, os, sys

def main():
    stage, arguments = os.environ["STAGE"], sys.argv[1:]
    service = os.path.join(stage, "service")
    state = open(service).read() if os.path.exists(service) else "none"
    asked = " ".join(arguments)
    if asked == "--version":
        print("VERSION")
    elif asked == "status --json":
        by_hand = os.path.join(stage, "by-hand")
        found = open(by_hand).read() if os.path.exists(by_hand) else state if state == "running" else "stopped"
        print(json.dumps({"running": found == "running", "state": found}, indent=2))
        sys.exit(0 if found == "running" else 4)
    elif asked == "service status --json":
        print(json.dumps({"installed": state != "none", "state": "stopped" if state == "none" else state}))
        sys.exit(0 if state == "running" else 4)
    else:
        with open(os.path.join(stage, "calls"), "a") as file:
            print("VERSION", asked, file=file)
        after = {"install": "running", "start": "running", "stop": "stopped", "uninstall": "none"}[arguments[1]]
        after = "stopped" if arguments[2:] == ["--no-start"] else after
        if asked == os.environ.get("FAILS"):
            sys.exit(1)
        with open(service, "w") as file:
            file.write(after)
"""
# Stands for a large library: fails, or keeps the installation waiting, where a test wants that.
LIBRARY = """
import os, time
if os.environ.get("BROKEN") == __name__:
    raise ImportError("this library is broken")
while os.path.exists(os.path.join(os.environ["STAGE"], "hold-" + __name__)):
    open(os.path.join(os.environ["STAGE"], "held"), "w").close()
    time.sleep(0.05)
"""
# A checkout whose wheel was built before.
BACKEND = """
import os, shutil
def build_wheel(folder, *_):
    wheel = os.environ["WHEEL"]
    return os.path.basename(shutil.copy(wheel, folder))
"""
SHARED = (
    "man/man1/kbsync.1",
    "bash-completion/completions/kbsync",
    "zsh/site-functions/_kbsync",
    "fish/vendor_completions.d/kbsync.fish",
)


def played_wheel(folder: Path, version: str) -> Path:
    """Write a wheel of a kbsync that only writes down what it is asked."""
    info = f"kbsync-{version}.dist-info"
    files = {
        "kbsync/__init__.py": "",
        "kbsync/__main__.py": PROGRAM.replace("VERSION", version),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: kbsync\nVersion: {version}\nRequires-Dist: torch>=2\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nkbsync = kbsync.__main__:main\nkb = kbsync.__main__:main\n",
        **{f"kbsync-{version}.data/data/share/{name}": f"{name} of {version}\n" for name in SHARED},
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},"
        f"{len(text.encode())}\n"
        for name, text in files.items()
    )
    path = folder / f"kbsync-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return path


# Whom commands are started as; None: the user who runs the tests is not root already.
USER = NOBODY if os.getuid() == 0 else None


def interpreter() -> str | None:
    """Return a Python that everybody on this machine may run and make environments with, None where there is none."""
    code = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"
    for python in (os.path.realpath(sys.executable), "/usr/bin/python3"):
        try:
            found = subprocess.run(
                [python, "-c", code], cwd="/", capture_output=True, user=USER, group=USER, check=False
            )
        except OSError:
            continue
        if found.returncode == 0:
            return python
    return None


class Stage:
    """What lies in `folder`: the scripts, two wheels, a home. Everything there belongs to the user without root."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder
        self.home = folder / HOME_NAME
        self.scripts = folder / "check out" / "packaging"
        self.venv = self.home / ".local" / "share" / "kbsync" / "venv"
        shutil.copytree(ROOT / "packaging", self.scripts)
        (folder / "libraries").mkdir()
        imported = re.findall(r"-c 'import (apsw, .*), kbsync'", (self.scripts / "environment.sh").read_text())
        for name in imported[0].split(", "):
            (folder / "libraries" / f"{name}.py").write_text(LIBRARY)
        checkout = self.scripts.parent
        (checkout / "VERSION").write_text("of the checkout\n")
        (checkout / "backend.py").write_text(BACKEND)
        (checkout / "pyproject.toml").write_text(
            '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        )
        self.home.mkdir()
        self.was, self.new = "1.0", "2.0"
        self.wheels = {version: played_wheel(folder, version) for version in ("1.0", "2.0")}
        self.environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "SHELL": "/bin/bash",
            "TMPDIR": str(folder),
            "STAGE": str(folder),
            "PYTHON": python,
            "PYTHONPATH": str(folder / "libraries"),
            "PYTHONDONTWRITEBYTECODE": "1",
            # The libraries are there, only not in the new environment: nothing is fetched.
            "PIP_NO_DEPS": "1",
            "PIP_NO_INDEX": "1",
            "PIP_CONFIG_FILE": os.devnull,
            # As many have it, for a Python of the system's.
            "PIP_USER": "1",
        }
        for path in (folder, *folder.rglob("*")):
            self._give(path)

    def start(self, *command: str | Path, **variables: str) -> subprocess.Popen[str]:
        """Start a command as the user without root, in a process group of its own."""
        return subprocess.Popen(
            [str(word) for word in command],
            env=self.environment | variables,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            user=USER,
            group=USER,
            extra_groups=None if USER is None else [],
        )

    def run(self, *command: str | Path, code: int = 0, **variables: str) -> str:
        """Run a command, which must end with that exit code; return what it said on both streams."""
        process = self.start(*command, **variables)
        said = "".join(process.communicate(timeout=100))
        assert process.returncode == code, said
        return said

    def install(self, *arguments: str | Path, code: int = 0, **variables: str) -> str:
        return self.run(self.scripts / "install.sh", *arguments, code=code, **variables)

    def uninstall(self, *arguments: str, code: int = 0, **variables: str) -> str:
        return self.run(self.scripts / "uninstall.sh", *arguments, code=code, **variables)

    def installed_and_other(self) -> tuple[str, str]:
        """Return the version that is installed, the first one where none is, and the other one."""
        command = self.home / ".local" / "bin" / "kbsync"
        installed = self.version() if command.exists() else "1.0"
        return installed, "2.0" if installed == "1.0" else "1.0"

    def version(self, command: str = "kbsync") -> str:
        """Return what the command in ~/.local/bin says its version is."""
        return self.run(self.home / ".local" / "bin" / command, "--version").strip()

    @property
    def service(self) -> str:
        file = self.folder / "service"
        return file.read_text() if file.exists() else "none"

    @service.setter
    def service(self, state: str) -> None:
        (self.folder / "service").write_text(state)
        self._give(self.folder / "service")

    def _give(self, path: Path) -> None:
        if USER is not None:
            os.chown(path, USER, USER)

    def calls(self) -> list[str]:
        """Return what kbsync was asked since the last call of this, each with the version that was asked."""
        file = self.folder / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines
