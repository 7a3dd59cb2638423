"""The permissions of kbsync's own folders and files, its logs, and the folders that it follows."""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from kbsync import machine
from kbsync.interfaces.doctor.finding import Finding, fine, problem, warning
from kbsync.interfaces.doctor.patience import within
from kbsync.interfaces.doctor.storage import nearest
from kbsync.interfaces.doctor.subject import Subject
from kbsync.sources import full_disk_access

# A disk that is there answers at once.
_LOOK_S = 3.0
_OTHERS, _OTHERS_WRITE = 0o077, 0o022


@dataclass(frozen=True, slots=True)
class Place:
    """One of kbsync's own folders or files as it is. `mode` holds the permission bits, `owner` the user's number."""

    path: str
    kind: Literal["folder", "file", "other"]
    mode: int
    owner: int
    is_open: bool


def look_at_own(subject: Subject) -> list[Finding]:
    """Examine kbsync's folders, its database, the lock and the token."""
    places = subject.places
    folders = (places.data_dir, places.state_dir, places.log_dir)
    inside = (places.documents_dir, places.staging_dir, places.conversions_dir)
    files = [places.database + ending for ending in ("", "-wal", "-shm")]
    files += [places.lock_file, places.token_file, places.log_file, places.error_log]
    wanted = dict.fromkeys((*folders, *inside), "folder") | dict.fromkeys(files, "file")
    there = [place for path in wanted if (place := place_at(path)) is not None]
    # A folder where a log should be is told with the logs.
    seen = [place for place in there if place.kind == wanted[place.path]]
    # Such as one of no user's: only its owner could have left it like that.
    absent = [
        (path, above, os.stat(above).st_uid)
        for path in folders
        if not os.path.isdir(path) and not _is_usable(above := nearest(path))
    ]
    return judge_own(seen, absent, os.geteuid(), machine.user_name())


def judge_own(seen: Sequence[Place], absent: Sequence[tuple[str, str, int]], user: int, name: str) -> list[Finding]:
    """Say which of kbsync's places are another's, closed to this user or open to others.

    `absent`: (folder that is not there or cannot be reached, the one above it that is closed, whose that one is).
    """
    found, told = [], set[str]()
    for place in seen:
        if any(place.path.startswith(folder + os.sep) for folder in told):
            continue  # what lies in it is no better, and is set right with it
        finding = _of_place(place, user, name)
        if finding is not None:
            found.append(finding)
            if finding.state == "problem" and place.kind == "folder":
                told.add(place.path)
    found += _of_loose([place for place in seen if _is_loose(place, user)])
    for above, owner in dict.fromkeys((above, owner) for _path, above, owner in absent):
        if owner == user:
            detail = f"{above}, where kbsync keeps its things, is closed to {name} itself."
            found.append(problem(detail, f"chmod u+rwx {shlex.quote(above)}"))
            continue
        paths = [path for path, other, _owner in absent if other == above]
        remedy = f"sudo mkdir -p {shlex.join(paths)} && sudo chown -R {name} {shlex.join(paths)}"
        are = "is" if len(paths) == 1 else "are"
        found.append(problem(f"{', '.join(paths)} {are} not there and cannot be made: {above} is another's.", remedy))
    return found or [fine(f"kbsync's folders and files are {name}'s alone.")]


def look_at_logs(subject: Subject) -> list[Finding]:
    """Examine whether the log and the list of failed files can be written, without writing."""
    places = subject.places
    looked = [(path, _why_unwritable(path)) for path in (places.log_file, places.error_log)]
    own = (places.log_dir, places.state_dir, places.data_dir)
    # A closed folder of ours, or one above, is told with the permissions, once.
    if any(why not in (None, "folder") and any(_holds(str(why), one) for one in own) for _path, why in looked):
        return []
    return judge_logs(looked)


def judge_logs(logs: Sequence[tuple[str, str | None]]) -> list[Finding]:
    """Say which logs cannot be written; each with the reason, None where it can."""
    found = []
    for path, why in logs:
        if why == "folder":
            found.append(warning(f"{path} is a folder, so no log can be written there.", f"rmdir {shlex.quote(path)}"))
        elif why is not None:
            remedy = f"chmod u+rwX {shlex.quote(why)}"
            found.append(warning(f"{path} cannot be written: {why} is closed to this user.", remedy))
    return found or [fine(f"The log is {logs[0][0]}, the list of failed files {logs[1][0]}.")]


def look_at_sources(subject: Subject) -> list[Finding]:
    """Look into each folder that is followed; one on a disk that does not answer is given up after seconds."""
    looked = [(one.path, one.mode, why_closed(one.path, one.mode)) for one in subject.settings.sources]
    executable = machine.program() if subject.platform == "darwin" else subject.executable
    return judge_sources(looked, subject.platform, executable, machine.user_name())


# Why a folder cannot be followed: an error number of the system's, or that it did not answer, is no folder, or that
# an inbox's files cannot be taken out of it.
Why = int | Literal["silent", "file", "full"]


def judge_sources(
    looked: Sequence[tuple[str, str, Why | None]], platform: str, executable: str, user: str
) -> list[Finding]:
    """Say which of the (path, mode, why it cannot be followed) need something."""
    found = []
    for path, _mode, why in looked:
        shown = shlex.quote(path)
        if why is None:
            continue
        if why == "silent":
            remedy = f"sudo umount -l {shown}, then mount it again."
            found.append(problem(f"{path} does not answer: it lies on a disk that is gone.", remedy))
        elif why == "file":
            found.append(problem(f"{path} is no folder.", f"kbsync sources remove {shown}"))
        elif why == "full":
            found.append(problem(f"{user} cannot take files out of the inbox {path}.", f"chmod u+rwx {shown}"))
        elif why == errno.ENOENT:
            remedy = f"Mount its disk; if it is gone for good: kbsync sources remove {shown}"
            found.append(warning(f"{path} is not there; what is indexed of it stays.", remedy))
        elif why == errno.EPERM and platform == "darwin":
            remedy = f"Add {executable} in {full_disk_access.WHERE}, then: kbsync service restart"
            found.append(problem(f"macOS does not let {executable} read {path}.", remedy))
        elif why in (errno.EACCES, errno.EPERM):
            found.append(problem(f"{path} is not readable for {user}.", f"chmod u+rwx {shown}"))
        else:
            error = os.strerror(why) if isinstance(why, int) else why
            remedy = "Have its disk checked, and mount it again."
            found.append(problem(f"{path} cannot be read: {error}.", remedy))
    if found:
        return found
    if not looked:
        return [fine("No folder is followed yet; `kbsync sources add FOLDER` adds one.")]
    return [fine(f"{len(looked)} folder{'s' if len(looked) > 1 else ''} followed, all readable.")]


def why_closed(path: str, mode: str, seconds: float = _LOOK_S) -> Why | None:
    """Return why a source cannot be followed, None where it can."""

    def look() -> Why | None:
        try:
            if not stat.S_ISDIR(os.stat(path).st_mode):
                return "file"
            with os.scandir(path) as entries:
                first = next(entries, None)
            if first is not None:
                os.lstat(os.path.join(path, first.name))  # without permission to pass, names can be listed all the same
        except OSError as error:
            return error.errno or errno.EIO
        return "full" if mode == "inbox" and not os.access(path, os.W_OK | os.X_OK) else None

    try:
        return within(seconds, look)
    except TimeoutError:
        return "silent"


def place_at(path: str, opens: Callable[[str, int], bool] = os.access) -> Place | None:
    """Return what is at a path; None where nothing is, or the way to it is closed, of which the folder tells."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    mode = status.st_mode
    kind: Literal["folder", "file", "other"] = (
        "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"
    )
    wanted = os.R_OK | os.W_OK | (os.X_OK if kind == "folder" else 0)
    return Place(path, kind, stat.S_IMODE(mode), status.st_uid, opens(path, wanted))


def _of_place(place: Place, user: int, name: str) -> Finding | None:
    shown = shlex.quote(place.path)
    if place.owner != user:
        return problem(f"{place.path} is another user's.", f"sudo chown -R {name} {shown}")
    if not place.is_open:
        bits = "rwx" if place.kind == "folder" else "rw"
        return problem(f"{place.path} is closed to {name} itself (mode {place.mode:o}).", f"chmod u+{bits} {shown}")
    return None


def _is_loose(place: Place, user: int) -> bool:
    return place.owner == user and place.is_open and bool(place.mode & _OTHERS) and place.kind != "other"


def _of_loose(places: Sequence[Place]) -> list[Finding]:
    """Say in one warning what others can get at, with one command for all of it."""
    if not places:
        return []
    first, more = places[0], len(places) - 1
    can = "look into and change" if any(place.mode & _OTHERS_WRITE for place in places) else "look into"
    if not more:
        wanted = 700 if first.kind == "folder" else 600
        detail = f"Others can {can} {first.path} (mode {first.mode:o})."
        return [warning(detail, f"chmod {wanted} {shlex.quote(first.path)}")]
    paths = [place.path for place in places]
    tops = [path for path in paths if not any(path.startswith(other + os.sep) for other in paths)]
    detail = f"Others can {can} {first.path} (mode {first.mode:o}) and {more} more of kbsync's folders and files."
    return [warning(detail, f"chmod -R go-rwx {shlex.join(tops)}")]


def _why_unwritable(path: str) -> str | None:
    """Return what keeps a log from being written: `folder`, or the path that is closed."""
    if os.path.isdir(path):
        return "folder"
    if os.path.exists(path):
        return None if os.access(path, os.W_OK) else path
    above = nearest(os.path.dirname(path))
    return None if _is_usable(above) else above


def _holds(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def closed_on_the_way(path: str) -> tuple[str, bool] | None:
    """Return what keeps a file from being read, the file or a folder above it, and whether it is this user's."""
    above = [path]
    while above[-1] != os.path.dirname(above[-1]):
        above.append(os.path.dirname(above[-1]))
    for one in reversed(above):
        try:
            status = os.stat(one)
        except OSError:
            return None  # it is not there, which is another matter
        if not os.access(one, os.R_OK if one == path else os.X_OK):
            return one, status.st_uid == os.geteuid()
    return None


def _is_usable(folder: str) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)
