"""Whether the kernel really watches what it should: its own list of watches, and what its limit is raised to. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

# `inotify wd:1 ino:9e7e sdev:800013 mask:800afce ...`, numbers in hexadecimal: proc_pid_fdinfo(5).
_WATCH = re.compile(r"^inotify wd:([0-9a-f]+) ino:([0-9a-f]+) ", re.MULTILINE)

# What distributions and the makers of editors recommend; kernel memory of about 1 KB a watch is used when it is taken.
_USUAL_LIMIT = 524_288


@dataclass(frozen=True, slots=True)
class WalkedFolders:
    """The folders of a source that a walk entered, path to inode, and the topmost ones that rules leave out."""

    entered: Mapping[str, int]
    left_out: frozenset[str]


def kernel_watches(fdinfo: str) -> dict[int, int]:
    """Return watch descriptor -> inode, as /proc/self/fdinfo of an inotify descriptor lists them."""
    return {int(found[1], 16): int(found[2], 16) for found in _WATCH.finditer(fdinfo)}


def to_watch_anew(
    root: str, entered: Mapping[str, int], ours: Mapping[str, int], kernel: Mapping[int, int]
) -> list[str]:
    """Return the folders that a walk entered and whose watch is absent, or is on another folder than the one there.

    `ours`: path to watch descriptor, as the watcher believes; a watch that the kernel does not list is none. On some
    file systems (overlay, btrfs) the kernel lists other inodes than a look at the folder gives: it shows at the root.
    """
    same_numbers = root in ours and kernel.get(ours[root]) == entered.get(root)

    def is_watched(path: str, inode: int) -> bool:
        listed = kernel.get(ours.get(path, -1))
        return listed is not None and (listed == inode or not same_numbers)

    return [path for path, inode in entered.items() if not is_watched(path, inode)]


def innermost(path: str, folders: frozenset[str]) -> str | None:
    """Return the innermost of the folders that a path is or lies below; None where it is in none of them."""
    while folders and path:
        if path in folders:
            return path
        path = path.rpartition("/")[0]
    return None


def is_within(path: str, folders: frozenset[str]) -> bool:
    """Say whether a path is one of the folders or lies below one."""
    return innermost(path, folders) is not None


def limit_that_fits(needed: int) -> int:
    """Return the limit to set where so many watches are needed: room for twice as many."""
    fits = _USUAL_LIMIT
    while fits < 2 * needed:
        fits *= 2
    return fits


def limit_notice(folder: str, unwatched: int, limit: int | None) -> str:
    """Return what to tell a person of whose folders `unwatched` are beyond the system's limit of watches."""
    fits = limit_that_fits((limit or 0) + unwatched)
    one = unwatched == 1
    return (
        f"{unwatched} folder{'' if one else 's'} of {folder} {'is' if one else 'are'} not watched, because the "
        f"system's limit of {'watches' if limit is None else f'{limit} watches'} is reached; changes there are found "
        f"within a minute. To see them at once: `sudo sysctl fs.inotify.max_user_watches={fits}`."
    )


def watch_limit() -> int | None:
    """Return how many watches the system grants this user; None where it does not say."""
    limits = []
    # The second one holds in a container of its own.
    for path in ("/proc/sys/fs/inotify/max_user_watches", "/proc/sys/user/max_inotify_watches"):
        try:
            with open(path, encoding="ascii") as file:
                limits.append(int(file.read()))
        except (OSError, ValueError):
            continue
    return min(limits, default=None)
