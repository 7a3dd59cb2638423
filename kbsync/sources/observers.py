"""The observer of this system: which events it is asked for, how it ends, what to do where it cannot begin."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent
    from watchdog.observers.api import BaseObserver


def hint(error: OSError) -> str:
    """Return what to do where a folder cannot be watched."""
    if error.errno == errno.ENOSPC:
        return "The system's limit of watched folders is reached: raise it with `sysctl fs.inotify.max_user_watches`."
    if error.errno == errno.EMFILE:
        return "The system's limit of watchers is reached: raise it with `sysctl fs.inotify.max_user_instances`."
    return "It is tried again by itself; check that the folder is there and can be read."


def wanted_events() -> list[type[FileSystemEvent]]:
    """Return the events to ask for.

    Without the opened and closed-unwritten ones: our own reading would flood the queue. With the created ones: new
    folders would get no watch otherwise (watchdog issue 990).
    """
    from watchdog import events

    return [
        *(events.FileCreatedEvent, events.FileModifiedEvent, events.FileClosedEvent),
        *(events.FileMovedEvent, events.FileDeletedEvent),
        *(events.DirCreatedEvent, events.DirMovedEvent, events.DirDeletedEvent),
    ]


def new_observer(wanted: Callable[[str], bool], overflowed: Callable[[], None]) -> BaseObserver:
    """Return watchdog's observer for this system, one that tells of lost events where the system does."""
    if sys.platform == "linux":
        from kbsync.sources.inotify import FolderObserver

        observer: BaseObserver = FolderObserver(wanted, overflowed)
    elif sys.platform == "darwin":
        from kbsync.sources.fsevents import FlagObserver

        observer = FlagObserver(overflowed)
    else:
        from watchdog.observers import Observer

        observer = Observer()
    return observer


def stopped(observer: BaseObserver) -> None:
    """Stop an observer, also one that failed to start, and wait for its threads."""
    observer.stop()
    if observer.ident is not None:
        observer.join()
