"""Native events of a source's folders, turned into changes.

Events are hints and may be lost; what is lost is told by `dirty`, and a rescan finds it.
"""

from __future__ import annotations

import os
import sys
import threading
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol, cast

import structlog

from kbsync.errors import RetryLater
from kbsync.model import Change, Source
from kbsync.reasons import Reason
from kbsync.sources.coverage import WalkedFolders, innermost, is_within
from kbsync.sources.ignore import is_watchable
from kbsync.sources.observers import hint, new_observer, stopped, wanted_events

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent, FileSystemEventHandler
    from watchdog.observers.api import BaseObserver

    from kbsync.sources.inotify import FolderWatches

log = structlog.stdlib.get_logger(__name__)

Why = Literal[
    "overflow", "folder created", "folder moved", "folder deleted", "root gone", "error", "unwatched", "watched late"
]
# What of these says that events were lost.
LOST: tuple[Why, ...] = ("overflow", "error")

_BEAT_FILE = "beat"


class Watcher(Protocol):
    """Whatever reports changes of one source until it is stopped."""

    def start(self) -> None:
        """Begin to report. Raises RetryLater(IO) where the source cannot be watched now."""
        ...

    def stop(self) -> None:
        """End; nothing is reported after it returned. Twice does no harm. Not from within a report."""
        ...

    def healthy(self) -> bool:
        """Say whether events can still come. Where they cannot: stop, start anew, rescan."""
        ...

    def beat(self) -> None:
        """Change something that is watched, so that `pulse` rises within moments: the proof that events arrive."""
        ...

    @property
    def pulse(self) -> int:
        """How many beats came back as events."""
        ...

    def follow(self, walked: WalkedFolders) -> None:
        """Watch what a walk entered, and nothing below what it left out."""
        ...

    @property
    def folders(self) -> int:
        """How many folders are watched."""
        ...

    @property
    def unwatched(self) -> int:
        """How many folders should be watched and cannot be: only scans see those."""
        ...


class NativeWatcher:
    """Watches a source by the operating system's events.

    `sink` takes each change and `dirty` (source id, why) each reason to rescan; both are called from the watcher's
    threads and must not block. `is_watched_folder` says of a folder, relative to the source, whether anything below it
    is worth an event; folders it refuses get no watch, unless a walk enters them.
    `heartbeat` is a folder of kbsync's own that is watched along; without one a beat proves nothing and always counts.
    """

    def __init__(
        self,
        source: Source,
        sink: Callable[[Change], None],
        dirty: Callable[[int, str], None],
        is_watched_folder: Callable[[str], bool] = is_watchable,
        heartbeat: str | None = None,
    ) -> None:
        self._source = source
        self._sink = sink
        self._dirty = dirty
        self._is_watched_folder = is_watched_folder
        self._heartbeat = heartbeat
        self._prefix = source.path.rstrip(os.sep) + os.sep
        # Guards what start, stop, follow and the rebuild after an overflow change, each from its own thread.
        self._lock = threading.Lock()
        self._observer: BaseObserver | None = None
        self._stopping = True
        self._rebuild: threading.Thread | None = None
        self._root: tuple[int, int] | None = None
        # What the last walk said: folders below which nothing is wanted, and noise that rules take back in.
        self._left_out: frozenset[str] = frozenset()
        self._taken_in: frozenset[str] = frozenset()
        self._beats = _Beats()
        self._beats_heard = False

    @property
    def folders(self) -> int:
        """How many folders are watched (where the system watches whole trees by itself: 1)."""
        observer, watches = self._observer, self._watches()
        if observer is None:
            return 0
        return 1 if watches is None else watches.folders

    @property
    def unwatched(self) -> int:
        """How many folders should be watched and are not, for want of watches or permission: only scans see those."""
        watches = self._watches()
        return 0 if watches is None else len(watches.refused)

    @property
    def pulse(self) -> int:
        """How many beats came back as events."""
        return self._beats.count

    def start(self) -> None:
        """Begin to report. Raises RetryLater(IO) where the root is missing or the system has no watches left."""
        with self._lock:
            if self._observer is not None:
                return
            self._stopping = False
            try:
                self._observer = self._started()
            except RetryLater:
                self._stopping = True
                raise
        if self.unwatched:
            self._dirty(self._source.id, "unwatched")

    def stop(self) -> None:
        """End and wait for the threads."""
        # First no new rebuild, then the end of a running one, then the observer it may have left.
        with self._lock:
            self._stopping = True
            rebuild = self._rebuild
        if rebuild is not None:
            rebuild.join()
        with self._lock:
            observer, self._observer, self._rebuild = self._observer, None, None
        if observer is not None:
            stopped(observer)

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

    def beat(self) -> None:
        """Write into the folder that is watched along. Nothing is written in the source."""
        if not self._beats_heard or self._heartbeat is None:
            self._beats.count += 1
            return
        try:
            with open(os.path.join(self._heartbeat, _BEAT_FILE), "wb") as file:
                file.write(b"events arrive\n")
        except OSError as error:
            # A folder of ours that cannot be written says nothing about the source's events.
            log.warning("heartbeat_failed", error=str(error))
            self._beats.count += 1

    def follow(self, walked: WalkedFolders) -> None:
        """Watch what a walk entered, and nothing below what it left out."""
        with self._lock:
            self._left_out = walked.left_out
            below = (folder for folder in walked.entered if folder != self._source.path)
            self._taken_in = frozenset(folder for folder in below if not self._is_quiet(folder, self._prefix))
            watches = self._watches()
            taken = 0 if watches is None else watches.follow(walked)
        if taken:
            log.info("watched_late", path=self._source.path, count=taken)
            self._dirty(self._source.id, "watched late")

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
        old, new = self._below(event.src_path), self._below(event.dest_path)
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
        old, new = self._below(event.src_path), self._below(event.dest_path)
        if old == self._source.path:
            return "root gone" if event.event_type == "deleted" else None
        if not self._source.recursive or not (self._is_wanted_folder(old) or self._is_wanted_folder(new)):
            return None
        whys: dict[str, Why] = {"created": "folder created", "moved": "folder moved", "deleted": "folder deleted"}
        return whys.get(event.event_type)

    def _below(self, raw: bytes | str) -> str:
        """Return an event's path, told below the source as the settings spell it: macOS normalises names at will."""
        path = os.fsdecode(raw)
        if path.startswith(self._prefix) or path.isascii():
            return path
        start, composed = unicodedata.normalize("NFC", self._prefix), unicodedata.normalize("NFC", path)
        return self._prefix + composed[len(start) :] if composed.startswith(start) else path

    def _is_wanted(self, path: str) -> bool:
        folder = os.path.dirname(path)
        return folder == self._source.path or self._is_wanted_folder(folder)

    def _is_wanted_folder(self, path: str) -> bool:
        if not path.startswith(self._prefix) or is_within(path, self._left_out):
            return False
        taken_in = innermost(path, self._taken_in)
        return (
            self._is_quiet(path, self._prefix)
            or taken_in == path
            or (
                # What is new in it may be noise again.
                taken_in is not None and self._is_quiet(path, taken_in + os.sep)
            )
        )

    def _is_quiet(self, path: str, above: str) -> bool:
        return self._is_watched_folder(path[len(above) :])

    # ---- threads ----

    def _watches(self) -> FolderWatches | None:
        """Return the watches of the source's folders where the system has one for each."""
        if sys.platform != "linux" or self._observer is None:
            return None
        from kbsync.sources.inotify import FolderObserver

        observer = self._observer
        return observer.watches_of(self._source.path) if isinstance(observer, FolderObserver) else None

    def _started(self) -> BaseObserver:
        observer: BaseObserver | None = None
        try:
            root = self._root_now(raising=True)
            observer = new_observer(self._has_watch, self._on_overflow)
            observer.start()
            # The heartbeat first: a large source may take all the watches that there are.
            self._beats_heard = self._listens_to_heartbeat(observer)
            observer.schedule(
                cast("FileSystemEventHandler", self),
                self._source.path,
                recursive=self._source.recursive,
                event_filter=wanted_events(),
            )
        except OSError as error:
            if observer is not None:
                stopped(observer)
            raise RetryLater(
                Reason.IO, f"The folder {self._source.path!r} cannot be watched: {error}.", hint=hint(error)
            ) from error
        self._root = root
        return observer

    def _listens_to_heartbeat(self, observer: BaseObserver) -> bool:
        if self._heartbeat is None:
            return False
        try:
            os.makedirs(self._heartbeat, mode=0o700, exist_ok=True)
            observer.schedule(
                cast("FileSystemEventHandler", self._beats), self._heartbeat, event_filter=wanted_events()
            )
        except OSError as error:
            log.warning("heartbeat_failed", error=str(error))
            return False
        return True

    def _has_watch(self, folder: str) -> bool:
        return folder in (self._source.path, self._heartbeat) or self._is_wanted_folder(folder)

    def _root_now(self, *, raising: bool = False) -> tuple[int, int] | None:
        try:
            found = os.lstat(self._source.path)
        except OSError:
            if raising:
                raise
            return None
        return found.st_dev, found.st_ino

    def _on_overflow(self) -> None:
        # Called in watchdog's reader thread, which cannot end itself, once for each group of watches.
        with self._lock:
            if self._stopping or self._rebuild is not None:
                return
            self._rebuild = threading.Thread(target=self._rebuilt, name="kbsync-watcher-rebuild", daemon=True)
            self._rebuild.start()

    def _rebuilt(self) -> None:
        """Put a new observer in the place of one whose queue overflowed.

        The rescan is asked for when the new one listens: what changes after that is seen.
        """
        log.warning("watcher_overflow", source_id=self._source.id)
        observer = self._observer
        if observer is not None:
            stopped(observer)
        try:
            self._observer = self._started()
        except RetryLater:
            log.exception("watcher_rebuild_failed", source_id=self._source.id)
        finally:
            with self._lock:
                self._rebuild = None
            self._dirty(self._source.id, "overflow")


class _Beats:
    """Counts the events of the heartbeat's folder; called in watchdog's observer thread."""

    def __init__(self) -> None:
        self.count = 0

    def dispatch(self, _event: FileSystemEvent) -> None:
        self.count += 1
