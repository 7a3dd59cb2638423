"""The worker's loop: claim, process, and decide by the class of what was raised. One bad file costs one job."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import structlog

from kbsync.clock import Clock
from kbsync.daemon.outage import Outage
from kbsync.daemon.wake import Wake
from kbsync.errors import (
    FailFile,
    FileChanged,
    FileGone,
    RetryLater,
    SkipFile,
    StopEngine,
    StorageUnavailable,
    Unready,
    without_text,
)
from kbsync.failpoints import failpoint
from kbsync.knowledge_base import commits
from kbsync.knowledge_base.processing import Processor
from kbsync.log import ErrorLog
from kbsync.model import Job, Lane, Priority
from kbsync.queue import job_queue
from kbsync.reasons import FileState, Reason
from kbsync.store import jobs
from kbsync.store.connection import Connection
from kbsync.store.jobs import JobState
from kbsync.store.stored_files import StoredFiles
from kbsync.store.writer import Readers, Writer

log = structlog.stdlib.get_logger(__name__)

T = TypeVar("T")

# A worker that nobody wakes looks by itself after this many seconds at the latest.
_LONGEST_SLEEP_S = 5.0
# How a job that was worked to its end ends; else it runs again.
_ENDED: tuple[JobState, ...] = ("done", "skipped")


class Worker:
    """Works a lane's jobs no worse than `worst`, one at a time. `gone` hears of a source whose file was not there.

    `held_up` says why no job can be worked now, None where they can: until then all of them wait. `allows` returns the
    least pressing work that may be done now. `ended` hears of each job that has ended, and how.
    """

    def __init__(
        self,
        processor: Processor,
        writer: Writer,
        readers: Readers,
        stored: StoredFiles,
        error_log: ErrorLog,
        clock: Clock,
        wake: Wake,
        stop: threading.Event,
        gone: Callable[[int], None],
        lane: Lane = "text",
        worst: Priority = Priority.LOW,
        held_up: Callable[[], str | None] = lambda: None,
        allows: Callable[[], Priority] = lambda: Priority.LOW,
        ended: Callable[[Job, str], None] = lambda _job, _state: None,
    ) -> None:
        self._processor = processor
        self._writer = writer
        self._readers = readers
        self._stored = stored
        self._error_log = error_log
        self._clock = clock
        self._wake = wake
        self._stop = stop
        self._gone = gone
        self._lane: Lane = lane
        self._worst = worst
        self._held_up = held_up
        self._ended = ended
        self._allows = allows
        self.job: Job | None = None
        self._unended: Job | None = None

    def run(self, outage: Outage) -> None:
        """Work until told to stop; `outage` hears what stands in the way."""
        while not self._stop.is_set():
            rings = self._wake.rings()
            try:
                if self.step():
                    continue
                pause = self._pause()
            except StopEngine:
                raise
            except RetryLater as error:  # our own disk or database: nothing was claimed, or all is back
                pause = outage.met("worker", error)
            self._wake.wait(rings, pause)

    def step(self) -> bool:
        """Work one job to its end; False where none may run now.

        Raises StorageUnavailable where our own disk cannot be used: then the job is back in the queue, or will be.
        """
        self._put_back_unended()
        if self._held_up() is not None:
            return False
        now, worst = self._clock.now(), self._worst_now()
        # Asked by reading first: an idle engine writes nothing.
        if self._readers.read(lambda connection: jobs.next_queued(connection, self._lane, worst, now)) is None:
            return False
        job = self._writer.run(lambda connection: job_queue.claim(connection, self._lane, worst, self._clock.now()))
        if job is None:
            return False
        self.job = job
        try:
            failpoint("worker.claimed")
            met = self._work(job)
            failpoint("worker.ended")
        except RetryLater:
            self._unended = job
            raise
        finally:
            self.job = None
            self._wake.ring()  # what waited for this path, or for the queue to be empty, looks again
        if met is not None:
            raise met
        return True

    def _put_back_unended(self) -> None:
        """The database was busy or full when a job was to end: nothing of it is written, so it runs again."""
        job = self._unended
        if job is not None:
            self._writer.run(lambda connection: job_queue.run_again(connection, job, self._clock.now()))
            self._unended = None

    def _work(self, job: Job) -> StorageUnavailable | None:
        """Process a job and end it; return what of our own disk stood in its way, the job being back in the queue."""
        try:
            outcome = self._processor.process(job)
        except FileGone as error:
            self._end(lambda connection: commits.gone(connection, job, self._clock.now()))
            if job.source_id is not None:
                self._gone(job.source_id)
            log.info("gone", path=job.path, error=str(error))
        except FileChanged as error:
            delay, message = job_queue.CHANGED_DELAY_S if error.wait_s is None else error.wait_s, str(error)
            self._end(lambda connection: job_queue.wait_until_quiet(connection, job, message, self._clock.now(), delay))
        except SkipFile as error:
            self._close(job, FileState.SKIPPED, error.reason, str(error))
        except FailFile as error:
            self._close(job, FileState.FAILED, error.reason, str(error))
        except StorageUnavailable as error:
            why = str(error)
            self._end(lambda connection: job_queue.wait_for_storage(connection, job, why, self._clock.now()))
            return error
        except Unready as error:
            why = str(error)
            self._end(lambda connection: job_queue.wait_for_engine(connection, job, why, self._clock.now()))
        except RetryLater as error:
            self._retry(job, error.reason, str(error))
        except StopEngine:
            raise
        except Exception as error:
            # A surprise is one file's failure, not the engine's: it is logged whole and tried again like a passing one.
            log.exception("job_crashed", path=job.path)
            self._retry(job, Reason.CRASHED, without_text(error))
        else:
            log.info("job_ended", path=job.path, state=outcome.state, document_id=outcome.document_id)
            if outcome.state in _ENDED:
                self._ended(job, outcome.state)
        return None

    def _retry(self, job: Job, reason: Reason, message: str) -> None:
        now = self._clock.now()
        if self._stop.is_set():
            self._end(lambda connection: job_queue.run_again(connection, job, now))
        elif not self._end(lambda connection: job_queue.retry(connection, job, reason, message, now)):
            self._close(job, FileState.FAILED, reason, message)

    def _close(self, job: Job, state: FileState, reason: Reason, message: str) -> None:
        judged = self._processor.judged(job)
        now = self._clock.now()
        outcome = self._end(lambda connection: commits.ended(connection, job, state, reason, message, judged, now))
        if outcome.dropped:
            return
        failpoint("worker.closed")
        if job.staged_path is not None:
            self._stored.discard(job.staged_path)
        if state is FileState.FAILED:
            self._error_log.record(job.path, message, now)
        log.info("job_ended", path=job.path, state=state, reason=reason)
        self._ended(job, state)

    def _end(self, work: Callable[[Connection], T]) -> T:
        return self._writer.run(work)

    def _worst_now(self) -> Priority:
        return min(self._worst, self._allows())

    def _pause(self) -> float:
        if self._held_up() is not None:
            return _LONGEST_SLEEP_S
        worst = self._worst_now()
        not_before = self._readers.read(lambda connection: jobs.next_not_before(connection, self._lane, worst))
        if not_before is None:
            return _LONGEST_SLEEP_S
        return min(max(not_before - self._clock.now(), 0.05), _LONGEST_SLEEP_S)
