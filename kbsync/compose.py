"""Builds everything from the settings, once: for the daemon, and for a command that works without it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import structlog

from kbsync import log
from kbsync.clock import Clock, SystemClock
from kbsync.config.locations import Locations
from kbsync.config.settings import Settings, load_settings
from kbsync.daemon.daemon import Daemon, Loops
from kbsync.daemon.producer import Producer
from kbsync.daemon.rescans import Rescans
from kbsync.daemon.wake import Wake
from kbsync.daemon.watchers import Watchers
from kbsync.daemon.worker import Worker
from kbsync.embed.batcher import Batcher
from kbsync.embed.embedder import Device
from kbsync.embed.model_files import ModelFiles, model_at, packaged_model
from kbsync.embed.sentence_transformer import SentenceTransformerDevice, devices
from kbsync.embed.token_counter import HuggingFaceCounter
from kbsync.errors import ConfigurationError, FailFile
from kbsync.filesystem import FileSystem, RealFileSystem, stat_of
from kbsync.knowledge_base import commits
from kbsync.knowledge_base.adding import Adding
from kbsync.knowledge_base.configured import ConfiguredSources
from kbsync.knowledge_base.conversion import Cage, DocumentReader
from kbsync.knowledge_base.facade import KnowledgeBase
from kbsync.knowledge_base.processing import Parts, Processor
from kbsync.model import Change, Conversion, ConversionRequest, Lane, Priority, Source, TokenCounter
from kbsync.pipelines import docling_converter, isolation, isolation_plan, model_catalogue
from kbsync.pipelines.isolation_plan import Slots
from kbsync.search.hybrid import QueryEmbedder, Search
from kbsync.sources.debounce import Debounce
from kbsync.sources.watcher import NativeWatcher, Watcher
from kbsync.store import documents, jobs, vectors
from kbsync.store.connection import Connection
from kbsync.store.kept_conversions import KeptConversions
from kbsync.store.stored_files import StoredFiles
from kbsync.store.writer import Readers, Writer

events = structlog.stdlib.get_logger(__name__)

MakeWatcher = Callable[[Source, Callable[[Change], None], Callable[[int, str], None]], Watcher]
# Gets the plan of the slots and the data folder.
MakeCage = Callable[[Slots, str], Cage]


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


@dataclass(frozen=True, slots=True)
class Engine:
    """An open knowledge base and the parts that work on it. The caller holds the data folder's lock."""

    locations: Locations
    settings: Settings
    seams: Seams
    writer: Writer
    readers: Readers
    batcher: Batcher
    cage: Cage
    slots: Slots
    kb: KnowledgeBase
    processor: Processor
    stored: StoredFiles
    sources: ConfiguredSources
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
        self.batcher.stop()
        self.cage.close()
        self.writer.close()
        self.readers.close()
        self.error_log.close()


def real_seams(settings: Settings, locations: Locations) -> Seams:
    """Return the real disk, clock, model and watchers. Imports no model library yet. Raises ConfigurationError."""
    model = configured_model(settings)
    setting = settings.models.device

    def open_devices() -> list[Device]:
        names = devices(setting if isinstance(setting, str) else list(setting))
        return [SentenceTransformerDevice(model, name) for name in names]

    languages, own_models = settings.ocr.languages, docling_models_folder(settings, locations)

    def make_cage(slots: Slots, folder: str) -> Cage:
        return conversion_cage(slots, folder, languages, own_models)

    return Seams(
        RealFileSystem(),
        SystemClock(),
        model,
        HuggingFaceCounter(model.tokenizer_json),
        open_devices,
        NativeWatcher,
        make_cage,
    )


def configured_model(settings: Settings) -> ModelFiles:
    """Return the embedding model that is set. Raises ConfigurationError where its folder holds none."""
    if settings.models.embedder == "packaged":
        return packaged_model()
    try:
        return model_at(settings.models.embedder)
    except FailFile as error:
        raise ConfigurationError(error.message, hint=f"models.embedder names it. {error.hint}") from error


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
        batcher = Batcher(
            seams.open_devices,
            seams.counter,
            seams.model.max_tokens,
            fingerprint=seams.model.fingerprint,
            model_name=seams.model.name,
            dimension=seams.model.dimension,
        )
        embedder_id = writer.run(lambda connection: _embedder(connection, batcher, clock.now()))
        stored = StoredFiles(locations.staging_dir, locations.documents_dir)
        _recover(writer, readers, stored, error_log, clock)
        limits = settings.chunk_limits(seams.model.max_tokens)
        own = _own_paths(locations)
        sources = ConfiguredSources(writer, readers, clock)
        slots = _slots(settings)
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
        )
        parts = Parts(
            seams.fs,
            clock,
            writer,
            readers,
            batcher,
            embedder_id,
            seams.counter,
            reader,
            limits,
            stored,
            own,
            sources.by_id,
        )
        query_embedder = QueryEmbedder(batcher, embedder_id, lambda: batcher.ready, seams.model.languages or None)
        adding = Adding(seams.fs, clock, writer, readers, stored, limits, reader, own)
        kb = KnowledgeBase(clock, writer, readers, Search(readers, query_embedder), adding, stored)
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
        cage,
        slots,
        kb,
        Processor(parts),
        stored,
        sources,
        error_log,
        own,
        Wake(),
        threading.Event(),
    )


def build_daemon(engine: Engine) -> Daemon:
    """Build the loops around an engine: `workers` for text, one more for fresh changes, and one for each child."""
    seams, settings = engine.seams, engine.settings

    # The two loops know each other only by these: changes that must settle, sources that must be walked.
    rescans: Rescans
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
    rescans = Rescans(
        seams.fs,
        seams.clock,
        engine.writer,
        engine.readers,
        engine.sources,
        engine.own,
        producer.take,
        engine.work,
        engine.stop,
    )
    watchers = Watchers(
        lambda source: seams.make_watcher(source, producer.take, rescans.mark), seams.clock, rescans.mark
    )

    def gone(source_id: int) -> None:
        rescans.mark(source_id, "gone")

    workers = [engine.worker(gone, "text", Priority.LOW) for _ in range(settings.workers)]
    workers += [engine.worker(gone, "document", Priority.LOW) for _ in range(engine.slots.count)]
    workers.append(engine.worker(gone, "text", Priority.EVENT))
    loops = Loops(engine.writer, engine.batcher, tuple(workers), producer, rescans, watchers, engine.work, engine.stop)
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


def _embedder(connection: Connection, batcher: Batcher, now: float) -> int:
    """Return the model's row. Vectors of two models are never compared: another model needs another index."""
    embedder_id = vectors.use_embedder(connection, batcher, now)
    live = vectors.live_embedder(connection)
    if live != embedder_id:
        raise ConfigurationError(
            f"The index was made with another embedding model than {batcher.model_name}.",
            hint="Set models.embedder back, or begin a new index in another data folder.",
        )
    return embedder_id


def _recover(writer: Writer, readers: Readers, stored: StoredFiles, error_log: log.ErrorLog, clock: Clock) -> None:
    """Put back what a dead process was working on, and remove the copies that it left half stored."""
    now = clock.now()
    for path, message in writer.run(lambda connection: commits.recover(connection, now)):
        error_log.record(path, message, now)
    staged, kept = readers.read(lambda connection: (jobs.staged_paths(connection), documents.stored_paths(connection)))
    _follow_moved_folder(writer, staged, stored.staging_dir, jobs.move_staged)
    _follow_moved_folder(writer, kept, stored.documents_dir, documents.move_stored)
    unclaimed = stored.sweep(staged | kept)
    if unclaimed:
        events.warning("stored_copies_unclaimed", count=len(unclaimed), first=unclaimed[0])


def _follow_moved_folder(writer: Writer, paths: set[str], folder: str, move: Callable[..., None]) -> None:
    """The data folder was moved since the paths were written: write the new ones, where the copies are there."""
    moved = [
        (path, now_at)
        for path in paths
        if os.path.dirname(path) != folder and os.path.exists(now_at := os.path.join(folder, os.path.basename(path)))
    ]
    for old, new in moved:
        writer.run(partial(move, old=old, new=new))


def _slots(settings: Settings) -> Slots:
    # The packaged models compute on the CPU.
    if settings.models.docling == "packaged":
        return isolation_plan.plan(settings.workers, *isolation_plan.cores_and_memory(), isolation_plan.PACKAGED_BYTES)
    device = settings.models.device
    gpus = isolation_plan.gpus_for(
        device if isinstance(device, str) else list(device), isolation_plan.present_gpus(os.environ)
    )
    return isolation_plan.plan(settings.workers, *isolation_plan.cores_and_memory(), isolation_plan.OWN_BYTES, gpus)


def _own_paths(locations: Locations) -> frozenset[tuple[int, int]]:
    """Return (device, inode) of kbsync's own folders and of the database's files, under whatever name they are met.

    The database must be open: then its -wal and -shm are there and stay the same files.
    """
    own = set()
    folders = (locations.data_dir, locations.state_dir, locations.log_dir)
    for path in (*folders, *(locations.database + ending for ending in ("", "-wal", "-shm"))):
        stat = stat_of(os.stat(path))
        own.add((stat.device, stat.inode))
    return frozenset(own)
