"""What is known of a database beside the database: that one was made, how it was left, what looked damaged in it.

Small files in its folder. Losing one costs little: the next start takes less for granted, or looks once more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from kbsync.filesystem import sync_folder

# Endings of the names of a database's files.
COMPANIONS = ("", "-wal", "-shm", "-journal")
# A database that was called damaged so often within a day, and looked whole each time, is not believed any more.
_MOST_CLEARED, _CLEARED_S = 2, 86_400.0


@dataclass(frozen=True, slots=True)
class Mark:
    """That kbsync made a database there. `inode`: its file when it was opened last. Times are seconds since 1970.

    `closed_ns`: when the file was changed last, where it was closed with nothing left in a write-ahead log; None while
    it is open, or left otherwise. `cleared`: so often it was called damaged and then found whole, the last time at
    `cleared_at`.
    """

    made_at: float
    inode: int = 0
    closed_ns: int | None = None
    cleared: int = 0
    cleared_at: float = 0.0


def mark_of(database: str) -> Mark | None:
    """Return the mark beside a database; None where none was ever made here, or the mark is lost."""
    content = _read(_beside(database, "mark"))
    try:
        return None if content is None else Mark(**content)
    except TypeError:
        return None  # it can be read, and is none


def opened(database: str, now: float) -> None:
    """Mark that a database is there and in use."""
    mark = mark_of(database) or Mark(now)
    _write(_beside(database, "mark"), asdict(replace(mark, inode=os.stat(database).st_ino, closed_ns=None)))


def closed(database: str) -> None:
    """Mark how a database was left. For when every connection of this process is closed."""
    mark = mark_of(database)
    if mark is not None and os.path.exists(database) and not size_of(database + "-wal"):
        _write(_beside(database, "mark"), asdict(replace(mark, closed_ns=os.stat(database).st_mtime_ns)))


def suspect(database: str, what: str, *, is_told: bool = True) -> None:
    """Note that a database looked damaged, for whoever opens it next. The first note stays.

    `is_told`: SQLite says so; else it is a guess, and however often it is made, only a look can prove it.
    """
    if not is_noted(database):
        _write(_beside(database, "suspect"), {"what": what, "is_told": is_told})


def noted(database: str) -> str | None:
    """Return what looked damaged, None where nothing did."""
    content = _read(_beside(database, "suspect"))
    return None if content is None else str(content.get("what"))


def is_noted(database: str) -> bool:
    """Return whether something looked damaged; cheap enough to be asked all the time."""
    return os.path.exists(_beside(database, "suspect"))


def clear(database: str, now: float) -> None:
    """A thorough look found nothing: forget the note, and count that."""
    mark, note = mark_of(database), _read(_beside(database, "suspect"))
    if mark is not None and note is not None and note.get("is_told"):
        lately = mark.cleared if _is_lately(mark, now) else 0
        _write(_beside(database, "mark"), asdict(replace(mark, cleared=lately + 1, cleared_at=now)))
    _remove(_beside(database, "suspect"))


def is_worn_out(database: str, now: float) -> bool:
    """Return whether a database is called damaged again and again, though looks find nothing."""
    mark, note = mark_of(database), _read(_beside(database, "suspect"))
    if mark is None or note is None or not note.get("is_told"):
        return False
    return mark.cleared >= _MOST_CLEARED and _is_lately(mark, now)


def forget(database: str) -> None:
    """The database was set aside: what was noted of it says nothing about the next one."""
    _remove(_beside(database, "suspect"))
    _remove(_beside(database, "mark"))


def pending(database: str) -> Mapping[str, Any] | None:
    """Return what was written down of a rebuild that has not ended, None where none is under way."""
    state = _read(_beside(database, "rebuilding"))
    return state if state is not None and {"aside", "why", "staged"} <= state.keys() else None  # another's file


def set_pending(database: str, state: Mapping[str, Any]) -> None:
    """Write down how far a rebuild is; it is on the disk when this returns. Raises OSError."""
    _write_whole(_beside(database, "rebuilding"), state)
    sync_folder(os.path.dirname(database))


def end_pending(database: str) -> None:
    """Forget a rebuild that has ended. Raises OSError."""
    os.unlink(_beside(database, "rebuilding"))
    sync_folder(os.path.dirname(database))


def size_of(path: str) -> int | None:
    """Return the size of a file in bytes, None where there is none. Nothing is opened."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None


def _is_lately(mark: Mark, now: float) -> bool:
    return 0 <= now - mark.cleared_at < _CLEARED_S


def _beside(database: str, ending: str) -> str:
    return f"{os.path.splitext(database)[0]}.{ending}"


def _read(path: str) -> dict[str, Any] | None:
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _write(path: str, content: Mapping[str, Any]) -> None:
    try:
        _write_whole(path, content)
    except OSError:
        pass  # a full or read-only disk: what is not written down is looked at once more, or less closely


def _write_whole(path: str, content: Mapping[str, Any]) -> None:
    temporary = path + ".new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # it was never there, or stays: then the next start looks once more
