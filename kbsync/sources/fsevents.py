"""macOS' events: watchdog's observer, and the flags by which the system says that it dropped some.

watchdog itself reads none of those flags (its issue 1019).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from watchdog.events import FileSystemEvent
from watchdog.observers.api import EventQueue, ObservedWatch
from watchdog.observers.fsevents import FSEventsEmitter, FSEventsObserver

# kFSEventStreamEventFlagMustScanSubDirs, ...UserDropped, ...KernelDropped: FSEvents.h
_DROPPED = 0x1 | 0x2 | 0x4


class FlagEmitter(FSEventsEmitter):
    """Hands events to the observer, and tells of those that the system dropped."""

    def __init__(
        self,
        event_queue: EventQueue,
        watch: ObservedWatch,
        *,
        timeout: float,
        latency: float,
        overflowed: Callable[[], None],
        event_filter: list[type[FileSystemEvent]] | None = None,
    ) -> None:
        super().__init__(event_queue, watch, timeout=timeout, event_filter=event_filter, latency=latency)
        self._overflowed = overflowed

    def events_callback(self, paths: list[bytes], inodes: list[int], flags: list[int], ids: list[int]) -> None:
        super().events_callback(paths, inodes, flags, ids)
        if events_dropped(flags):
            self._overflowed()


class FlagObserver(FSEventsObserver):
    """watchdog's observer whose emitters read the flags."""

    def __init__(self, overflowed: Callable[[], None]) -> None:
        super().__init__()
        self._emitter_class = FlagEmitter
        self._emitter_kwargs = {**self._emitter_kwargs, "overflowed": overflowed}


def events_dropped(flags: Sequence[int]) -> bool:
    """Say whether the flags of some events tell that others were dropped."""
    return any(flag & _DROPPED for flag in flags)
