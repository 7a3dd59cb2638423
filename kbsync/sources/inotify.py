"""Linux' events: watchdog's inotify observer, watching wanted folders only and knowing which ones it could not."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable

from watchdog.events import FileSystemEvent
from watchdog.observers.api import EventQueue, ObservedWatch
from watchdog.observers.inotify import InotifyEmitter, InotifyObserver, InotifyWatchGroup
from watchdog.observers.inotify_c import InotifyFD, Mask, WatchDescriptor

from kbsync.sources.coverage import WalkedFolders, is_within, kernel_watches, to_watch_anew

_NO_WATCH = WatchDescriptor(-1)

# watchdog tells, with its whole table, of a watch that it meets twice while folders are made fast. Nothing is lost by
# it: the kernel has one watch for a folder, and walks compare.
warnings.filterwarnings("ignore", message="Callback with id", category=RuntimeWarning)


class FolderWatches(InotifyWatchGroup):
    """The watches below one folder. `refused` holds the wanted ones that got none: path to errno.

    `wanted` says which folders are watched; `overflowed` is called in the reader's thread when events were lost.
    """

    def __init__(
        self,
        inotify_fd: InotifyFD,
        path: bytes,
        *,
        is_recursive: bool,
        event_mask: Mask,
        wanted: Callable[[str], bool],
        overflowed: Callable[[], None],
    ) -> None:
        self._wanted = wanted
        self._overflowed = overflowed
        self.refused: dict[str, int] = {}
        super().__init__(inotify_fd, path, is_recursive=is_recursive, event_mask=event_mask)

    @property
    def folders(self) -> int:
        """How many folders are watched."""
        return len(self._active_callbacks_by_watch)

    def follow(self, walked: WalkedFolders) -> int:
        """Make the watches those that a walk shows to be needed; return how many were taken that had been missed.

        Watched is what the walk entered, whatever the kernel or watchdog lost on the way; below what rules leave out
        nothing is. What cannot be watched is tried at every walk: the limit may have been raised meanwhile.
        """
        taken = 0
        # Active under this lock: the descriptor stays open.
        with self._lock:
            if not self.is_active:
                return 0
            with open(f"/proc/self/fdinfo/{self._inotify_fd._inotify_fd}", encoding="ascii") as file:
                kernel = kernel_watches(file.read())
            ours = {os.fsdecode(path): descriptor for path, descriptor in self._active_callbacks_by_path.items()}
            unwanted = [
                descriptor
                for descriptor, path in self._active_callbacks_by_watch.items()
                if is_within(os.fsdecode(path), walked.left_out)
            ]
            self._remove_callbacks(unwanted)
            for path in to_watch_anew(os.fsdecode(self.path), walked.entered, ours, kernel):
                before = self._active_callbacks_by_path.get(os.fsencode(path))
                self._add_callback(os.fsencode(path))
                now = self._active_callbacks_by_path.get(os.fsencode(path))
                if now is not None and now != before:
                    taken += 1
                    if before is not None:
                        self._remove_callbacks([before])
            self.refused = {path: number for path, number in self.refused.items() if path in walked.entered}
        return taken

    def on_queue_overflow(self) -> None:
        # watchdog's own answer is to add every watch anew: in a large tree that overflows the queue again, for ever.
        self._overflowed()

    def _add_all_callbacks(self, path: bytes) -> None:
        if not self._wanted(os.fsdecode(path)):
            return
        self._add_callback(path)
        if not self.is_recursive:
            return
        for folder, names, _ in os.walk(path):
            # Emptied in place, so that the walk does not enter them either.
            names[:] = [name for name in names if self._wanted(os.fsdecode(os.path.join(folder, name)))]
            for full in (os.path.join(folder, name) for name in names):
                if not os.path.islink(full):
                    self._add_callback(full)

    def _add_callback(self, path: bytes) -> None:
        """Watch a folder. Raises OSError for the group's own; of another it is remembered: watchdog passes over it."""
        number = errno.EACCES
        descriptor = _NO_WATCH
        try:
            descriptor = self._inotify_fd.add_callback(path, self.event_mask, self, self._id)
        except OSError as error:
            if path == self.path:
                raise
            number = error.errno or errno.EIO
        if descriptor != _NO_WATCH:
            self._active_callbacks_by_path[path] = descriptor
            self._active_callbacks_by_watch[descriptor] = path
            self.refused.pop(os.fsdecode(path), None)
            return
        if number == errno.EACCES:
            # watchdog takes the descriptor -1 of a folder that may not be read for a watch.
            self._inotify_fd.remove_callbacks([(_NO_WATCH, self._id)])
        if path == self.path:
            raise PermissionError(errno.EACCES, "may not be read", os.fsdecode(path))
        if os.path.isdir(path):
            self.refused[os.fsdecode(path)] = number

    def _remove_watch_internally(self, wd: WatchDescriptor) -> None:
        # A folder that was removed and made anew had two watches for a moment; watchdog fails at the second one's end.
        path = self._active_callbacks_by_watch.pop(wd, None)
        if path is not None and self._active_callbacks_by_path.get(path) == wd:
            del self._active_callbacks_by_path[path]


class FolderEmitter(InotifyEmitter):
    """Hands the events of one group of watches to the observer."""

    def __init__(
        self,
        event_queue: EventQueue,
        watch: ObservedWatch,
        *,
        timeout: float,
        inotify_fd: InotifyFD,
        wanted: Callable[[str], bool],
        overflowed: Callable[[], None],
        event_filter: list[type[FileSystemEvent]] | None = None,
    ) -> None:
        super().__init__(event_queue, watch, timeout=timeout, event_filter=event_filter, inotify_fd=inotify_fd)
        self._wanted = wanted
        self._overflowed = overflowed

    def on_thread_start(self) -> None:
        self._inotify = FolderWatches(
            self._inotify_fd,
            os.fsencode(self.watch.path),
            is_recursive=self.watch.is_recursive,
            event_mask=self.get_event_mask_from_filter(),
            wanted=self._wanted,
            overflowed=self._overflowed,
        )


class FolderObserver(InotifyObserver):
    """One inotify instance with its reader thread; the emitters of what is scheduled share it."""

    def __init__(self, wanted: Callable[[str], bool], overflowed: Callable[[], None]) -> None:
        super().__init__()
        self._emitter_class = FolderEmitter
        self._emitter_kwargs = {**self._emitter_kwargs, "wanted": wanted, "overflowed": overflowed}

    def watches_of(self, folder: str) -> FolderWatches | None:
        """Return the watches below a scheduled folder, None where they were given up."""
        for emitter in self.emitters.copy():
            group = getattr(emitter, "_inotify", None)
            if emitter.watch.path == folder and isinstance(group, FolderWatches):
                return group
        return None
