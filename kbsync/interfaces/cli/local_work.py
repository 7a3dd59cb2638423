"""The workers of a command that adds files without the daemon: threads of its own on the engine that it opened."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, get_args

from kbsync.errors import RetryLater, StorageUnavailable

if TYPE_CHECKING:
    from kbsync.compose import Engine

# Who waits for work looks by himself after so long: a job that failed for a passing reason may run again.
_LOOK_S = 0.5
# A database that is busy or full is left alone for so long.
_PAUSE_S = 1.0
# Another program that holds the database, or a disk that fails, is borne so often in a row.
_MOST_FAILURES = 10
# A thread that does not end within this many seconds is left behind; what it worked on goes back into the queue.
_JOIN_S = 8.0


class LocalWorkers:
    """As many threads as the setting `workers` says, each working one file at a time, texts before documents."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._threads: list[threading.Thread] = []
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Begin to work what was added by hand, and go on until `stop`."""
        for number in range(self._engine.settings.workers):
            thread = threading.Thread(target=self._guarded, name=f"adding-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def check(self) -> None:
        """Raise what ended a worker, such as StopEngine for a database that cannot be used any more."""
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """End the workers; what they were reading goes back into the queue. Twice does no harm."""
        from kbsync.knowledge_base import commits

        engine, busy = self._engine, any(thread.is_alive() for thread in self._threads)
        engine.stop.set()
        engine.work.ring()
        # Whoever waits for vectors or for a document is told to come again: its job goes back uncounted.
        engine.embedders.stop()
        engine.cage.close()
        deadline = time.monotonic() + _JOIN_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._threads = []
        if busy and engine.writer.alive():
            engine.writer.run(lambda connection: commits.recover(connection, engine.seams.clock.now()))

    def _guarded(self) -> None:
        import structlog

        log = structlog.stdlib.get_logger(__name__)
        try:
            self._work()
        except StorageUnavailable as error:
            self._failure = error
        except BaseException as error:
            log.exception("loop_ended", loop=threading.current_thread().name)
            self._failure = error

    def _work(self) -> None:
        from kbsync.model import Lane, Priority
        from kbsync.reasons import Reason

        engine = self._engine
        text, document = (engine.worker(lambda _source_id: None, lane, Priority.ADDED) for lane in get_args(Lane))
        failures = 0
        while not engine.stop.is_set():
            rings = engine.work.rings()
            try:
                if text.step() or document.step():
                    failures = 0
                    continue
                pause = _LOOK_S
            except StorageUnavailable as error:
                # Somebody waits for the command: what it queued is there when there is room, and for `kbsync run`.
                failures += 1
                if error.reason is Reason.NO_SPACE or failures >= _MOST_FAILURES:
                    raise
                pause = _PAUSE_S
            except RetryLater:
                pause = _PAUSE_S
            engine.work.wait(rings, pause)
