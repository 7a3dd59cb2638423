"""Opens a knowledge base with the parts that work on it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from kbsync import log
from kbsync.compose.seams import Seams, configured_reranker, docling_models_folder, real_seams
from kbsync.config.locations import Locations
from kbsync.config.settings import Settings
from kbsync.daemon.wake import Wake
from kbsync.daemon.worker import Worker
from kbsync.embed.batcher import Batcher
from kbsync.knowledge_base.adding import Adding
from kbsync.knowledge_base.configured import ConfiguredSources
from kbsync.knowledge_base.conversion import Cage, DocumentReader
from kbsync.knowledge_base.embedders import Embedders, ModelAtHand, model_at_hand
from kbsync.knowledge_base.facade import KnowledgeBase
from kbsync.knowledge_base.processing import Parts, Processor
from kbsync.knowledge_base.recovery import recover
from kbsync.knowledge_base.reindexing import Reindexing
from kbsync.knowledge_base.retention import Retention
from kbsync.knowledge_base.source_control import SourceControl
from kbsync.model import Lane, Priority
from kbsync.pipelines import isolation_plan
from kbsync.pipelines.isolation_plan import Slots
from kbsync.search.hybrid import Search
from kbsync.store import documents, reindexes
from kbsync.store.kept_conversions import KeptConversions
from kbsync.store.stored_files import StoredFiles
from kbsync.store.writer import Readers, Writer

events = structlog.stdlib.get_logger(__name__)

# A statement of a search that takes longer is ended: one query must not keep the machine busy for ever.
SEARCH_S = 30.0


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
    work: Wake
    stop: threading.Event

    def worker(self, gone: Callable[[int], None], lane: Lane, worst: Priority) -> Worker:
        """Return a new worker."""
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
        )

    def close(self) -> None:
        """Close in the order of the flow. Twice does no harm."""
        self.stop.set()
        self.work.ring()
        self.embedders.stop()
        self.cage.close()
        self.writer.close()
        self.readers.close()
        self.error_log.close()


def open_engine(locations: Locations, settings: Settings, seams: Seams | None = None) -> Engine:
    """Open the database (making it where there is none), put back what a dead process left, and build the parts.

    Raises StopEngine (also ConfigurationError) where going on would do harm.
    """
    seams = seams or real_seams(settings, locations)
    locations.make_folders()
    error_log = log.ErrorLog(locations.error_log)
    writer, readers = Writer(locations.database), Readers(locations.database)
    writer.open()
    try:
        clock = seams.clock
        configured = model_at_hand(seams.model, seams.counter, seams.open_devices)
        batcher = configured.batcher
        writer.run(lambda connection: reindexes.follow(connection, batcher, configured.folder, clock.now()))
        embedders = Embedders(readers, configured, _earlier(readers, seams))
        stored = StoredFiles(locations.staging_dir, locations.documents_dir)
        recover(writer, readers, stored, error_log, clock)
        limits = settings.chunk_limits(seams.model.max_tokens)
        own = locations.own_paths()
        sources = ConfiguredSources(writer, readers, clock)
        slots = isolation_plan.plan_here(
            settings.workers, settings.models.device, own_models=settings.models.docling != "packaged"
        )
        cage = seams.make_cage(slots, locations.data_dir)
        kept = KeptConversions(locations.conversions_dir)
        kept.sweep(readers.read(documents.content_hashes))
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
        )

        reranker = configured_reranker(settings)

        def search() -> Search:
            return Search(readers.within(SEARCH_S), embedders.for_queries(), reranker)

        adding = Adding(seams.fs, clock, writer, readers, stored, limits, reader, own)
        retention = Retention(clock, writer, readers, stored, kept)
        kb = KnowledgeBase(clock, writer, readers, search(), adding, stored, retention)
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
        Wake(),
        threading.Event(),
    )


def _earlier(readers: Readers, seams: Seams) -> ModelAtHand | None:
    """Return the model of the live vectors where it is not the configured one, and is on this machine."""
    live = readers.read(reindexes.live)
    if live is None or live.fingerprint == seams.model.fingerprint:
        return None
    found = seams.find_earlier(live)
    events.warning("another_model", configured=seams.model.name, live=live.model_name, at_hand=found is not None)
    return found
