"""Opens a knowledge base with the parts that work on it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import structlog

from kbsync import file_types, log
from kbsync.compose.seams import AnyReranker, Seams, configured_reranker, docling_models_folder, real_seams
from kbsync.config.locations import Locations
from kbsync.config.settings import Settings
from kbsync.daemon import memory
from kbsync.daemon.outage import Outage
from kbsync.daemon.rest import Rest, manners_of
from kbsync.daemon.wake import Wake
from kbsync.daemon.worker import Worker
from kbsync.embed.batcher import Batcher
from kbsync.embed.lifetimes import Idleness
from kbsync.embed.model_files import ModelFiles
from kbsync.failpoints import failpoint
from kbsync.knowledge_base import rebuild, rebuilt, repair_rows
from kbsync.knowledge_base.adding import Adding
from kbsync.knowledge_base.checkup import Checkup
from kbsync.knowledge_base.compaction import Compaction
from kbsync.knowledge_base.configured import ConfiguredSources
from kbsync.knowledge_base.conversion import Cage, DocumentReader
from kbsync.knowledge_base.embedders import Embedders, ModelAtHand, model_at_hand
from kbsync.knowledge_base.facade import KnowledgeBase
from kbsync.knowledge_base.own_files import OwnFiles
from kbsync.knowledge_base.processing import Parts, Processor
from kbsync.knowledge_base.recovery import recover
from kbsync.knowledge_base.reindexing import Reindexing
from kbsync.knowledge_base.repair import Models, Repair
from kbsync.knowledge_base.repair_files import FileRepair
from kbsync.knowledge_base.retention import Retention
from kbsync.knowledge_base.source_control import SourceControl
from kbsync.measures import STAGES, Durations, Measures
from kbsync.model import SEARCH_MODES, Job, Lane, Priority
from kbsync.pipelines import isolation_plan
from kbsync.pipelines.isolation_plan import Slots
from kbsync.search.hybrid import Search
from kbsync.sources.mounts import type_of
from kbsync.store import damage, documents, migrations, place, reindexes, vector_functions
from kbsync.store.connection import Connection
from kbsync.store.kept_conversions import KeptConversions
from kbsync.store.stored_files import StoredFiles
from kbsync.store.writer import Readers, Writer
from kbsync.version import version

events = structlog.stdlib.get_logger(__name__)

# A statement of a search that takes longer is ended: one query must not keep the machine busy for ever.
SEARCH_S = 30.0
# So is any other statement that reads, except of the integrity check: as long as one reads, the write-ahead log grows.
READ_S = 120.0


@dataclass(frozen=True, slots=True)
class Engine:
    """An open knowledge base and the parts that work on it. The caller holds the data folder's lock."""

    locations: Locations
    settings: Settings
    seams: Seams
    writer: Writer
    readers: Readers
    batcher: Batcher
    embedders: Embedders
    cage: Cage
    slots: Slots
    kb: KnowledgeBase
    processor: Processor
    reindexing: Reindexing
    stored: StoredFiles
    sources: ConfiguredSources
    source_control: SourceControl
    error_log: log.ErrorLog
    own: frozenset[tuple[int, int]]
    reranker: AnyReranker | None
    outage: Outage
    work: Wake
    rest: Rest
    stop: threading.Event
    # Of the program that runs, whatever is installed in its place meanwhile.
    version: str
    measures: Measures

    def worker(self, gone: Callable[[int], None], lane: Lane, worst: Priority, number: int = 0) -> Worker:
        """Return a new worker, the one of that number in its lane: on a battery the first one may be enough."""
        return Worker(
            self.processor,
            self.writer,
            self.readers,
            self.stored,
            self.error_log,
            self.seams.clock,
            self.work,
            self.stop,
            gone,
            lane,
            worst,
            self.embedders.problem,
            partial(self.rest.allows, number),
            lambda job, state: self.measures.jobs.add(state, _type_of(job)),
        )

    def shortcomings(self) -> list[str]:
        """Return what is not as it was meant to be here, with the remedy: everything goes on in spite of it."""
        vectors_in_sql, now = vector_functions.missing(), version()
        reranker = None if self.reranker is None else self.reranker.missing()
        found = [told for told in (vectors_in_sql, log.problem(), self._place()) if told is not None]
        if now != self.version:
            found.append(f"kbsync {now} is installed by now, and this is still {self.version}: restart it.")
        if reranker is not None:
            found.append(f"{reranker} Hits are ranked without it until it is back.")
        return found + self.batcher.notices + self.seams.conduct.refused

    def let_models_rest(self) -> None:
        """Let models go that nobody needed for long. To be called often."""
        if self.embedders.look():
            events.info("model_rests")
            memory.give_back()
        if self.reranker is not None:
            self.reranker.look()

    def _place(self) -> str | None:
        """Say why the database should lie somewhere else, None where it may stay."""
        folder = self.locations.data_dir
        return place.warning(folder, type_of(folder, self.seams.mounts()), place.marks_in(folder))

    def close(self) -> None:
        """Close in the order of the flow. Twice does no harm."""
        self.stop.set()
        self.work.ring()
        self.embedders.stop()
        if self.reranker is not None:
            self.reranker.unload()
        failpoint("close.embedders")
        self.cage.close()
        failpoint("close.cage")
        self.readers.close()
        # The last connection: what is left in the write-ahead log goes into the database, and its file goes.
        self.writer.close()
        failpoint("close.writer")
        damage.closed(self.locations.database)
        self.error_log.close()
        failpoint("close.all")


def open_engine(
    locations: Locations,
    settings: Settings,
    seams: Seams | None = None,
    ends: Callable[[], bool] = lambda: False,
    *,
    may_rebuild: bool = False,
    models_apart: bool = False,
    tells: Callable[[str], None] = lambda _doing: None,
) -> Engine:
    """Open the database (making it where there is none), put back what a dead process left, and build the parts.

    `models_apart`: models are loaded in child processes, and never in this one. `may_rebuild`: a damaged database is
    set aside and another one made; else DatabaseDamaged says how to have that. `tells` hears what may take long,
    before it begins.

    Raises StopEngine (also ConfigurationError) where going on would do harm, and RetryLater where `ends` says meanwhile
    that the process is to end: no statement takes long any more then, not even a migration's.
    """
    seams = seams or real_seams(settings, locations, models_apart)
    locations.make_folders()
    error_log = log.ErrorLog(locations.error_log)
    clock, stored = seams.clock, StoredFiles(locations.staging_dir, locations.documents_dir)
    rebuild.make_ready(locations.database, stored, seams.fs, clock, may_rebuild=may_rebuild, ends=ends, tells=tells)
    writer, readers = Writer(locations.database, ends), Readers(locations.database, READ_S)
    ran = writer.open(tells)
    try:
        damage.opened(locations.database, clock.now())
        failpoint("engine.database_opened")
        tells("putting back what the last run left")
        dimensions = {} if seams.missing_model else {seams.model.fingerprint: seams.model.dimension}
        mended = writer.run(lambda connection: repair_rows.mend_at_start(connection, dimensions, clock.now()))
        if readers.read(repair_rows.is_forgetful):
            mended += writer.run(lambda connection: repair_rows.leave_out_at_start(connection, clock.now()))
        for problem in mended:
            events.error("repaired_at_start", kind=problem.kind, count=problem.count, first=problem.first)
        idleness = Idleness(settings.models.rests_after_s)
        configured = model_at_hand(_model(readers, seams), seams.counter, seams.open_devices, clock, idleness)
        batcher = configured.batcher

        def follow(connection: Connection) -> None:
            """Make the tables of vectors fit the configured model, where there is one."""
            if seams.missing_model is None:
                reindexes.follow(connection, batcher, configured.folder, clock.now())

        if seams.missing_model is None:
            writer.run(follow)
        else:
            events.info("model_missing", model=seams.model.name, error=seams.missing_model)
        failpoint("engine.model_followed")
        embedders = Embedders(readers, configured, _earlier(readers, seams), seams.missing_model)
        recover(writer, readers, stored, error_log, clock, is_new=migrations.FIRST in ran)
        limits = settings.chunk_limits(seams.model.max_tokens)
        own = locations.own_paths()
        sources = ConfiguredSources(writer, readers, clock)
        slots = isolation_plan.plan_here(
            settings.workers,
            settings.models.device,
            own_models=settings.models.docling != "packaged",
            threads=settings.resources.threads,
            memory_mb=settings.resources.memory_mb,
        )
        cage = seams.make_cage(slots, locations.data_dir)
        kept = KeptConversions(locations.conversions_dir)
        if not readers.read(rebuilt.is_settling):  # the documents that they belong to come yet
            kept.sweep(readers.read(documents.content_hashes))
        failpoint("engine.conversions_swept")
        reader = DocumentReader(
            cage,
            kept,
            limits,
            seams.model.tokenizer_json,
            settings.ocr.languages,
            slots.threads,
            docling_models_folder(settings, locations),
            settings.encodings,
        )
        measures = Measures(Durations(clock.monotonic, STAGES), Durations(clock.monotonic, SEARCH_MODES))
        parts = Parts(
            seams.fs,
            clock,
            writer,
            readers,
            embedders.for_writing,
            seams.counter,
            reader,
            limits,
            stored,
            own,
            sources.by_id,
            seams.open_inbox,
            measures.stages,
        )

        reranker = configured_reranker(settings, seams.model_children)

        def search() -> Search:
            return Search(readers.within(SEARCH_S), embedders.for_queries(), reranker)

        adding = Adding(seams.fs, clock, writer, readers, stored, limits, reader, own)
        retention = Retention(clock, writer, readers, stored, kept)
        compaction = Compaction(clock, writer, readers, kept, stored.room)
        stop, work = threading.Event(), Wake()
        rest = Rest(clock, writer, readers, work, manners_of(settings.resources), seams.is_on_battery)
        rest.open()
        own_files = OwnFiles(readers, stored, kept)
        models = Models(lambda: dimensions, follow, lambda: kb.use_search(search()))
        files = FileRepair(seams.fs, clock, writer, readers, stored)
        repair = Repair(clock, writer, own_files, files, kept, models, error_log)
        checkup = Checkup(clock, writer, readers, own_files, repair, mended, stop.is_set)
        kb = KnowledgeBase(clock, writer, readers, search(), adding, stored, retention, checkup, compaction)
        processor = Processor(parts)

        def on_live() -> None:
            kb.use_search(search())
            embedders.let_go_of_earlier()

        reindexing = Reindexing(clock, writer, readers, embedders, processor, error_log, on_live)
    except BaseException:
        writer.close()
        readers.close()
        raise
    return Engine(
        locations,
        settings,
        seams,
        writer,
        readers,
        batcher,
        embedders,
        cage,
        slots,
        kb,
        processor,
        reindexing,
        stored,
        sources,
        SourceControl(seams.clock, writer, readers),
        error_log,
        own,
        reranker,
        Outage(seams.clock, stored.room),
        work,
        rest,
        stop,
        version(),
        measures,
    )


def _type_of(job: Job) -> str:
    """Return the type of what a job was for, by the ending of its name."""
    return "note" if job.kind == "note" else file_types.type_of(job.path) or "other"


def _model(readers: Readers, seams: Seams) -> ModelFiles:
    """Return the configured model; of one that is not there what the live vectors tell, for `status` to show."""
    live = readers.read(reindexes.live) if seams.missing_model is not None else None
    return seams.model if live is None else replace(seams.model, dimension=live.dimension)


def _earlier(readers: Readers, seams: Seams) -> ModelAtHand | None:
    """Return the model of the live vectors where it is not the configured one, and is on this machine."""
    live = readers.read(reindexes.live)
    if live is None or live.fingerprint == seams.model.fingerprint:
        return None
    found = seams.find_earlier(live)
    if seams.missing_model is None:
        events.warning(
            "another_model", model=seams.model.name, live_model=live.model_name, is_at_hand=found is not None
        )
    return found
