"""The daemon: starts the loops in their threads, supervises them, follows the configuration, and ends in good order."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import structlog

from kbsync.clock import Clock
from kbsync.config.followed import waiting_for_start
from kbsync.config.sections import ResourceSettings
from kbsync.config.settings import Settings, is_written
from kbsync.daemon import last_runs
from kbsync.daemon.duties import Duties
from kbsync.daemon.intake import Intake
from kbsync.daemon.outage import Outage
from kbsync.daemon.producer import Producer
from kbsync.daemon.reindexer import Reindexer
from kbsync.daemon.rescans import Rescans
from kbsync.daemon.rest import Rest
from kbsync.daemon.scheduler import Scheduler
from kbsync.daemon.scrub import Scrub
from kbsync.daemon.upkeep import Upkeep
from kbsync.daemon.wake import Wake
from kbsync.daemon.watchers import Watchers
from kbsync.daemon.worker import Worker
from kbsync.embed.batcher import Batcher
from kbsync.errors import ConfigurationError, DatabaseDamaged, KbsyncError, RetryLater, StopEngine, without_text
from kbsync.failpoints import failpoint
from kbsync.filesystem import Stat, stat_of
from kbsync.knowledge_base.configured import ConfiguredSources
from kbsync.knowledge_base.conversion import Cage
from kbsync.knowledge_base.embedders import Embedders
from kbsync.knowledge_base.facade import KnowledgeBase
from kbsync.log import set_level
from kbsync.queue import job_queue
from kbsync.store import damage
from kbsync.store.writer import Writer

log = structlog.stdlib.get_logger(__name__)

# With what the HTTP server and the embedder take to end, below the 10 seconds in which SIGTERM must have ended all.
_JOIN_S = 4.0
_LEASES_EVERY_S = job_queue.LEASE_S / 4
_SUPERVISE_EVERY_S = 2.0
# A model that cannot be used is looked for so often: reading its small files takes some milliseconds.
_MODEL_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class Loops:
    """The parts that turn in threads of their own, and the bells that wake them."""

    writer: Writer
    batcher: Batcher
    embedders: Embedders
    cage: Cage
    workers: tuple[Worker, ...]
    producer: Producer
    rescans: Rescans
    watchers: Watchers
    reindexer: Reindexer
    scrub: Scrub
    duties: Duties
    intake: Intake
    outage: Outage
    rest: Rest
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
        model_changed: Callable[[], bool] = lambda: False,
        follow_resources: Callable[[ResourceSettings], None] = lambda _resources: None,
        look_at_models: Callable[[], None] = lambda: None,
    ) -> None:
        self.loops = loops
        self.kb = kb
        self.sources = sources
        self._clock = clock
        self._config_file = config_file
        self._settings = self._begun = settings
        self._load_settings = load_settings
        self._model_changed = model_changed
        self._follow_resources = follow_resources
        self._look_at_models = look_at_models
        self.upkeep = Upkeep(
            clock,
            kb.checkup,
            loops.duties.by_name(lambda seconds: self.upkeep.rest(seconds)),
            lambda name, began: self.scheduler.ran(name, began),
            loops.stop,
        )
        self.scheduler = Scheduler(
            clock,
            settings.timetable(),
            loops.rescans.request_all,
            loops.rescans.walked,
            self.upkeep,
            lambda runs: loops.writer.run(lambda connection: last_runs.write(connection, runs)),
            loops.rest.defers,
            loops.rest.holds,
        )
        self._threads: list[threading.Thread] = []
        self._reload = threading.Event()
        self._reloading = threading.Lock()
        self._failure: BaseException | None = None
        self._config_seen = _config_mark(config_file)
        self._leases_at = self._supervised_at = self._model_at = clock.monotonic()
        self.config_error: str | None = None
        # Settings that were changed, and hold from the next start on.
        self.restart_for: list[str] = []
        # The model is another one than when the engine was opened, and that one could not be used: open it anew.
        self.wants_restart = False

    def start(self) -> None:
        """Begin: what a dead process left goes back into the queue, then watch, then walk, then work."""
        loops = self.loops
        self._follow_resources(self._settings.resources)
        loops.writer.start()
        loops.embedders.start()
        self.kb.retention.note_time(self._settings.keep_days)
        self._follow(self._settings, forget=is_written(self._config_file))
        self._spawn("producer", partial(loops.producer.run, loops.outage))
        self._spawn("rescans", partial(loops.rescans.run, loops.outage))
        self._spawn("reindexer", partial(loops.reindexer.run, loops.outage))
        self._spawn("scrub", partial(loops.scrub.run, loops.outage))
        self._spawn("upkeep", partial(self.upkeep.run, loops.outage))
        self._spawn("intake", loops.intake.run)
        for number, worker in enumerate(loops.workers):
            self._spawn(f"worker-{number}", partial(worker.run, loops.outage))
        since = loops.writer.run(lambda connection: last_runs.since(connection, self._clock.now()))
        self.scheduler.start(loops.writer.run(last_runs.read), since)

    def tick(self) -> None:
        """Look after everything once. Raises what ended a loop, and DatabaseDamaged: never half alive."""
        if self._failure is not None:
            raise self._failure
        database = self.loops.writer.path
        if damage.is_noted(database):  # whoever met it, a search perhaps
            raise DatabaseDamaged(
                f"The database {database} looks damaged ({damage.noted(database)}).",
                hint="The next `kbsync run` looks at every page, and where it is so, sets the file aside and builds "
                "the index anew. A service manager starts it by itself.",
            )
        for thread in self._threads:
            if not thread.is_alive():
                raise StopEngine(f"The thread {thread.name} ended unexpectedly.", hint="The log tells why.")
        if not self.loops.writer.alive():
            raise StopEngine("The database's writer ended unexpectedly.", hint="The log tells why.")
        if (died := self.loops.embedders.died()) is not None:
            what = without_text(died)
            raise StopEngine(f"The embedder ended unexpectedly: {what}.", hint="The log tells why.") from died
        self.scheduler.tick()
        self.upkeep.look()
        try:
            if not self.loops.outage.lasts:
                self._follow_file()
            self._look_after()
        except RetryLater as error:
            self.loops.outage.met("supervisor", error)

    def _follow_file(self) -> None:
        """Reload where the configuration file changed; one that is gone or empty is no wish to forget everything."""
        mark = _config_mark(self._config_file)
        if not self._reload.is_set() and mark == self._config_seen:
            return
        if self._settings.sources and (mark is None or mark.size == 0):
            self.config_error = f"{self._config_file} is gone or empty."
            return
        asked = self._reload.is_set()
        self.reload()
        self._look_for_model(asked=asked)
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
                    log.error("configuration_rejected", error=str(error), detail="The settings from before hold.")
                self.config_error = str(error)
                return
            self.config_error = None
            if settings.log_level != self._settings.log_level:
                set_level(settings.log_level)
            self.scheduler.follow(settings.timetable())
            self.loops.duties.keep_days = settings.keep_days
            self.loops.rescans.set_max_missing_share(settings.max_missing_share)
            self._follow_resources(settings.resources)
            waiting = waiting_for_start(self._begun, settings)
            if waiting and waiting != self.restart_for:
                log.warning("restart_needed", detail=", ".join(waiting))
            self.restart_for = waiting
            self._settings = settings

    def ask_reload(self) -> None:
        """Have the next tick reload; safe in a signal handler."""
        self._reload.set()

    def rescan(self) -> int:
        """Have every source walked, and every project looked at; return a ticket for `settled`."""
        self.loops.intake.request()
        return self.loops.rescans.request_all()

    def settled(self, ticket: int) -> bool:
        """Return whether the walks asked for have ended and nothing is on its way any more."""
        rescans, producer = self.loops.rescans, self.loops.producer
        # In the order of the flow, so that nothing slips past behind the looks.
        if not rescans.answered(ticket) or rescans.pending():
            return False
        # Last once more: what cannot be queued, or was not there any more, asks for another walk.
        if not (producer.idle() and self.kb.unsettled() == 0 and not rescans.pending()):
            return False
        return self.loops.intake.idle()

    def held_up(self, ticket: int) -> str | None:
        """Return why nothing that is left will be done for now, though all was looked at; None while anything goes on.

        A model that cannot be used, or rest: what needs the one or the other waits for as long as that lasts.
        """
        problem = self.loops.embedders.problem() or self.loops.rest.holds_all()
        if problem is None or any(worker.job is not None for worker in self.loops.workers):
            return None
        rescans, producer = self.loops.rescans, self.loops.producer
        looked = rescans.answered(ticket) and not rescans.pending() and producer.idle()
        return problem if looked else None

    def status(self) -> dict[str, object]:
        """Return the parts of `status` that only a running daemon knows."""
        return {
            "watchers": self.loops.watchers.status(),
            "projects": self.loops.intake.status(),
            "scheduler": self.scheduler.status(),
            "schedule": [asdict(entry) for entry in self.scheduler.entries()],
            "model_ready": self.loops.batcher.ready,
            "model_state": self.loops.batcher.state,
            "model_error": self.loops.embedders.problem() or self.loops.batcher.error,
            "config_error": self.config_error,
            "restart_for": self.restart_for,
        }

    def stop(self) -> None:
        """End in the order of the flow: no new work, then what runs, then what it writes to. Twice does no harm."""
        loops = self.loops
        self.scheduler.stop()
        failpoint("stop.scheduler")
        loops.stop.set()
        # A check or a compaction of a large database takes longer than we have; nothing is lost of either.
        loops.writer.end_long_work()
        loops.producer.wake()
        loops.rescans.wake()
        self.upkeep.wake()
        loops.intake.wake()
        loops.work.ring()
        loops.watchers.stop()
        loops.intake.watchers.stop()
        failpoint("stop.watchers")
        # Whoever waits for vectors or for a child is told to come again: its job goes back uncounted.
        loops.embedders.stop()
        failpoint("stop.embedders")
        loops.cage.close()
        failpoint("stop.cage")
        deadline = self._clock.monotonic() + _JOIN_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - self._clock.monotonic()))
            if thread.is_alive():
                log.warning("thread_left_behind", loop=thread.name)
        if self._threads and loops.writer.alive():
            # The jobs of threads that were left behind; an answer that still comes finds its job taken back.
            try:
                loops.writer.run(lambda connection: job_queue.put_back(connection, self._clock.now()))
            except KbsyncError as error:  # a full disk, a damaged file: the next start does the same
                log.warning("jobs_not_put_back", error=str(error))
        self._threads = []
        failpoint("stop.all")

    def _look_for_model(self, *, asked: bool) -> None:
        """See whether a model that could not be used is mended; where that is `asked` by hand, believe it."""
        self._model_at = self._clock.monotonic()
        embedders = self.loops.embedders
        if embedders.problem() is not None:
            self.wants_restart |= self._model_changed() or (asked and embedders.missing is None)

    def _follow(self, settings: Settings, *, forget: bool = True) -> None:
        # What is read again at every start must not end there for what is made anew from the text.
        begun, ended = self.kb.checkup.in_spite_of_full_text(lambda: self.sources.follow(settings, forget=forget))
        for source in ended:
            self.loops.watchers.end(source.id)
            if self.sources.by_id(source.id) is None:
                self.loops.rescans.forget(source.id)
        for source in begun:
            self.loops.watchers.begin(source)
        self.loops.intake.follow(settings.project_folders)

    def _look_after(self) -> None:
        now = self._clock.monotonic()
        self.loops.rest.tick()
        self._look_at_models()
        if now - self._supervised_at >= _SUPERVISE_EVERY_S:
            self._supervised_at = now
            self.loops.watchers.supervise()
            self.loops.intake.watchers.supervise()
            self.loops.rescans.mark_held()
        if self.loops.outage.may_be_over():
            self._try_again()
        if now - self._model_at >= _MODEL_EVERY_S:
            self._look_for_model(asked=False)
        held = [job.id for worker in self.loops.workers if (job := worker.job) is not None]
        if held and now - self._leases_at >= _LEASES_EVERY_S:
            self._leases_at = now
            self.loops.writer.run(lambda connection: job_queue.extend(connection, held, self._clock.now()))

    def _try_again(self) -> None:
        """Have everything that waits go on, where our own disk takes what is written again."""
        self.kb.prove_storage(has_more_room=self.loops.outage.has_more_room())
        self.loops.outage.over()
        self.loops.work.ring()
        self.loops.producer.wake()
        self.loops.rescans.wake()

    def _spawn(self, name: str, run: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                run()
            except BaseException as error:
                log.exception("loop_ended", loop=name)
                if not isinstance(error, KbsyncError):
                    # Perhaps it met what nobody wrote: the next start reads all.
                    damage.suspect(self.loops.writer.path, f"{name} ended: {without_text(error)}", is_told=False)
                self._failure = error

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()


def _config_mark(path: str) -> Stat | None:
    try:
        return stat_of(os.stat(path))
    except OSError:
        return None
