"""The daemon: whether one runs and answers, what a killed one left, and who has the port of the API."""

from __future__ import annotations

import os
import shlex
import socket
from dataclasses import dataclass

from kbsync.daemon.lock import named_in, owner_of
from kbsync.errors import KbsyncError
from kbsync.interfaces.doctor.finding import Finding, Unclear, fine, problem, warning
from kbsync.interfaces.doctor.patience import within
from kbsync.interfaces.doctor.subject import DaemonSeen, Subject
from kbsync.version import version

_LOOPBACK = "127.0.0.1"
_CONNECT_S = 0.5


@dataclass(frozen=True, slots=True)
class Running:
    """The daemon as it was met. `is_alive`: whether the process that the lock names runs. `holder` is who holds it.

    `socket_left`: a socket's file without anybody behind it. `service_pid`: the service's process, None without one.
    """

    seen: DaemonSeen
    is_alive: bool
    holder: int | None
    socket_left: str | None
    service_pid: int | None
    installed: str
    lock_file: str


def look(subject: Subject) -> list[Finding]:
    """Examine the lock, the socket and the daemon's answer."""
    seen, places = subject.daemon, subject.places
    if seen.owner is not None and seen.status is None and owner_of(places.lock_file) is None:
        seen = DaemonSeen(None, named_in(places.lock_file))  # it has ended since
    named = seen.owner or seen.named
    address = seen.named.socket if seen.named is not None else os.path.join(places.state_dir, "kbsync.sock")
    is_left = seen.owner is None and address is not None and os.path.exists(address)
    holder = None if seen.owner is None or is_alive(seen.owner.pid) else holder_of(places.lock_file)
    return judge(
        Running(
            seen,
            named is not None and is_alive(named.pid),
            holder,
            address if is_left else None,
            None if seen.owner is None else _service_pid(subject),
            version(),
            places.lock_file,
        )
    )


def judge(found: Running) -> list[Finding]:
    """Say whether a daemon runs as it should."""
    owner, named, status = found.seen.owner, found.seen.named, found.seen.status
    if owner is None:
        if named is not None or found.socket_left is not None:
            who = f"Process {named.pid}" if named is not None else "A daemon"
            left = " and ".join(filter(None, (found.lock_file if named else None, found.socket_left)))
            paths = shlex.join(filter(None, (found.lock_file if named else None, found.socket_left)))
            return [
                warning(
                    f"{who} was ended in the middle of its work and left {left}; the next start takes no harm.",
                    f"rm {paths}",
                )
            ]
        return [fine("No daemon runs; `kbsync run` or `kbsync service start` starts one.")]
    if owner.pid == 0:  # it has the lock, and has not written its name yet
        return [fine("Another kbsync begins to work on the data just now.")]
    # One that answers may be in a container, whose processes have other numbers.
    if not found.is_alive and status is None:
        who = f"process {found.holder}" if found.holder else "a process that is not seen from here"
        remedy = f"kill {found.holder}" if found.holder else "Restart the machine, or end the container that holds it."
        return [
            problem(f"{found.lock_file} is locked by {who}, though it names another (process {owner.pid}).", remedy)
        ]
    if owner.role == "command":
        return [fine(f"A command works on the data just now (process {owner.pid}).")]
    if status is None and owner.socket is None:
        doing = f": {owner.doing}" if owner.doing else ""
        if owner.is_held_up:
            return [problem(f"The daemon (process {owner.pid}) cannot go on{doing}", "kbsync status")]
        return [fine(f"The daemon (process {owner.pid}) is starting{doing}.")]
    if status is None:
        detail = f"The daemon (process {owner.pid}) does not answer: {found.seen.silence}."
        restarts = found.service_pid == owner.pid
        by_hand = f"kill {owner.pid}, then start it again."
        if found.seen.hangs:  # one that is stopped takes no other signals than these
            by_hand = f"kill -CONT {owner.pid}; if it goes on hanging: kill -9 {owner.pid}, then start it again."
        return [problem(detail, "kbsync service restart" if restarts else by_hand)]
    anew = "kbsync service restart" if found.service_pid == owner.pid else f"kill {owner.pid}, then start it again."
    told = []
    if found.service_pid is not None and found.service_pid != owner.pid:
        detail = f"Two daemons: process {owner.pid} works, the service (process {found.service_pid}) waits for it."
        told.append(warning(detail, f"kill {owner.pid}"))
    if status.get("version") != found.installed:
        detail = f"The daemon is kbsync {status.get('version')}, and {found.installed} is installed."
        told.append(warning(detail, anew))
    rest = status.get("rest")
    resting = f" {rest['detail']}" if isinstance(rest, dict) and rest.get("detail") else ""
    return told or [fine(f"The daemon (process {owner.pid}) answers.{resting}")]


@dataclass(frozen=True, slots=True)
class Port:
    """The API's port; `is_ours`: the daemon has it, `is_missed`: one runs without it.

    `holder` is (process, name) of who listens there, None: nobody. One that is not told (of another user) is (0, "").
    """

    number: int
    is_enabled: bool
    is_ours: bool
    holder: tuple[int, str] | None
    config_file: str
    is_missed: bool = False


def look_at_port(subject: Subject) -> list[Finding]:
    """Examine who listens at the port."""
    http, status = subject.settings.http, subject.status
    endpoints = () if status is None else status.get("endpoints") or ()
    is_ours = any(str(address).startswith("http://") for address in endpoints)
    holder = None if is_ours or not http.enabled or http.port == 0 else listener(http.port)
    # A daemon that hangs has its port all the same.
    owner = None if isinstance(subject.met, str) else subject.met.owner
    is_ours |= holder is not None and owner is not None and holder[0] == owner.pid
    is_missed = status is not None and http.enabled and not is_ours
    return judge_port(Port(http.port, http.enabled, is_ours, holder, subject.places.config_file, is_missed))


def judge_port(port: Port) -> list[Finding]:
    """Say whether the API gets its port; without it, it answers on its socket alone."""
    if not port.is_enabled:
        return [fine("The API answers on its Unix socket alone, as it is set.")]
    if port.is_missed and port.holder is None:
        number = f"Port {port.number}" if port.number else "A port"
        detail = (
            f"{number} is free, but the daemon did not get it when it started: it answers on its Unix socket alone."
        )
        return [warning(detail, "Restart the daemon: kbsync service restart, or end `kbsync run` and start it again.")]
    if port.is_ours or port.number == 0:
        return [fine("The API has its port." if port.is_ours else "The API takes any free port.")]
    if port.holder is not None:
        pid, name = port.holder
        who = f"{name} (process {pid})" if pid else "another user's program"
        detail = f"Port {port.number} is taken by {who}: the API answers on its Unix socket alone."
        return [
            warning(detail, f"Set port = 0 under [http] in {port.config_file} (any free one), or end that program.")
        ]
    return [fine(f"Port {port.number} is free.")]


def listener(port: int) -> tuple[int, str] | None:
    """Return (process, name) of who listens at a port of this machine, (0, "") where that is not told, None: nobody."""
    import psutil

    try:
        found = [
            one
            for one in psutil.net_connections(kind="tcp")
            if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port
        ]
    except (psutil.Error, OSError):
        found = []
    for one in found:
        if one.pid is not None:
            try:
                holder = psutil.Process(one.pid)
                return one.pid, "another kbsync" if "kbsync" in holder.cmdline() else holder.name()
            except psutil.Error:
                continue  # ended meanwhile
    if found:
        return 0, ""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_S)
        return (0, "") if probe.connect_ex((_LOOPBACK, port)) == 0 else None


def is_alive(pid: int) -> bool:
    """Return whether a process runs, whoever's it is."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return pid > 0


def holder_of(path: str, locks: str = "/proc/locks") -> int | None:
    """Return the process that has locked a file, as the kernel lists it; None where it is not told."""
    try:
        number = str(os.stat(path).st_ino)
        with open(locks, encoding="ascii") as file:
            rows = [line.split() for line in file]
    except OSError:
        return None
    for row in rows:
        fields = [field for field in row if field != "->"]
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == number:
            return int(fields[4]) if fields[4].isdigit() and int(fields[4]) else None
    return None


def _service_pid(subject: Subject) -> int | None:
    """Return the service's process where it can be told within a moment."""
    try:
        state = within(3.0, lambda: subject.find_service().state())
    except (KbsyncError, Unclear, TimeoutError, OSError):
        return None
    return state.pid if state.running in ("running", "starting") else None
