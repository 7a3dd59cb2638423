"""The single writer: one connection, one thread, many callers. Work that waits together is committed together.

Without `start()` the work runs in the thread of the caller, one at a time: commands and step-by-step tests use it so.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import apsw
import structlog

from kbsync.errors import IndexDamaged, KbsyncError, RetryLater, StopEngine
from kbsync.failpoints import failpoint
from kbsync.reasons import Reason
from kbsync.store import damage, migrations
from kbsync.store.connection import connect_reader, connect_writer, part, translated, whole
from kbsync.store.write_ahead_log import LOOK_S, WriteAheadLog

log = structlog.stdlib.get_logger(__name__)

T = TypeVar("T")
Work = Callable[[apsw.Connection], T]
# Gets the ids of jobs that changed.
JobListener = Callable[[frozenset[int]], None]

# One fsync serves this many waiting callers at the most; more would make the first of them wait too long.
GROUP_LIMIT = 64
# SQLite's virtual machine takes well under a millisecond for so many steps. What the engine writes at its end stays
# below: only what takes longer is ended by `end_long_work`.
_STEPS_BETWEEN_LOOKS = 10_000


@dataclass(slots=True)
class _Request:
    work: Work[Any]
    future: Future[Any]
    # Outside any transaction, with nobody else's work.
    alone: bool = False


class Writer:
    """Runs functions of the writing connection, each whole or not at all, and returns when they are on the disk.

    Once `ends` says so, or `end_long_work` was called, no statement takes long any more: the process is to end.
    """

    def __init__(self, path: str, ends: Callable[[], bool] = lambda: False) -> None:
        self.path = path
        self._ends = ends
        self._ending = False
        self._failure: BaseException | None = None
        # Somebody met with a damaged full-text index; whoever mends it clears it.
        self.index_damaged = threading.Event()
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._inline = threading.Lock()
        self._thread: threading.Thread | None = None
        self._connection: apsw.Connection | None = None
        # How many transactions were committed since it was opened.
        self.commits = 0
        # Of the open database, None before.
        self.wal: WriteAheadLog | None = None
        self._changed_jobs: set[int] = set()
        self._listeners: tuple[JobListener, ...] = ()

    def open(self, tells: Callable[[str], None] = lambda _doing: None) -> list[str]:
        """Connect and bring the schema up to date; return the names of migrations that ran. Raises StopEngine.

        `tells` as in `init_schema`.
        """
        connection = connect_writer(self.path, self._accept)
        try:
            with translated(self.path, opening=True):
                ran = migrations.init_schema(connection, tells)
        except BaseException:
            connection.close()
            raise
        connection.set_update_hook(self._row_changed)
        self._connection, self.wal = connection, WriteAheadLog(connection)
        return ran

    def _accept(self, connection: apsw.Connection) -> None:
        # From its very beginning. Where this is the main thread it is also what lets a signal's handler run meanwhile.
        connection.set_progress_handler(self._is_to_end, _STEPS_BETWEEN_LOOKS)
        migrations.accept(connection)

    def _is_to_end(self) -> bool:
        return self._ending or self._ends()

    def end_long_work(self) -> None:
        """End the statement that runs and every later one that takes long; who waits for it gets RetryLater."""
        self._ending = True

    def listen(self, listener: JobListener) -> Callable[[], None]:
        """Have `listener` hear of jobs whose rows changed, by their ids, after the commit; return how to end that.

        It is called in the writer's thread, while nobody else can write: it must be quick, and never raise.
        """
        with self._inline:
            self._listeners = (*self._listeners, listener)

        def end() -> None:
            with self._inline:
                self._listeners = tuple(other for other in self._listeners if other is not listener)

        return end

    def start(self) -> None:
        """Give the connection to a thread of its own."""
        self._thread = threading.Thread(target=self._loop, name="writer", daemon=True)
        self._thread.start()

    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def run(self, work: Work[T]) -> T:
        """Run `work(connection)` in a transaction; return its result after the commit.

        Whatever `work` raises is raised here, with nothing of it kept. Raises RetryLater (full disk, foreign lock)
        and StopEngine (damaged database) for the driver's errors.
        """
        result: T = self._asked(_Request(work, Future()))
        return result

    def run_alone(self, work: Work[T]) -> T:
        """Run `work(connection)` outside any transaction, as VACUUM needs it; everybody else waits meanwhile.

        Raises as `run` does; what was written until then stays.
        """
        result: T = self._asked(_Request(work, Future(), alone=True))
        return result

    def _asked(self, request: _Request) -> Any:
        with self._inline:
            if self._failure is not None:
                raise _ended_unexpectedly()
            if self._thread is None:
                self._work_off([request])
            else:
                self._requests.put(request)
        try:
            return request.future.result()
        except IndexDamaged:
            self.index_damaged.set()
            raise

    def close(self) -> None:
        """Finish what was asked, then close. Twice does no harm."""
        if self._thread is not None:
            self._requests.put(None)
            self._thread.join()
        with self._inline:  # nobody asks a thread that has ended, nor works on a connection that is being closed
            self._thread = None
            self._refuse(RetryLater(Reason.RETRY, "kbsync is stopping."))  # asked after the end: told, not left waiting
            if self._connection is not None:
                if damage.is_noted(self.path):
                    # What is damaged may be the log alone: it is not copied over the database.
                    self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                self._connection.close()
                self._connection = None

    def _loop(self) -> None:
        group: list[_Request] = []
        try:
            self._serve(group)
        except BaseException as error:
            with self._inline:  # nobody asks meanwhile, and whoever did is not left waiting
                self._failure = error
                self._refuse(_ended_unexpectedly(), group)
            log.exception("writer_ended")

    def _refuse(self, error: KbsyncError, group: Sequence[_Request] = ()) -> None:
        waiting: list[_Request | None] = list(group)
        while True:
            try:
                waiting.append(self._requests.get_nowait())
            except queue.Empty:
                break
        for request in waiting:
            if request is not None and not request.future.done():
                request.future.set_exception(error)

    def _serve(self, group: list[_Request]) -> None:
        """Work until told to stop; `group` holds what is being worked on."""
        while (request := self._next()) is not None:
            group[:] = [request]
            last = False
            while len(group) < GROUP_LIMIT and not last and not group[-1].alone:
                try:
                    more = self._requests.get_nowait()
                except queue.Empty:
                    break
                if more is None:
                    last = True
                else:
                    group.append(more)
            self._work_off(list(group))
            if last:
                return

    def _next(self) -> _Request | None:
        """Wait for what is asked next; a log that has grown too long is emptied meanwhile."""
        while True:
            try:
                return self._requests.get(timeout=LOOK_S if self.wal is not None and self.wal.is_large else None)
            except queue.Empty:
                if self.wal is not None:
                    self.wal.shrink()

    def _work_off(self, group: list[_Request]) -> None:
        """Work a group, of which only the last one may want to be alone."""
        alone = group.pop() if group[-1].alone else None
        if group:
            self._commit(group)
        if alone is None:
            return
        connection = self._connection
        try:
            if connection is None:
                raise StopEngine("The database is not open.")
            with translated(self.path):
                result = alone.work(connection)
        except BaseException as error:  # noqa: BLE001 (handed to the waiting caller, who must not wait for ever)
            alone.future.set_exception(error)
        else:
            alone.future.set_result(result)
        self._checkpoint()

    def _commit(self, group: list[_Request]) -> None:
        connection = self._connection
        if connection is None:
            for request in group:
                request.future.set_exception(StopEngine("The database is not open."))
            return
        answers: list[tuple[_Request, Any, BaseException | None]] = []
        try:
            with translated(self.path):
                failpoint("writer.asked")
                with whole(connection):
                    for request in group:
                        answers.append((request, *self._one(connection, request)))
                    failpoint("writer.worked")
        except BaseException as error:  # noqa: BLE001 (handed to every waiting caller; none may wait for ever)
            for request in group:
                request.future.set_exception(error)
            return
        finally:
            changed, self._changed_jobs = self._changed_jobs, set()
        self.commits += 1
        failpoint("writer.committed")
        if changed:
            for listener in self._listeners:
                listener(frozenset(changed))
        for request, result, failure in answers:
            if failure is None:
                request.future.set_result(result)
            else:
                request.future.set_exception(failure)
        self._checkpoint()

    def _checkpoint(self) -> None:
        if self.wal is not None and not damage.is_noted(self.path):
            self.wal.checkpoint()

    def _row_changed(self, _kind: int, _database: str, table: str, row_id: int) -> None:
        if table == "jobs":
            self._changed_jobs.add(row_id)

    def _one(self, connection: apsw.Connection, request: _Request) -> tuple[Any, BaseException | None]:
        result = None
        try:
            with translated(self.path), part(connection):
                failpoint("writer.begun")
                result = request.work(connection)
        except Exception as error:  # belongs to the caller who waits for it
            if not connection.in_transaction:
                raise  # SQLite rolled everything back (full disk, I/O error): nobody's work is kept
            return None, error
        return result, None


def _ended_unexpectedly() -> StopEngine:
    return StopEngine("The database's writer ended unexpectedly.", hint="The log tells why.")


class Readers:
    """Connections for reading, one for each thread that asks at the same time, kept for the next."""

    def __init__(self, path: str, seconds: float | None = None) -> None:
        self.path = path
        self._seconds = seconds
        self.index_damaged = threading.Event()  # as the writer's
        self._idle: queue.LifoQueue[apsw.Connection] = queue.LifoQueue()

    def within(self, seconds: float) -> Readers:
        """Return readers on the same connections whose statements are ended after so many seconds: RetryLater."""
        limited = Readers(self.path, seconds)
        limited._idle, limited.index_damaged = self._idle, self.index_damaged
        return limited

    def read(self, work: Work[T]) -> T:
        """Run `work(connection)` inside one read transaction: it sees one moment of the database."""
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            connection = connect_reader(self.path)
        try:
            with translated(self.path), self._limited(connection):
                connection.execute("BEGIN")
                try:
                    return work(connection)
                finally:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
        except IndexDamaged:
            self.index_damaged.set()
            raise
        finally:
            self._idle.put(connection)

    @contextmanager
    def _limited(self, connection: apsw.Connection) -> Iterator[None]:
        seconds = self._seconds
        if seconds is None:
            yield
            return
        until = time.monotonic() + seconds
        connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS_BETWEEN_LOOKS)
        try:
            yield
        except apsw.InterruptError as error:
            raise RetryLater(
                Reason.TIMEOUT,
                f"The database did not answer within {seconds:g} seconds.",
                hint="Ask for fewer words or a longer prefix, or again when less is going on.",
            ) from error
        finally:
            connection.set_progress_handler(None)

    def close(self) -> None:
        """Close the idle connections. Twice does no harm."""
        while True:
            try:
                self._idle.get_nowait().close()
            except queue.Empty:
                return
