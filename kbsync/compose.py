"""Builds everything from the settings, once: for the daemon, and for a command that works without it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from kbsync import log
from kbsync.clock import Clock, SystemClock
from kbsync.config.locations import Locations
from kbsync.config.settings import Settings, load_settings
from kbsync.daemon.daemon import Daemon, Loops
from kbsync.daemon.producer import Producer
from kbsync.daemon.reindexer import Reindexer
from kbsync.daemon.rescans import Rescans
from kbsync.daemon.scrub import Scrub
from kbsync.daemon.source_walk import SourceWalks
from kbsync.daemon.wake import Wake
from kbsync.daemon.watchers import MakeWatcher, Watchers
from kbsync.daemon.worker import Worker
from kbsync.embed.batcher import Batcher
from kbsync.embed.embedder import Device
from kbsync.embed.model_files import ModelFiles, model_at, model_with, packaged_model
from kbsync.embed.sentence_transformer import CrossEncoderReranker, SentenceTransformerDevice, devices
from kbsync.embed.token_counter import HuggingFaceCounter
from kbsync.errors import ConfigurationError, FailFile
from kbsync.filesystem import FileSystem, RealFileSystem
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
from kbsync.model import Conversion, ConversionRequest, Lane, Priority, Source, TokenCounter
from kbsync.pipelines import docling_converter, isolation, isolation_plan, model_catalogue
from kbsync.pipelines.isolation_plan import Slots
from kbsync.search.hybrid import Search
from kbsync.sources.debounce import Debounce
from kbsync.sources.inbox import Inbox, RealInbox
from kbsync.sources.mounts import Mount, mounts
from kbsync.sources.watcher import NativeWatcher
from kbsync.store import documents, reindexes
from kbsync.store.kept_conversions import KeptConversions
from kbsync.store.reindexes import VectorTable
from kbsync.store.stored_files import StoredFiles
from kbsync.store.writer import Readers, Writer

events = structlog.stdlib.get_logger(__name__)

# A statement of a search that takes longer is ended: one query must not keep the machine busy for ever.
SEARCH_S = 30.0

# Gets the plan of the slots and the data folder.
MakeCage = Callable[[Slots, str], Cage]


def _none_found(_table: VectorTable) -> ModelAtHand | None:
    return None


@dataclass(frozen=True, slots=True)
class Seams:
    """What a test replaces: disk, clock, the embedding device with its model's data, watchers and converters."""

    fs: FileSystem
    clock: Clock
    model: ModelFiles
    counter: TokenCounter
    open_devices: Callable[[], list[Device]]
    make_watcher: MakeWatcher
    make_cage: MakeCage
    # Gets the table of the live vectors where another model made them; None where that is not on this machine any more.
    find_earlier: Callable[[VectorTable], ModelAtHand | None] = _none_found
    # The door through which files leave an inbox: it gets the inbox's source, and no other.
    open_inbox: Callable[[Source], Inbox] = RealInbox
    # What is mounted where: it decides which sources are polled.
    mounts: Callable[[], Sequence[Mount]] = tuple


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


def real_seams(settings: Settings, locations: Locations) -> Seams:
    """Return the real disk, clock, model and watchers. Imports no model library yet. Raises ConfigurationError."""
    model = configured_model(settings)
    setting = settings.models.device

    def open_devices(files: ModelFiles) -> list[Device]:
        names = devices(setting if isinstance(setting, str) else list(setting))
        return [SentenceTransformerDevice(files, name) for name in names]

    def find_earlier(table: VectorTable) -> ModelAtHand | None:
        found = model_with(table.fingerprint, table.folder)
        if found is None:
            return None
        return model_at_hand(found, HuggingFaceCounter(found.tokenizer_json), partial(open_devices, found))

    languages, own_models = settings.ocr.languages, docling_models_folder(settings, locations)

    def make_cage(slots: Slots, folder: str) -> Cage:
        return conversion_cage(slots, folder, languages, own_models)

    return Seams(
        RealFileSystem(),
        SystemClock(),
        model,
        HuggingFaceCounter(model.tokenizer_json),
        partial(open_devices, model),
        partial(NativeWatcher, heartbeat=locations.heartbeat_dir),
        make_cage,
        find_earlier,
        mounts=mounts,
    )


def configured_model(settings: Settings) -> ModelFiles:
    """Return the embedding model that is set. Raises ConfigurationError where its folder holds none."""
    if settings.models.embedder == "packaged":
        return packaged_model()
    try:
        return model_at(settings.models.embedder)
    except FailFile as error:
        raise ConfigurationError(error.message, hint=f"models.embedder names it. {error.hint}") from error


def configured_reranker(settings: Settings) -> CrossEncoderReranker | None:
    """Return the reranker that is set, not loaded yet. Raises ConfigurationError where its folder holds no model."""
    if settings.models.reranker is None:
        return None
    folder = os.path.abspath(os.path.expanduser(settings.models.reranker))
    if not os.path.isfile(os.path.join(folder, "config.json")):
        raise ConfigurationError(
            f"models.reranker is {folder}, and no model lies there.",
            hint="Name a folder with a cross-encoder for sentence-transformers, or take the setting out.",
        )
    device = settings.models.device
    return CrossEncoderReranker(folder, device if isinstance(device, str) else list(device))


def docling_models_folder(settings: Settings, locations: Locations) -> str | None:
    """Return the folder of Docling's own models where they are to be used. Raises ConfigurationError without them."""
    if settings.models.docling == "packaged":
        return None
    if not model_catalogue.are_there(model_catalogue.docling_models(locations.models_dir)):
        raise ConfigurationError(
            f'models.docling is "docling", but Docling\'s own models are not in {locations.models_dir}.',
            hint="Fetch them with `kbsync models download`, or take the setting out.",
        )
    return locations.models_dir


def conversion_cage(
    slots: Slots, folder: str, languages: tuple[str, ...], own_models: str | None
) -> isolation.Cage[ConversionRequest, Conversion]:
    """Return the cage in which Docling converts, its models loaded when a child starts."""
    limits = isolation.CageLimits(memory_bytes=4 << 30, recycle_bytes=isolation_plan.OWN_BYTES) if own_models else None
    return isolation.Cage(
        partial(docling_converter.convert, open_counter=HuggingFaceCounter),
        slots,
        folder,
        SystemClock(),
        prepare=partial(docling_converter.warm_up, "auto", languages, slots.threads, own_models),
        limits=limits,
    )


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


def build_daemon(engine: Engine) -> Daemon:
    """Build the loops around an engine: `workers` for text, one more for fresh changes, and one for each child."""
    seams, settings = engine.seams, engine.settings

    # The loops know each other only by these: changes that must settle, sources that must be walked, what walks saw.
    rescans: Rescans
    watchers: Watchers
    producer = Producer(
        seams.fs,
        seams.clock,
        engine.writer,
        engine.readers,
        engine.sources,
        Debounce(settings.quiet_s, longest_wait_s=settings.longest_wait_s),
        engine.own,
        lambda source_id, why: rescans.mark(source_id, why),
        engine.work,
        engine.stop,
    )
    walks = SourceWalks(
        seams.fs,
        seams.clock,
        engine.writer,
        engine.readers,
        engine.sources,
        engine.own,
        producer.take,
        engine.work,
        engine.stop,
        lambda source_id, folders: watchers.walked(source_id, folders),
        lambda source_id: watchers.is_polled(source_id),
        settings.max_missing_share,
        settings.longest_wait_s,
    )
    rescans = Rescans(seams.clock, engine.sources, walks, engine.work, engine.stop)
    watchers = Watchers(seams.make_watcher, seams.clock, producer.take, rescans.mark, seams.mounts)

    engine.source_control.tell(lambda source_id: rescans.mark(source_id, "told"))

    def gone(source_id: int) -> None:
        rescans.mark(source_id, "gone")

    workers = [engine.worker(gone, "text", Priority.LOW) for _ in range(settings.workers)]
    workers += [engine.worker(gone, "document", Priority.LOW) for _ in range(engine.slots.count)]
    workers.append(engine.worker(gone, "text", Priority.EVENT))
    loops = Loops(
        engine.writer,
        engine.batcher,
        engine.embedders,
        tuple(workers),
        producer,
        rescans,
        watchers,
        Reindexer(engine.reindexing, engine.work, engine.stop),
        Scrub(seams.fs, seams.clock, engine.writer, engine.readers, engine.sources, engine.stop),
        engine.work,
        engine.stop,
    )
    config_file = engine.locations.config_file
    return Daemon(
        loops,
        engine.kb,
        engine.sources,
        seams.clock,
        config_file,
        settings,
        lambda: load_settings(config_file),
    )


def _earlier(readers: Readers, seams: Seams) -> ModelAtHand | None:
    """Return the model of the live vectors where it is not the configured one, and is on this machine."""
    live = readers.read(reindexes.live)
    if live is None or live.fingerprint == seams.model.fingerprint:
        return None
    found = seams.find_earlier(live)
    events.warning("another_model", configured=seams.model.name, live=live.model_name, at_hand=found is not None)
    return found
