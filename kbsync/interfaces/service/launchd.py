"""The agent of this user under macOS' launchd: its property list, and what `launchctl` is asked to do with it.

The keys are those of launchd.plist(5), the commands those of launchctl(1) since macOS 10.11.
"""

from __future__ import annotations

import os
import plistlib
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from kbsync import machine
from kbsync.config.locations import making_private
from kbsync.errors import ServiceFailed
from kbsync.interfaces.service.service import Program, Running, State
from kbsync.sources import full_disk_access

LABEL = "local.kbsync"

# What ends with an error is started again after so many seconds, always as many: launchd knows no growing delay.
_THROTTLE_S = 30
# The daemon ends itself within 9.5 s of a SIGTERM; only after this one would launchd kill it.
_EXIT_S = 20
# launchd's own limit is 256 open files, too few for a database, its readers and a pool of converters.
_OPEN_FILES = 8192
_FILE_MODE = 0o644  # launchd loads nothing that others may write to

# `bootout` returns before the old process has ended, and a `bootstrap` until then is refused.
_LOOK_EVERY_S, _GONE_WITHIN_S, _TAKEN_WITHIN_S = 0.2, _EXIT_S + 5.0, 5.0
_ANSWER_S = 60.0

# What launchctl exits with: errno values, and a few of launchd's own.
_NO_PROCESS, _IO, _IN_PROGRESS, _ALREADY = 3, 5, 36, 37
_NO_SERVICE, _NO_DOMAIN = 113, 125
_NOT_LOADED = (_NO_PROCESS, _NO_SERVICE)

# The service's own lines of `launchctl print`; what is indented further belongs to something inside it.
_LINE = re.compile(r"^\t([a-z ]+) = (.*)$", re.MULTILINE)


def agent_log(program: Program) -> str:
    """Return where launchd writes what the daemon says on stdout and stderr; the daemon itself keeps it short."""
    return os.path.join(os.path.dirname(program.log_file), "service.log")


def properties(program: Program) -> dict[str, object]:
    """Return the agent's property list.

    launchd starts anew whatever ends with an error, and has no key for an exit code that is none to try again: with
    `--launchd` the daemon ends with 0 where its configuration cannot be used. (A shell around it could do that too,
    but macOS would then ask Full Disk Access for the shell, and SIGTERM would reach the shell only.) No `Nice`: the
    daemon sets its own by `[resources]`, and could not take back a higher one.
    """
    log = agent_log(program)
    return {
        "Label": LABEL,
        "ProgramArguments": [*program.command, "--launchd"],
        "EnvironmentVariables": dict(sorted(program.environment.items())),
        "WorkingDirectory": "/",
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": _THROTTLE_S,
        "ExitTimeOut": _EXIT_S,
        "LimitLoadToSessionType": "Aqua",
        "ProcessType": "Background",
        "LowPriorityIO": True,
        "LowPriorityBackgroundIO": True,
        "SoftResourceLimits": {"NumberOfFiles": _OPEN_FILES},
        "Umask": 0o077,
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }


def rendered(program: Program) -> bytes:
    """Return the property list as launchd reads it. Raises ServiceFailed where a path in it cannot be written down."""
    try:
        return plistlib.dumps(properties(program), sort_keys=False)
    except ValueError as error:  # control characters, or bytes that are no UTF-8
        raise ServiceFailed(
            f"A path of this installation cannot stand in a property list: {error}.",
            hint="Install kbsync into a folder with an ordinary name.",
        ) from error


@dataclass(frozen=True, slots=True)
class Loaded:
    """What launchd says of the agent. `exit_code`: None where it never ended, or by a signal."""

    state: str
    pid: int | None
    exit_code: int | None
    has_ended: bool

    @property
    def running(self) -> Running:
        """Say how it is doing. What launchd lets rest was not stopped by kbsync, which would have unloaded it."""
        if self.pid is not None:
            return "running"
        if not self.has_ended:
            return "stopped" if self.state in ("not running", "waiting") else "starting"
        return "failed" if self.exit_code == 0 else "starting"


def parsed(printed: str) -> Loaded:
    """Read what `launchctl print` says of a service."""
    said: dict[str, str] = {}
    for name, value in _LINE.findall(printed):
        said.setdefault(name, value.strip())
    code = re.match(r"-?\d+", said.get("last exit code", ""))
    pid = said.get("pid", "")
    return Loaded(
        state=said.get("state", ""),
        pid=int(pid) if pid.isdecimal() else None,
        exit_code=None if code is None else int(code[0]),
        has_ended=code is not None or "last terminating signal" in said,
    )


class Launchd:
    """launchd's agent of this user; implements `Service`. `pause` waits so many seconds."""

    def __init__(
        self,
        program: Program,
        agents_folder: str | None = None,
        uid: int | None = None,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._program = program
        self._folder = agents_folder or os.path.expanduser("~/Library/LaunchAgents")
        self._file = os.path.join(self._folder, f"{LABEL}.plist")
        self._domain = f"gui/{os.getuid() if uid is None else uid}"
        self._service = f"{self._domain}/{LABEL}"
        self._pause = pause

    def install(self, *, start: bool) -> list[str]:
        """Put the agent in place. Without `start` one that runs goes on as it was until it is restarted."""
        is_current = self._is_current()
        if not is_current:
            self._write(rendered(self._program))
        self._make_log()
        said = [f"{self._file} {'is in place already' if is_current else 'is written'}: kbsync starts at login."]
        said.append(
            "For Documents, Desktop, Downloads, iCloud Drive and other disks "
            f"give {machine.program()} Full Disk Access: {full_disk_access.WHERE}."
        )
        self._enable()
        if not start:
            return said
        loaded = self._loaded()
        if loaded is not None and is_current and loaded.pid is not None:
            return [*said, "It runs."]
        if loaded is not None:
            self._unload()
        return [*said, *self._load(may_wait_for_login=True)]

    def uninstall(self) -> list[str]:
        was_there = os.path.lexists(self._file)
        if self._loaded() is not None:
            self._unload()
        with _written(), suppress(FileNotFoundError):
            os.unlink(self._file)
        if not was_there:
            return ["There was no service to take away."]
        return [f"The service is stopped and {self._file} is gone. Index, configuration and logs stay."]

    def start(self) -> list[str]:
        self._require_installed()
        loaded = self._loaded()
        if loaded is None:
            return self._load()
        if loaded.pid is not None:
            return ["The service runs already."]
        self._ask("kickstart", self._service)
        return ["The service is started."]

    def stop(self) -> list[str]:
        if self._loaded() is None:
            return ["The service does not run."]
        self._unload()
        return ["The service is stopped. It starts again at the next login; `kbsync service uninstall` ends that."]

    def restart(self) -> list[str]:
        """Unload and load it: `kickstart -k` would go on with the property list that was loaded before an upgrade."""
        self._require_installed()
        if self._loaded() is not None:
            self._unload()
        return self._load()

    def state(self) -> State:
        loaded = self._loaded()
        running: Running = "stopped" if loaded is None else loaded.running
        notices = []
        if running == "failed":
            notices.append(
                "It ended by itself and is not started again: `kbsync service logs` tells why, `kbsync config check` "
                "finds mistakes of the configuration, `kbsync service start` starts it."
            )
        elif running == "starting" and loaded is not None and loaded.has_ended:
            notices.append(f"It ended with an error and is started again within {_THROTTLE_S} seconds.")
        installed = os.path.lexists(self._file)
        if installed and self._is_disabled():
            notices.append(
                "It is switched off and does not start at login: allow it in System Settings > General > Login Items, "
                "or run `kbsync service install`."
            )
        return State(
            installed=installed,
            is_current=installed and self._is_current(),
            running=running,
            pid=None if loaded is None else loaded.pid,
            file=self._file,
            notices=tuple(notices),
        )

    def log_command(self, lines: int, *, follow: bool) -> Sequence[str]:
        return ["tail", "-n", str(lines), *(["-F"] if follow else []), agent_log(self._program)]

    def _require_installed(self) -> None:
        if not os.path.lexists(self._file):
            raise ServiceFailed("The service is not installed.", hint="`kbsync service install` does it.")

    def _is_current(self) -> bool:
        try:
            with open(self._file, "rb") as file:
                is_closed = not os.fstat(file.fileno()).st_mode & 0o022  # launchd passes over one that others may write
                return is_closed and file.read() == rendered(self._program)
        except OSError:
            return False

    def _write(self, content: bytes) -> None:
        """Put the file in place whole or not at all; launchd passes over names that end otherwise than its own."""
        with _written():
            os.makedirs(self._folder, mode=0o755, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=self._folder, prefix=f".{LABEL}-", suffix=".new")
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                    os.fchmod(descriptor, _FILE_MODE)
                    file.flush()
                    os.fsync(descriptor)
                os.replace(temporary, self._file)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary)
                raise

    def _make_log(self) -> None:
        """Make the log and its folder, private: launchd makes no folders, and starts nothing where one is missing."""
        log = agent_log(self._program)
        with _written(), making_private():
            os.makedirs(os.path.dirname(log), exist_ok=True)
            os.close(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))

    def _loaded(self) -> Loaded | None:
        code, printed = self._tried("print", self._service)
        if code in (*_NOT_LOADED, _NO_DOMAIN):
            return None
        if code:
            raise _refused("print", code, printed)
        return parsed(printed)

    def _is_disabled(self) -> bool:
        """Say whether it was switched off. macOS says so by `disabled` or, before version 13, by `true`."""
        code, printed = self._tried("print-disabled", self._domain)
        return not code and re.search(rf'"{re.escape(LABEL)}" => (disabled|true)', printed) is not None

    def _enable(self) -> None:
        if self._is_disabled():
            self._ask("enable", self._service)

    def _load(self, *, may_wait_for_login: bool = False) -> list[str]:
        self._make_log()
        self._enable()
        waited = 0.0
        while True:
            code, printed = self._tried("bootstrap", self._domain, self._file)
            if not code:
                return ["The service is started."]
            if code == _NO_DOMAIN:
                away = "You are not logged in at the screen of this Mac"
                if may_wait_for_login:
                    return [f"{away}: the service starts when you log in there."]
                raise ServiceFailed(f"{away}: launchd starts no agent of yours.", hint="Log in there first.")
            if code not in (_IO, _IN_PROGRESS, _ALREADY) or waited >= _TAKEN_WITHIN_S:
                raise _refused("bootstrap", code, printed)
            self._pause(_LOOK_EVERY_S)
            waited += _LOOK_EVERY_S

    def _unload(self) -> None:
        """Have it end and be forgotten. Raises ServiceFailed where it is still there long after it had to be killed."""
        code, printed = self._tried("bootout", self._service)
        if code not in (0, _IN_PROGRESS, *_NOT_LOADED):
            raise _refused("bootout", code, printed)
        waited = 0.0
        while self._loaded() is not None:
            if waited >= _GONE_WITHIN_S:
                raise ServiceFailed(f"The service did not end within {_GONE_WITHIN_S:.0f} seconds.", hint="Try again.")
            self._pause(_LOOK_EVERY_S)
            waited += _LOOK_EVERY_S

    def _ask(self, *arguments: str) -> None:
        code, printed = self._tried(*arguments)
        if code:
            raise _refused(arguments[0], code, printed)

    def _tried(self, *arguments: str) -> tuple[int, str]:
        """Run launchctl; return its exit code and all that it said."""
        try:
            done = subprocess.run(
                ["launchctl", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_ANSWER_S,
                check=False,
            )
        except FileNotFoundError as error:
            raise ServiceFailed("There is no launchctl here.", hint="`kbsync run` runs the daemon.") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ServiceFailed(f"launchctl {arguments[0]} could not be run: {error}.", hint="Try again.") from error
        return done.returncode, done.stdout.decode("utf-8", "replace")


@contextmanager
def _written() -> Iterator[None]:
    """Turn an error of the disk into ServiceFailed."""
    try:
        yield
    except OSError as error:
        raise ServiceFailed(
            f"{error.filename} cannot be written: {error.strerror}.", hint="Make it writable for you and try again."
        ) from error


def _refused(command: str, code: int, printed: str) -> ServiceFailed:
    said = " ".join(printed.split()) or "it gave no reason"
    return ServiceFailed(
        f"launchctl {command} ended with {code}: {said}",
        hint="`kbsync service uninstall` and `kbsync service install` begin anew; `kbsync run` needs no service.",
    )
