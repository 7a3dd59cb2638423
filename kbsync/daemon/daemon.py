"""The daemon: starts the loops in their threads, supervises them, follows the configuration, and ends in good order."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from kbsync.clock import Clock
from kbsync.config.settings import Settings, is_written
from kbsync.daemon.producer import Producer
from kbsync.daemon.reindexer import Reindexer
from kbsync.daemon.rescans import Rescans
from kbsync.daemon.scheduler import Scheduler
from kbsync.daemon.scrub import Scrub
from kbsync.daemon.upkeep import Upkeep
from kbsync.daemon.wake import Wake
from kbsync.daemon.watchers import Watchers
from kbsync.daemon.worker import Worker
from kbsync.embed.batcher import Batcher
from kbsync.errors import ConfigurationError, RetryLater, StopEngine
from kbsync.filesystem import Stat, stat_of
from kbsync.knowledge_base import commits
from kbsync.knowledge_base.configured import ConfiguredSources
from kbsync.knowledge_base.embedders import Embedders
from kbsync.knowledge_base.facade import KnowledgeBase
from kbsync.queue import job_queue
from kbsync.store.writer import Writer

log = structlog.stdlib.get_logger(__name__)

# Together below the 10 seconds in which SIGTERM must have ended everything.
_JOIN_S = 6.0
_LEASES_EVERY_S = job_queue.LEASE_S / 4
_SUPERVISE_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class Loops:
    """The parts that turn in threads of their own, and the bells that wake them."""

    writer: Writer
    batcher: Batcher
    embedders: Embedders
    workers: tuple[Worker, ...]
    producer: Producer
    rescans: Rescans
    watchers: Watchers
    reindexer: Reindexer
    scrub: Scrub
    work: Wake
    stop: threading.Event


class Daemon:
    """The running engine. `start` once, `tick` again and again from one thread, `stop` at the end."""

    def __init__(
        self,
        loops: Loops,
        kb: KnowledgeBase,
        sources: ConfiguredSources,
        clock: Clock,
        config_file: str,
        settings: Settings,
        load_settings: Callable[[], Settings],
    ) -> None:
        self.loops = loops
        self.kb = kb
        self.sources = sources
        self._clock = clock
        self._config_file = config_file
        self._settings = settings
        self._load_settings = load_settings
        self.upkeep = Upkeep(kb, lambda: self._settings.keep_days, loops.stop)
        self._scheduler = Scheduler(settings.rescan_s, loops.rescans.request_all, self.upkeep.ask)
        self._threads: list[threading.Thread] = []
        self._reload = threading.Event()
        self._reloading = threading.Lock()
        self._failure: BaseException | None = None
        self._config_seen = _config_mark(config_file)
        self._leases_at = self._supervised_at = clock.monotonic()
        self.config_error: str | None = None

    def start(self) -> None:
        """Begin: what a dead process left goes back into the queue, then watch, then walk, then work."""
        loops = self.loops
        loops.writer.start()
        loops.embedders.start()
        self._follow(self._settings, forget=is_written(self._config_file))
        self._spawn("producer", loops.producer.run)
        self._spawn("rescans", loops.rescans.run)
        self._spawn("reindexer", loops.reindexer.run)
        self._spawn("scrub", loops.scrub.run)
        self._spawn("upkeep", self.upkeep.run)
        for number, worker in enumerate(loops.workers):
            self._spawn(f"worker-{number}", worker.run)
        self._scheduler.start()

    def tick(self) -> None:
        """Look after everything once. Raises what ended a loop: never half alive."""
        if self._failure is not None:
            raise self._failure
        for thread in self._threads:
            if not thread.is_alive():
                raise StopEngine(f"The thread {thread.name} ended unexpectedly.", hint="The log tells why.")
        if not self.loops.writer.alive():
            raise StopEngine("The database's writer ended unexpectedly.", hint="The log tells why.")
        try:
            self._follow_file()
            self._look_after()
        except RetryLater as error:
            log.warning("supervisor_waits", error=str(error))

    def _follow_file(self) -> None:
        """Reload where the configuration file changed; one that is gone or empty is no wish to forget everything."""
        mark = _config_mark(self._config_file)
        if not self._reload.is_set() and mark == self._config_seen:
            return
        if self._settings.sources and (mark is None or mark.size == 0):
            self.config_error = f"{self._config_file} is gone or empty; the last settings hold until it is back."
            return
        self.reload()
        self._reload.clear()
        self._config_seen = mark

    def reload(self) -> None:
        """Read the configuration again and follow it; one with a mistake is told and changes nothing."""
        with self._reloading:
            try:
                settings = self._load_settings()
                self._follow(settings)
            except ConfigurationError as error:
                if self.config_error != str(error):
                    log.error("configuration_rejected", error=str(error))
                self.config_error = str(error)
                return
            self.config_error = None
            if settings.rescan_s != self._settings.rescan_s:
                self._scheduler.set_rescan(settings.rescan_s)
            self.loops.rescans.set_max_missing_share(settings.max_missing_share)
            self._settings = settings

    def ask_reload(self) -> None:
        """Have the next tick reload; safe in a signal handler."""
        self._reload.set()

    def rescan(self) -> int:
        """Have every source walked; return a ticket for `settled`."""
        return self.loops.rescans.request_all()

    def settled(self, ticket: int) -> bool:
        """Return whether the walks asked for have ended and nothing is on its way any more."""
        rescans, producer = self.loops.rescans, self.loops.producer
        # In the order of the flow, so that nothing slips past behind the looks.
        if not rescans.answered(ticket) or rescans.pending():
            return False
        # Last once more: what cannot be queued, or was not there any more, asks for another walk.
        return producer.idle() and self.kb.unsettled() == 0 and not rescans.pending()

    def status(self) -> dict[str, object]:
        """Return the parts of `status` that only a running daemon knows."""
        return {
            "watchers": self.loops.watchers.status(),
            "scheduler": self._scheduler.status(),
            "model_ready": self.loops.batcher.ready,
            "model_error": self.loops.batcher.error,
            "config_error": self.config_error,
        }

    def stop(self) -> None:
        """End in the order of the flow: no new work, then what runs, then what it writes to. Twice does no harm."""
        loops = self.loops
        self._scheduler.stop()
        loops.stop.set()
        loops.producer.wake()
        loops.rescans.wake()
        self.upkeep.wake()
        loops.work.ring()
        loops.watchers.stop()
        deadline = self._clock.monotonic() + _JOIN_S
        # Whoever waits for vectors is told to come again: its job goes back uncounted.
        loops.embedders.stop()
        for thread in self._threads:
            thread.join(max(0.0, deadline - self._clock.monotonic()))
            if thread.is_alive():
                log.warning("thread_left_behind", thread=thread.name)
        if self._threads and loops.writer.alive():
            # The jobs of threads that were left behind; an answer that still comes finds its job taken back.
            loops.writer.run(lambda connection: commits.recover(connection, self._clock.now()))
        self._threads = []

    def _follow(self, settings: Settings, *, forget: bool = True) -> None:
        begun, ended = self.sources.follow(settings, forget=forget)
        for source in ended:
            self.loops.watchers.end(source.id)
            if self.sources.by_id(source.id) is None:
                self.loops.rescans.forget(source.id)
        for source in begun:
            self.loops.watchers.begin(source)

    def _look_after(self) -> None:
        now = self._clock.monotonic()
        if now - self._supervised_at >= _SUPERVISE_EVERY_S:
            self._supervised_at = now
            self.loops.watchers.supervise()
            self.loops.rescans.mark_held()
        held = [job.id for worker in self.loops.workers if (job := worker.job) is not None]
        if held and now - self._leases_at >= _LEASES_EVERY_S:
            self._leases_at = now
            self.loops.writer.run(lambda connection: job_queue.extend(connection, held, self._clock.now()))

    def _spawn(self, name: str, run: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                run()
            except BaseException as error:
                log.exception("loop_ended", loop=name)
                self._failure = error

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()


def _config_mark(path: str) -> Stat | None:
    try:
        return stat_of(os.stat(path))
    except OSError:
        return None
