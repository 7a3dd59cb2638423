"""Whether changes of folders are told: the limits of watches, watchers and open files, and the file systems."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kbsync.interfaces.doctor.finding import Finding, fine, warning
from kbsync.interfaces.doctor.patience import within
from kbsync.interfaces.doctor.subject import Subject

# What the daemon takes: one watcher for all folders, one that is made while another ends.
_WATCHERS = 2
_USUAL_WATCHERS = 512
# Connections to the database, children with their pipes, the API's connections: macOS grants a shell 256 in all.
LEAST_FILES = 512
# Counting the folders of a large tree ends here.
_COUNT_S = 2.5
_SYSCTL_FILE = "/etc/sysctl.d/60-kbsync.conf"
_WATCHES, _OWN_WATCHES = "fs.inotify.max_user_watches", "user.max_inotify_watches"
_INSTANCES, _OWN_INSTANCES = "fs.inotify.max_user_instances", "user.max_inotify_instances"


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of the kernel's: the name by which it is set, and its value."""

    name: str
    value: int


@dataclass(frozen=True, slots=True)
class Watches:
    """`needed` folders are to be watched (`at_least`: counting them all took too long), others use `used`."""

    limit: Limit
    used: int
    needed: int
    at_least: bool


def look_at_watches(subject: Subject) -> list[Finding]:
    """Compare the folders of all sources with the watches that the system grants this user."""
    limit = lowest(_WATCHES, _OWN_WATCHES)
    if subject.platform != "linux" or limit is None:
        return [fine("This system has no limit of watched folders.")]
    if subject.status is not None:
        watchers = [one for one in subject.status.get("watchers") or () if one.get("mode") == "native"]
        watched = sum(int(one.get("folders") or 0) for one in watchers)
        needed = watched + sum(int(one.get("unwatched") or 0) for one in watchers)
        used = inotify_used()[1] - watched
        return judge_watches(Watches(limit, max(0, used), needed, at_least=False))
    until = time.monotonic() + _COUNT_S
    counts = [_folders(source.path, source.recursive, until) for source in subject.settings.sources]
    needed = sum(count for count, _ in counts)
    return judge_watches(Watches(limit, inotify_used()[1], needed, at_least=not all(whole for _, whole in counts)))


def judge_watches(found: Watches) -> list[Finding]:
    """Say whether every folder can be watched."""
    from kbsync.sources.coverage import limit_that_fits

    counted = f"{'at least ' if found.at_least else ''}{found.needed:,}"
    limit = found.limit
    if found.used + found.needed > limit.value:
        return [
            warning(
                f"{counted} folders are to be watched, {limit.name} is {limit.value:,}, and other programs use "
                f"{found.used:,}: what is not watched is looked at once a minute.",
                sysctl(limit.name, limit_that_fits(found.used + found.needed)),
            )
        ]
    return [fine(f"Folders to watch: {counted}; {limit.value - found.used:,} can be ({limit.name} = {limit.value:,}).")]


def look_at_watchers(subject: Subject) -> list[Finding]:
    """Compare the watchers that are there with those that the system grants this user."""
    limit = lowest(_INSTANCES, _OWN_INSTANCES)
    if subject.platform != "linux" or limit is None:
        return [fine("This system has no limit of watchers.")]
    used, _ = inotify_used()
    return judge_watchers(limit, used, is_running=subject.status is not None)


def judge_watchers(limit: Limit, used: int, *, is_running: bool) -> list[Finding]:
    """Say whether the daemon gets its watcher; `used` counts those of all programs of this user."""
    if used + (0 if is_running else _WATCHERS) > limit.value:
        return [
            warning(
                f"{used} watchers are in use, and {limit.name} is {limit.value}: folders are looked at once a minute.",
                sysctl(limit.name, max(_USUAL_WATCHERS, 2 * limit.value)),
            )
        ]
    return [fine(f"Watchers in use: {used}; {limit.name} is {limit.value}.")]


def sysctl(name: str, value: int) -> str:
    """Return the command that sets a limit of the kernel's, now and at each start of the machine."""
    return f"echo {name}={value} | sudo tee -a {_SYSCTL_FILE} && sudo sysctl -p {_SYSCTL_FILE}"


def look_at_open_files(_subject: Subject) -> list[Finding]:
    """Examine how many files a process may have open."""
    return judge_open_files(*resource.getrlimit(resource.RLIMIT_NOFILE))


def judge_open_files(soft: int, hard: int) -> list[Finding]:
    """Say whether a process may have enough files open."""
    if soft == resource.RLIM_INFINITY or soft >= LEAST_FILES:
        shown = "any number of" if soft == resource.RLIM_INFINITY else f"{soft:,}"
        return [fine(f"A process may have {shown} files open.")]
    remedy = "ulimit -n 4096"
    if hard != resource.RLIM_INFINITY and hard < LEAST_FILES:
        remedy = "Raise `nofile` for this user in /etc/security/limits.conf to 4096, and log in again."
    return [warning(f"A process may have {soft} files open only; kbsync may need {LEAST_FILES}.", remedy)]


def look_at_file_systems(subject: Subject) -> list[Finding]:
    """Examine what the sources and kbsync's own folder lie on."""
    from kbsync.model import Source
    from kbsync.sources.mounts import lacks_events, mounts, type_of, watching_of
    from kbsync.store import place

    mounted, settings = mounts(), subject.settings
    folder = subject.places.data_dir
    sources = [Source(0, one.path, recursive=one.recursive, watch=one.watch) for one in settings.sources]
    seen = []
    for source in sources:
        type_ = type_of(source.path, mounted)
        watching = watching_of(source, mounted)
        seen.append(Seen(source.path, type_, source.watch, watching.why, type_ is not None and lacks_events(type_)))
    own = within(2.0, lambda: place.warning(folder, type_of(folder, mounted), place.marks_in(folder)))
    return judge_file_systems(seen, None if own is None else own.removesuffix(place.REMEDY).rstrip(), place.REMEDY)


@dataclass(frozen=True, slots=True)
class Seen:
    """A source's folder and its file system; `polled` says why it is polled, `is_deaf` that events are not all told."""

    path: str
    type: str | None
    watch: str
    polled: str | None
    is_deaf: bool


def judge_file_systems(sources: Sequence[Seen], own: str | None, own_remedy: str) -> list[Finding]:
    """Say which folders cannot be watched as they are set, and whether the database lies where it may (`own`: not)."""
    found = [] if own is None else [warning(own, own_remedy)]
    for one in sources:
        if one.watch == "native" and one.is_deaf:
            remedy = f'Set watch = "auto" for {one.path} in config.toml.'
            detail = f"{one.path} lies on {one.type}, which does not tell every change, and is watched by events alone."
            found.append(warning(detail, remedy))
    if found:
        return found
    polled = [one.polled for one in sources if one.polled]
    return [fine(" ".join(polled) if polled else "Every file system tells its changes; the database's keeps it whole.")]


def lowest(name: str, own: str, folder: str = "/proc/sys") -> Limit | None:
    """Return the lower one of a limit's two forms, the second one being a container's; None where neither is there."""
    found = []
    for one in (name, own):
        try:
            with open(os.path.join(folder, *one.split(".")), encoding="ascii") as file:
                found.append(Limit(one, int(file.read())))
        except (OSError, ValueError):
            continue  # another system, or one that does not say
    return min(found, key=lambda limit: limit.value, default=None)


def inotify_used(folder: str = "/proc") -> tuple[int, int]:
    """Return how many watchers, and watches, the programs of this user have that can be seen."""
    watchers = watches = 0
    for descriptor in _inotify_descriptors(folder):
        watchers += 1
        try:
            with open(descriptor, encoding="ascii", errors="replace") as file:
                watches += sum(line.startswith("inotify ") for line in file)
        except OSError:
            continue  # closed meanwhile
    return watchers, watches


def _inotify_descriptors(folder: str) -> Iterator[str]:
    """Yield the fdinfo file of each inotify descriptor of this user's processes."""
    me = os.geteuid()
    for process in os.listdir(folder) if os.path.isdir(folder) else ():
        place = os.path.join(folder, process)
        try:
            if not process.isdigit() or os.stat(place).st_uid != me:
                continue
            for name in os.listdir(os.path.join(place, "fd")):
                if os.readlink(os.path.join(place, "fd", name)) == "anon_inode:inotify":
                    yield os.path.join(place, "fdinfo", name)
        except OSError:
            continue  # ended meanwhile, or not to be looked into


def _folders(path: str, recursive: bool, until: float) -> tuple[int, bool]:
    """Return how many folders of a source are watched, and whether all were counted before the monotonic time."""
    from kbsync.sources.ignore import is_watchable

    count, waiting = 0, [path]
    while waiting:
        if time.monotonic() > until:
            return count + len(waiting), False
        folder = waiting.pop()
        count += 1
        if not recursive:
            break
        try:
            with os.scandir(folder) as entries:
                waiting += [one.path for one in entries if one.is_dir(follow_symlinks=False) and is_watchable(one.name)]
        except OSError:
            continue  # it is not there, or may not be read: other examinations say so
    return count, True
