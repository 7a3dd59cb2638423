"""Which folders tell their changes by events and which must be polled: decided by the file system they lie on."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kbsync.model import Source

Mode = Literal["native", "polling"]

# File systems whose changes come from elsewhere too: another machine, the host of a virtual machine, a program that
# serves them. The kernel tells of what was changed through this mount alone. Named in inotify(7) ("Inotify reports
# only events that a user-space program triggers through the filesystem API ... does not catch remote events that occur
# on network filesystems") and in the issues of watchdog, chokidar, Docker for Mac and WSL (issue 4739: 9p, drvfs).
_WITHOUT_EVENTS = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "ncpfs", "afs", "afpfs", "webdav", "davfs", "ceph", "lustre"),
        *("gpfs", "beegfs", "ocfs2", "gfs2", "orangefs", "pvfs2", "glusterfs", "coda"),
        *("9p", "drvfs", "virtiofs", "vboxsf", "prl_fs", "vmhgfs", "hgfs", "fakeowner", "osxfs", "grpcfuse"),
        *("macfuse", "osxfuse", "fusefs"),
    }
)
# fuse.sshfs, fuse.rclone, fuse.s3fs and so on; `fuseblk` (NTFS and exFAT disks) is local and tells everything.
_FUSE = re.compile(r"fuse(\..*)?")
# An overlay (containers) tells what is changed through it, which is how everybody there changes it; what is changed in
# its lower folders underneath it does not, and the kernel calls that undefined (Documentation/filesystems/overlayfs).

_ESCAPED = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder where a file system begins, and the type of that file system."""

    path: str
    type: str


@dataclass(frozen=True, slots=True)
class Watching:
    """How a source is watched. `why` is a sentence where the file system does not allow events alone, else None.

    A native one with `polled_too` lies on a file system with events, but folders of it on one without.
    """

    mode: Mode
    why: str | None = None
    polled_too: bool = False


def watching_of(source: Source, mounts: Sequence[Mount]) -> Watching:
    """Decide how a source is watched: what its setting says, by itself what the file system's type allows."""
    if source.watch == "polling":
        return Watching("polling")
    if source.watch == "native":
        return Watching("native")
    type_ = type_of(source.path, mounts)
    if type_ is not None and lacks_events(type_):
        return Watching("polling", f"{source.path} is polled: it lies on {type_}, which does not tell every change.")
    prefix = source.path.rstrip(os.sep) + os.sep
    for mount in mounts if source.recursive else ():
        if mount.path.startswith(prefix) and lacks_events(mount.type):
            return Watching(
                "native",
                f"{mount.path} is polled: it lies on {mount.type}, which does not tell every change.",
                polled_too=True,
            )
    return Watching("native")


def lacks_events(type_: str) -> bool:
    """Say whether changes on a file system of this type may come without an event."""
    return type_ in _WITHOUT_EVENTS or _FUSE.fullmatch(type_) is not None


def type_of(path: str, mounts: Sequence[Mount]) -> str | None:
    """Return the type of the file system that a path lies on; None where no mount is known that holds it."""
    found: Mount | None = None
    for mount in mounts:
        holds = path == mount.path or path.startswith(mount.path.rstrip(os.sep) + os.sep)
        # Of two on the same folder the later one covers the earlier.
        if holds and (found is None or len(mount.path) >= len(found.path)):
            found = mount
    return None if found is None else found.type


def mounts() -> tuple[Mount, ...]:
    """Return what is mounted now, in the order in which it was; empty where the system does not say."""
    try:
        if sys.platform == "linux":
            with open("/proc/self/mountinfo", "rb") as file:
                return parsed(file.read())
        else:
            import psutil

            return tuple(Mount(part.mountpoint, part.fstype) for part in psutil.disk_partitions(all=True))
    except OSError:
        return ()  # then everything is taken for local; the heartbeat and the rescans remain


def parsed(mountinfo: bytes) -> tuple[Mount, ...]:
    """Return the mounts of /proc/self/mountinfo, whose format proc_pid_mountinfo(5) describes."""
    found = []
    for line in mountinfo.splitlines():
        fields, _, behind = line.partition(b" - ")
        columns, types = fields.split(b" "), behind.split(b" ")
        if len(columns) >= 5 and types[0]:
            found.append(Mount(os.fsdecode(_ESCAPED.sub(_character, columns[4])), types[0].decode("ascii", "replace")))
    return tuple(found)


def _character(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1], 8)])
