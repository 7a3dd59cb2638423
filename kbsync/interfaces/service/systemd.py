"""The user unit of this user under systemd: put in place, and what `systemctl --user` and `loginctl` are asked."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from kbsync import machine
from kbsync.errors import ServiceFailed
from kbsync.interfaces.service import systemd_unit
from kbsync.interfaces.service.service import WITHOUT_A_SERVICE, Program, Running, State
from kbsync.interfaces.service.systemd_unit import MARK, NAME

_RUN_FOR_USERS = "/run/user"
# Only a journal on the disk is split by user, so that its owner may read it. The socket: a journald runs.
_JOURNAL, _JOURNAL_SOCKET = "/var/log/journal", "/run/systemd/journal/stdout"
# `systemctl` itself waits for a unit to stop: 20 seconds and what a busy machine adds.
_ANSWER_S = 60.0
# What has not started by then goes on starting, and that is said.
_START_S, _LOOK_S = 20.0, 0.25
# systemd/systemd#43361: mended in 256.3, never in 255.
_ENDS_LINGERING = 255
# What `kbsync run` ends with then; the unit is not started again.
_BAD_CONFIGURATION = "78"

_NO_MANAGER = (
    f"A container has none. {WITHOUT_A_SERVICE} Elsewhere log in on this machine as this user (`su` and `sudo` do "
    "not), or have `sudo loginctl enable-linger {user}` start its manager."
)

Run = Callable[[Sequence[str], Mapping[str, str]], "Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended, and what it said."""

    code: int
    output: str
    complaint: str


def run(command: Sequence[str], environ: Mapping[str, str]) -> Outcome:
    """Run a command of the system to its end. Raises ServiceFailed where it does not end, or is not there."""
    try:
        done = subprocess.run(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_ANSWER_S,
        )
    except FileNotFoundError as error:
        raise ServiceFailed(f"There is no `{command[0]}` on this machine.", hint=WITHOUT_A_SERVICE) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServiceFailed(f"`{' '.join(command)}` failed: {error}.") from error
    return Outcome(done.returncode, done.stdout, done.stderr)


class Systemd:
    """The service as a unit of the user's own systemd; `environ` as of the process that asks. See `Service`."""

    def __init__(
        self,
        program: Program,
        environ: Mapping[str, str],
        run: Run = run,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._program = program
        self._run = run
        self._sleep = sleep
        self._environ = _with_runtime_folder(environ)

    @cached_property
    def file(self) -> str:
        """Return where the unit belongs: a manager that began without the shell's XDG_CONFIG_HOME never looks there."""
        usual = os.path.join(os.path.expanduser("~"), ".config", "systemd", "user")
        settings = self._environ.get("XDG_CONFIG_HOME", "")
        named = os.path.join(settings, "systemd", "user") if os.path.isabs(settings) else usual
        if named != usual:
            looked_in = self._unit_path()
            if usual in looked_in and named not in looked_in:
                return os.path.join(usual, NAME)
        return os.path.join(named, NAME)

    def install(self, *, start: bool) -> list[str]:
        wanted = systemd_unit.render(self._program)
        self._require_manager()
        there = _read(self.file)
        if there is not None and not there.startswith(MARK):
            raise ServiceFailed(
                f"{self.file} was not written by kbsync{_how(self.file)}, so it stays as it is.",
                hint="Move it away, then `kbsync service install` again.",
            )
        said = []
        is_new = there != wanted
        if is_new:
            _write(self.file, wanted)
            said.append(f"Wrote {self.file}." if there is None else f"Wrote {self.file} anew.")
            self._systemctl("daemon-reload")
        else:
            said.append(f"{self.file} is up to date.")
        if self._shown().get("UnitFileState") != "enabled":
            self._systemctl("enable", "--quiet", NAME)
            said.append("It starts at login.")
        said += [f"Your changes in {drop_in} hold too." for drop_in in self._drop_ins()]
        if start and is_new:
            said.append(self._brought_up("restart"))
        elif start:
            said.append(self._brought_up("start"))
        if self._have_linger():
            said.append("Lingering is enabled: it goes on when you log out.")
        return said + self._of_logout()

    def uninstall(self) -> list[str]:
        there = _read(self.file)
        if there is not None and not there.startswith(MARK):
            return [f"{self.file} was not written by kbsync{_how(self.file)}, so it stays as it is."]
        is_managed = self._version() is not None
        if there is None:
            other = self._shown().get("FragmentPath") if is_managed else None
            if other:
                return [f"{other} was put there by a package: `systemctl --user disable --now kbsync` turns it off."]
            return ["There is no service to remove."]
        said = []
        if is_managed:
            self._systemctl("disable", "--now", "--quiet", NAME)
        else:
            _remove(os.path.join(os.path.dirname(self.file), "default.target.wants", NAME))
            said.append("The user's service manager does not run: a daemon that runs all the same was left alone.")
        _remove(self.file)
        said.insert(0, f"Removed {self.file}.")
        if is_managed:
            self._systemctl("daemon-reload")
            self._asked("reset-failed", NAME)  # a unit that never failed is no error
        said += [f"Your changes in {folder} stay." for folder in self._own_folders()]
        if is_managed and self._lingers():
            said.append("Lingering stays enabled, other services may need it: `loginctl disable-linger` ends it.")
        return said

    def start(self) -> list[str]:
        self._require_installed()
        return [self._brought_up("start")]

    def stop(self) -> list[str]:
        self._require_installed()
        self._systemctl("stop", NAME)
        return ["The service has stopped; it starts again at the next login."]

    def restart(self) -> list[str]:
        self._require_installed()
        return [self._brought_up("restart")]

    def state(self) -> State:
        there = _read(self.file)
        is_current = there == systemd_unit.render(self._program)
        version = self._version()
        if version is None:
            notice = f"The user's systemd does not answer. {_NO_MANAGER.format(user=self._user())}"
            return State(there is not None, is_current, "stopped", None, self.file, (notice,), is_answered=False)
        shown = self._shown()
        fragment = shown.get("FragmentPath") or self.file
        notices = []
        if there is None and fragment != self.file:
            is_current = True  # a package answers for its own
        elif there is not None and not there.startswith(MARK):
            notices.append(f"{self.file} was not written by kbsync{_how(self.file)}.")
        elif there is not None and not is_current:
            notices.append("The unit is out of date: `kbsync service install` writes it anew.")
        installed = there is not None or shown.get("LoadState") == "loaded"
        if installed:
            notices += [f"{drop_in} changes the unit." for drop_in in self._drop_ins()]
            if shown.get("UnitFileState") != "enabled":
                notices.append("It does not start at login: `kbsync service install` has it do so.")
            notices += self._of_logout()
        running = _running(shown)
        if running in ("starting", "failed"):
            notices.insert(0, _why(shown))
        pid = int(shown.get("MainPID") or 0)
        return State(installed, is_current, running, pid or None, fragment, tuple(filter(None, notices)))

    def log_command(self, lines: int, *, follow: bool) -> Sequence[str]:
        is_kept = os.path.isdir(_JOURNAL) and os.path.exists(_JOURNAL_SOCKET)
        if is_kept and shutil.which("journalctl", path=self._environ.get("PATH")):
            journal = ["journalctl", "--user", f"--unit={NAME}", f"--lines={lines}", "--no-pager"]
            return [*journal, "--follow"] if follow else journal
        return ["tail", "-n", str(lines), *(["-F"] if follow else []), self._program.log_file]

    # ---- starting ----

    def _brought_up(self, verb: str) -> str:
        """Start or restart the unit and say how it is then. Raises ServiceFailed where it ended at once."""
        shown = self._shown()
        before = shown.get("MainPID") if verb == "restart" else None
        if shown.get("ActiveState") == "failed":
            self._asked("reset-failed", NAME)  # else a unit that failed too often is not even tried
        self._systemctl(verb, "--no-block", NAME)
        waited = 0.0
        while True:
            shown = self._shown()
            # The old process is shown until systemd gets round to it.
            running = "starting" if before not in (None, "0") and shown.get("MainPID") == before else _running(shown)
            if running == "running":
                return f"The service runs (process {shown.get('MainPID')})."
            if running == "failed" or shown.get("SubState") == "auto-restart":
                raise ServiceFailed(
                    f"The service does not run. {_why(shown)}", hint="`kbsync service logs` tells more."
                )
            if waited >= _START_S:
                return _why(shown) or "The service is still starting."
            self._sleep(_LOOK_S)
            waited += _LOOK_S

    # ---- what is asked of systemd ----

    def _systemctl(self, *arguments: str) -> str:
        outcome = self._asked(*arguments)
        if outcome.code:
            told = _sentence(outcome.complaint or f"exit code {outcome.code}")
            raise ServiceFailed(f"`systemctl --user {' '.join(arguments)}` failed: {told}")
        return outcome.output

    def _asked(self, *arguments: str) -> Outcome:
        return self._run(["systemctl", "--user", "--no-pager", *arguments], self._environ)

    def _shown(self) -> dict[str, str]:
        """Return what systemd knows of the unit, by property."""
        asked = "LoadState,ActiveState,SubState,UnitFileState,FragmentPath,DropInPaths,MainPID,Result,StatusText"
        output = self._systemctl("show", f"--property={asked},ExecMainStatus", NAME)
        return dict(line.split("=", 1) for line in output.splitlines() if "=" in line)

    def _version(self) -> int | None:
        """Return which systemd the user's manager is; None where none answers."""
        try:
            outcome = self._asked("show", "--property=Version", "--value")
        except ServiceFailed:
            return None
        number = re.match(r"\d+", outcome.output.strip())
        return None if outcome.code or number is None else int(number[0])

    def _unit_path(self) -> list[str]:
        """Return the folders in which the user's manager looks for units; none where it does not answer."""
        try:
            outcome = self._asked("show", "--property=UnitPath", "--value")
        except ServiceFailed:
            return []
        return [] if outcome.code else _words(outcome.output)

    def _require_manager(self) -> None:
        outcome = self._asked("show", "--property=Version")
        if outcome.code:
            told = _sentence(outcome.complaint)
            raise ServiceFailed(
                f"The user's systemd does not answer: {told}", hint=_NO_MANAGER.format(user=self._user())
            )

    def _require_installed(self) -> None:
        self._require_manager()
        if self._shown().get("LoadState") == "not-found":
            raise ServiceFailed("The service is not installed.", hint="`kbsync service install` does that.")

    def _drop_ins(self) -> list[str]:
        return _words(self._shown().get("DropInPaths") or "")

    def _own_folders(self) -> list[str]:
        folder = self.file + ".d"
        return [folder] if os.path.isdir(folder) else []

    # ---- logging out ----

    def _have_linger(self) -> bool:
        """Have this user's services outlive the logout, where a user may; return whether that is new."""
        if self._lingers():
            return False
        try:
            self._run(["loginctl", "--no-ask-password", "enable-linger"], self._environ)
        except ServiceFailed:
            pass  # without it `_of_logout` says what that means
        return self._lingers()

    def _lingers(self) -> bool:
        try:
            command = ["loginctl", "show-user", str(os.getuid()), "--property=Linger", "--value"]
            return self._run(command, self._environ).output.strip() == "yes"
        except ServiceFailed:
            return False

    def _of_logout(self) -> list[str]:
        """Say what a person should know of logging out."""
        if not self._lingers():
            return [
                "It stops when you log out and starts at the next login: "
                f"`sudo loginctl enable-linger {self._user()}` has it run all the time."
            ]
        if self._version() == _ENDS_LINGERING:
            return [
                "Lingering is enabled, but systemd 255 may end it all the same at the last logout "
                "(systemd issue 43361): a newer systemd does not."
            ]
        return []

    def _user(self) -> str:
        return self._environ.get("USER") or self._environ.get("LOGNAME") or machine.user_name()


def _sentence(complaint: str) -> str:
    """Return what a program complained of on one line, with a full stop."""
    return " ".join(complaint.split()).rstrip(".") + "."


def _running(shown: Mapping[str, str]) -> Running:
    match shown.get("ActiveState"):
        case "active" | "reloading" | "refreshing":
            return "running"
        case "activating":
            return "starting"
        case "failed":
            return "failed"
        case _:
            return "stopped"


def _why(shown: Mapping[str, str]) -> str:
    """Say what a unit that starts is busy with, or how one that does not run ended."""
    result, code = shown.get("Result", ""), shown.get("ExecMainStatus", "0")
    if shown.get("SubState") == "auto-restart" or shown.get("ActiveState") == "failed":
        how = f"with exit code {code}" if result == "exit-code" else f"({result})"
        again = "and is not started again by itself" if shown.get("ActiveState") == "failed" else "and is tried again"
        is_refused = (result, code) == ("exit-code", _BAD_CONFIGURATION)
        return f"It ended {how} {again}." + (" `kbsync config check` names the mistakes." if is_refused else "")
    doing = shown.get("StatusText", "").removesuffix(".")
    return f"The service is starting: {doing}." if doing else ""


def _with_runtime_folder(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which `systemctl --user` finds the manager, from a shell of `su` too."""
    found = {**environ, "LC_ALL": "C.UTF-8"}
    folder = os.path.join(_RUN_FOR_USERS, str(os.getuid()))
    if not found.get("XDG_RUNTIME_DIR") and os.path.isdir(folder):
        found["XDG_RUNTIME_DIR"] = folder
    return found


def _words(shown: str) -> list[str]:
    """Return the words of a list as `systemctl show` quotes them, a dollar and a grave accent escaped too."""
    return [re.sub(r"\\([$`])", r"\1", word) for word in shlex.split(shown)]


def _how(file: str) -> str:
    return " (it is masked: `systemctl --user unmask kbsync`)" if os.path.realpath(file) == os.devnull else ""


def _read(file: str) -> str | None:
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ServiceFailed(f"{file} cannot be read: {error.strerror}.") from error


def _write(file: str, text: str) -> None:
    """Put a file in place whole; a link leads to where it leads. For its owner only: variables may be secrets."""
    file = os.path.realpath(file)
    folder = os.path.dirname(file)
    temporary = ""
    try:
        os.makedirs(folder, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{NAME}-", dir=folder)
        with open(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, file)
    except OSError as error:
        if temporary:
            _remove(temporary)
        raise ServiceFailed(f"{file} cannot be written: {error.strerror}.") from error


def _remove(file: str) -> None:
    try:
        os.unlink(file)
    except FileNotFoundError:
        pass  # as it should be
    except OSError as error:
        raise ServiceFailed(f"{file} cannot be removed: {error.strerror}.") from error
