"""Native events of a source's folders, turned into changes: the one module that knows watchdog.

Events are hints and may be lost; what is lost is told by `dirty`, and a rescan finds it.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol, cast

import structlog

from kbsync.errors import RetryLater
from kbsync.model import Change, Source
from kbsync.reasons import Reason
from kbsync.sources.ignore import is_watchable

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent, FileSystemEventHandler
    from watchdog.observers.api import BaseObserver

log = structlog.stdlib.get_logger(__name__)

Why = Literal["overflow", "folder created", "folder moved", "folder deleted", "root gone", "error", "unwatched"]

# Where watchdog says, and only there, that the kernel threw events away.
_OVERFLOW_LOGGER = "watchdog.observers.inotify_c"
_OVERFLOW_WORDS = "queue overflowed"


class Watcher(Protocol):
    """Whatever reports changes of one source until it is stopped."""

    def start(self) -> None:
        """Begin to report. Raises RetryLater(IO) where the source cannot be watched now."""
        ...

    def stop(self) -> None:
        """End; nothing is reported after it returned. Twice does no harm. Not from within a report."""
        ...

    def healthy(self) -> bool:
        """Say whether events still come. Where they do not: stop, start anew, rescan."""
        ...

    @property
    def folders(self) -> int:
        """How many folders are watched."""
        ...


class NativeWatcher:
    """Watches a source by the operating system's events.

    `sink` takes each change and `dirty` (source id, why) each reason to rescan; both are called from the watcher's
    threads and must not block. `is_watched_folder` says of a folder, relative to the source, whether anything below it
    is worth an event; folders it refuses get no watch.
    """

    def __init__(
        self,
        source: Source,
        sink: Callable[[Change], None],
        dirty: Callable[[int, str], None],
        is_watched_folder: Callable[[str], bool] = is_watchable,
    ) -> None:
        self._source = source
        self._sink = sink
        self._dirty = dirty
        self._is_watched_folder = is_watched_folder
        self._prefix = source.path.rstrip(os.sep) + os.sep
        # Guards what start, stop and the rebuild after an overflow change, each from its own thread.
        self._lock = threading.Lock()
        self._observer: BaseObserver | None = None
        self._overflow: _Overflow | None = None
        self._rebuild: threading.Thread | None = None
        self._root: tuple[int, int] | None = None
        self._unwatched: set[bytes] = set()

    @property
    def folders(self) -> int:
        """How many folders are watched (where the system watches whole trees by itself: 1)."""
        return 0 if self._observer is None else _watched_folders(self._observer)

    @property
    def unwatched(self) -> int:
        """How many folders should be watched and are not, for want of watches or permission: only scans see those."""
        return len(self._unwatched)

    def start(self) -> None:
        """Begin to report. Raises RetryLater(IO) where the root is missing or the system has no watches left."""
        with self._lock:
            if self._observer is not None:
                return
            # Before the first watch: the queue may overflow while the others are added.
            self._overflow = _Overflow(self._on_overflow)
            self._overflow.attach()
            try:
                self._observer = self._started()
            except RetryLater:
                self._overflow.detach()
                self._overflow = None
                raise
        if self._unwatched:
            self._dirty(self._source.id, "unwatched")

    def stop(self) -> None:
        """End and wait for the threads."""
        # First no new rebuild, then the end of a running one, then the observer it may have left.
        with self._lock:
            if self._overflow is not None:
                self._overflow.detach()
                self._overflow = None
            rebuild = self._rebuild
        if rebuild is not None:
            rebuild.join()
        with self._lock:
            observer, self._observer, self._rebuild = self._observer, None, None
        if observer is not None:
            _stopped(observer)

    def healthy(self) -> bool:
        """Say whether every thread lives and the root is the folder that was there at the start."""
        observer = self._observer
        if observer is None or not observer.is_alive():
            return False
        # watchdog's reader and emitters end by themselves while the observer still counts as alive.
        reader: threading.Thread | None = getattr(observer, "_inotify_fd", None)
        if reader is not None and not reader.is_alive():
            return False
        emitters = observer.emitters.copy()
        return bool(emitters) and all(emitter.is_alive() for emitter in emitters) and self._root == self._root_now()

    def dispatch(self, event: FileSystemEvent) -> None:
        """Take an event from watchdog; called in its observer thread."""
        try:
            for change in self._changes(event):
                self._sink(change)
            why = self._why_dirty(event)
            if why is not None:
                self._dirty(self._source.id, why)
        except Exception:
            # An error here would end watchdog's thread and with it all events, in silence.
            log.exception("watcher_event_failed", source_id=self._source.id, watch_event=repr(event))
            self._dirty(self._source.id, "error")

    # ---- events ----

    def _changes(self, event: FileSystemEvent) -> list[Change]:
        if event.is_directory:
            return []
        source_id = self._source.id
        old, new = os.fsdecode(event.src_path), os.fsdecode(event.dest_path)
        changes = []
        if event.event_type == "moved":
            # What was renamed to this name is whole: that is how programs save.
            changes = [Change(source_id, old, gone=True), Change(source_id, new, closed=True)]
        elif event.event_type == "deleted":
            changes = [Change(source_id, old, gone=True)]
        elif event.event_type in ("created", "modified", "closed"):
            changes = [Change(source_id, old, closed=event.event_type == "closed")]
        return [change for change in changes if self._is_wanted(change.path)]

    def _why_dirty(self, event: FileSystemEvent) -> Why | None:
        if not event.is_directory:
            return None
        old, new = os.fsdecode(event.src_path), os.fsdecode(event.dest_path)
        if old == self._source.path:
            return "root gone" if event.event_type == "deleted" else None
        if not self._source.recursive or not (self._is_wanted_folder(old) or self._is_wanted_folder(new)):
            return None
        whys: dict[str, Why] = {"created": "folder created", "moved": "folder moved", "deleted": "folder deleted"}
        return whys.get(event.event_type)

    def _is_wanted(self, path: str) -> bool:
        folder = os.path.dirname(path)
        return folder == self._source.path or self._is_wanted_folder(folder)

    def _is_wanted_folder(self, path: str) -> bool:
        return path.startswith(self._prefix) and self._is_watched_folder(path[len(self._prefix) :])

    # ---- threads ----

    def _started(self) -> BaseObserver:
        from watchdog import events

        # Without the opened and closed-unwritten ones: our own reading would flood the queue. With the created ones:
        # new folders would get no watch otherwise (watchdog issue 990).
        wanted: list[type[FileSystemEvent]] = [
            *(events.FileCreatedEvent, events.FileModifiedEvent, events.FileClosedEvent),
            *(events.FileMovedEvent, events.FileDeletedEvent),
            *(events.DirCreatedEvent, events.DirMovedEvent, events.DirDeletedEvent),
        ]
        unwatched: set[bytes] = set()
        observer: BaseObserver | None = None
        try:
            root = self._root_now(raising=True)
            observer = _new_observer(lambda path: self._has_watch(os.fsdecode(path)), unwatched.add)
            observer.schedule(
                cast("FileSystemEventHandler", self),
                self._source.path,
                recursive=self._source.recursive,
                event_filter=wanted,
            )
            observer.start()
        except OSError as error:
            if observer is not None:
                _stopped(observer)
            raise RetryLater(
                Reason.IO, f"The folder {self._source.path!r} cannot be watched: {error}.", hint=_hint(error)
            ) from error
        self._root, self._unwatched = root, unwatched
        return observer

    def _has_watch(self, folder: str) -> bool:
        return folder == self._source.path or self._is_wanted_folder(folder)

    def _root_now(self, *, raising: bool = False) -> tuple[int, int] | None:
        try:
            found = os.lstat(self._source.path)
        except OSError:
            if raising:
                raise
            return None
        return found.st_dev, found.st_ino

    def _on_overflow(self) -> None:
        # Called in watchdog's reader thread, which cannot end itself. The log line does not say whose queue it was:
        # a rebuild too many costs a rescan.
        with self._lock:
            if self._overflow is None or self._rebuild is not None:
                return
            self._rebuild = threading.Thread(target=self._rebuilt, name="kbsync-watcher-rebuild", daemon=True)
            self._rebuild.start()

    def _rebuilt(self) -> None:
        """Put a new observer in the place of one whose queue overflowed.

        watchdog answers an overflow by adding every watch anew, which in a large tree overflows the queue again, for
        ever; so it is ended. The rescan is asked for when the new one listens: what changes after that is seen.
        """
        log.warning("watcher_overflow", source_id=self._source.id)
        observer = self._observer
        if observer is not None:
            _stopped(observer)
        try:
            self._observer = self._started()
        except RetryLater:
            log.exception("watcher_rebuild_failed", source_id=self._source.id)
        finally:
            with self._lock:
                self._rebuild = None
            self._dirty(self._source.id, "overflow")


class _Overflow(logging.Handler):
    """Hears watchdog say that events were lost."""

    def __init__(self, heard: Callable[[], None]) -> None:
        super().__init__(logging.WARNING)
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        if _OVERFLOW_WORDS in record.getMessage():
            self._heard()

    def attach(self) -> None:
        spoken = logging.getLogger(_OVERFLOW_LOGGER)
        if not spoken.isEnabledFor(logging.WARNING):
            # However quiet the log is kept, this one line is a signal.
            spoken.setLevel(logging.WARNING)
        spoken.addHandler(self)

    def detach(self) -> None:
        logging.getLogger(_OVERFLOW_LOGGER).removeHandler(self)


def _hint(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "The system's limit of watched folders is reached: raise it with `sysctl fs.inotify.max_user_watches`."
    if error.errno == errno.EMFILE:
        return "The system's limit of watchers is reached: raise it with `sysctl fs.inotify.max_user_instances`."
    return "It is tried again by itself; check that the folder is there and can be read."


def _new_observer(wanted: Callable[[bytes], bool], unwatched: Callable[[bytes], None]) -> BaseObserver:
    """Return watchdog's observer for this system; where it is inotify's, one that watches wanted folders only.

    `unwatched` is told each wanted folder that got no watch: watchdog itself passes over those in silence.
    """
    if sys.platform != "linux":
        from watchdog.observers import Observer

        return Observer()
    from watchdog.observers.inotify import InotifyEmitter, InotifyObserver, InotifyWatchGroup

    class WantedFolders(InotifyWatchGroup):
        def _add_all_callbacks(self, path: bytes) -> None:
            if not wanted(path):
                return
            self._add_callback(path)
            if not self.is_recursive:
                return
            for folder, names, _ in os.walk(path):
                # Emptied in place, so that the walk does not enter them either.
                names[:] = [name for name in names if wanted(os.path.join(folder, name))]
                for full in (os.path.join(folder, name) for name in names):
                    if not os.path.islink(full):
                        self._add_callback(full)

        def _add_callback(self, path: bytes) -> None:
            super()._add_callback(path)
            # Descriptor -1 is what watchdog keeps of a folder that it may not read.
            if self._active_callbacks_by_path.get(path, -1) != -1:
                return
            if path == self.path:
                raise PermissionError(errno.EACCES, "may not be read", os.fsdecode(path))
            if os.path.isdir(path):
                unwatched(path)

    class WantedEmitter(InotifyEmitter):
        def on_thread_start(self) -> None:
            self._inotify = WantedFolders(
                self._inotify_fd,
                os.fsencode(self.watch.path),
                is_recursive=self.watch.is_recursive,
                event_mask=self.get_event_mask_from_filter(),
            )

    class WantedObserver(InotifyObserver):
        def __init__(self) -> None:
            super().__init__()
            self._emitter_class = WantedEmitter

    return WantedObserver()


def _watched_folders(observer: BaseObserver) -> int:
    count = 0
    for emitter in observer.emitters.copy():
        group = getattr(emitter, "_inotify", None)
        count += 1 if group is None else len(group._active_callbacks_by_path)
    return count


def _stopped(observer: BaseObserver) -> None:
    """Stop an observer, also one that failed to start, and wait for its threads."""
    observer.stop()
    if observer.ident is not None:
        observer.join()
