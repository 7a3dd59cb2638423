"""What there is of this machine for us: cores, memory and power, where a container or a unit sets limits as well."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterator
from dataclasses import dataclass

_CGROUPS = "/sys/fs/cgroup"
_POWER = "/sys/class/power_supply"
# What is larger says that there is no limit: the first cgroups write the largest number that they know.
_NO_LIMIT = 1 << 60


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes. `total`: what the machine has; `limit`: the most that we may have of it; `free`: what can be had now."""

    total: int
    limit: int
    free: int


def user_name() -> str:
    """Return this user's name, the number where the system knows none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def cores(cgroups: str = _CGROUPS, membership: str = "/proc/self/cgroup") -> int:
    """Return how many cores this process may use: a share of one is one."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    shares = [share for folder in _groups(cgroups, membership, "cpu") if (share := _cpu_share(folder)) is not None]
    return max(1, int(min([float(own), *shares])))


def memory(cgroups: str = _CGROUPS, membership: str = "/proc/self/cgroup") -> Memory:
    """Return the memory that this process and its children can have together."""
    import psutil

    found = psutil.virtual_memory()
    limit, free = int(found.total), int(found.available)
    for folder in _groups(cgroups, membership, "memory"):
        set_here = _limit(folder)
        if set_here is not None:
            limit = min(limit, set_here)
            free = min(free, max(0, set_here - _used(folder)))
    return Memory(int(found.total), limit, free)


def waited_for_cpu(pid: int, processes: str = "/proc") -> float:
    """Return for how many seconds the thread of a process that had to wait longest could have run and was not let.

    0 where the system does not tell.
    """
    tasks = os.path.join(processes, str(pid), "task")
    try:
        threads = os.listdir(tasks)
    except OSError:
        return 0.0
    told = [(_text(os.path.join(tasks, thread), "schedstat") or "").split() for thread in threads]
    return max((int(numbers[1]) / 1e9 for numbers in told if len(numbers) > 1 and numbers[1].isdigit()), default=0.0)


def on_battery(power: str = _POWER) -> bool:
    """Say whether the machine runs on its battery now; one without any, or that does not tell, is plugged in."""
    import psutil

    # The battery of a mouse or of headphones is listed too, and psutil takes it for the machine's.
    if sys.platform == "linux" and not _has_battery(power):
        return False
    try:
        found = psutil.sensors_battery()
    except (OSError, ValueError, RuntimeError, psutil.Error):  # what a driver writes there is not always a number
        return False
    return found is not None and found.power_plugged is False


def _has_battery(power: str) -> bool:
    try:
        supplies = os.listdir(power)
    except OSError:
        return False
    folders = [os.path.join(power, name) for name in supplies]
    return any(_text(folder, "type") == "Battery" and _text(folder, "scope") != "Device" for folder in folders)


def _groups(cgroups: str, membership: str, controller: str) -> Iterator[str]:
    """Yield the folders of the groups that a controller counts us in, from our own up to the outermost that we see."""
    for line in (_text(os.path.dirname(membership), os.path.basename(membership)) or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        # The second version has one tree for all controllers, the first one for each.
        root = os.path.join(cgroups, controller) if controllers else cgroups
        parts = [part for part in path.split("/") if part and part != ".."]
        for length in range(len(parts), -1, -1):
            yield os.path.join(root, *parts[:length])


def _cpu_share(folder: str) -> float | None:
    """Return how many cores a group may use, None without a limit."""
    told = _text(folder, "cpu.max")
    if told is None:
        told = f"{_text(folder, 'cpu.cfs_quota_us') or 'max'} {_text(folder, 'cpu.cfs_period_us') or ''}"
    quota, _, period = told.partition(" ")
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:  # "max", or -1
        return None
    return int(quota) / int(period)


def _limit(folder: str) -> int | None:
    names = ("memory.max", "memory.high", "memory.limit_in_bytes")
    limits = [int(told) for name in names if (told := _text(folder, name)) is not None and told.isdigit()]
    return min((limit for limit in limits if limit < _NO_LIMIT), default=None)


def _used(folder: str) -> int:
    """Return what a group holds that is not given back at need: the cache of files is."""
    used = _text(folder, "memory.current") or _text(folder, "memory.usage_in_bytes") or "0"
    counted = dict(line.split(" ", 1) for line in (_text(folder, "memory.stat") or "").splitlines() if " " in line)
    cached = counted.get("total_inactive_file") or counted.get("inactive_file") or "0"
    return max(0, int(used) - int(cached)) if used.isdigit() and cached.isdigit() else 0


def _text(folder: str, name: str) -> str | None:
    try:
        with open(os.path.join(folder, name), encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None


def program() -> str:
    """Return the file that this process runs, as the system sees it: some Pythons start another one in their place."""
    import psutil

    try:
        return psutil.Process().exe() or os.path.realpath(sys.executable)
    except (OSError, psutil.Error):
        return os.path.realpath(sys.executable)
