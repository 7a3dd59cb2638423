"""What a command needs for a knowledge project: a converter in a private place, and a model where one is configured."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from kbsync.clock import SystemClock
from kbsync.compose.engine import Engine
from kbsync.compose.seams import conversion_cage, docling_models_folder
from kbsync.config.locations import Locations
from kbsync.config.settings import Settings
from kbsync.embed.model_files import packaged_model
from kbsync.errors import ConfigurationError
from kbsync.knowledge_base.conversion import passwords_in
from kbsync.pipelines import isolation_plan
from kbsync.projects import summary
from kbsync.projects.converting import Cage, CageConverter
from kbsync.projects.endpoint import Endpoint
from kbsync.projects.ingest import Tools
from kbsync.projects.writing import ModelAnswerer, ModelWriter


@dataclass(frozen=True, slots=True)
class ProjectModels:
    """What writes and answers where an endpoint is configured; both None: sentences are taken out, and quoted."""

    writer: ModelWriter | None
    answerer: ModelAnswerer | None


def project_models(settings: Settings) -> ProjectModels:
    """Return the configured models. Nothing is sent yet. Raises ConfigurationError."""
    wanted = settings.projects
    if wanted.endpoint is None:
        return ProjectModels(None, None)
    if wanted.model is None:
        raise ConfigurationError(
            "projects.endpoint is set, and no projects.model.", hint="Name the model that shall answer there."
        )
    endpoint = Endpoint(wanted.endpoint, wanted.model, _key(wanted.key_file), wanted.timeout_s)
    return ProjectModels(ModelWriter(endpoint), ModelAnswerer(endpoint))


@contextmanager
def project_tools(
    settings: Settings, locations: Locations, models: ProjectModels, password_file: str | None = None
) -> Iterator[Tools]:
    """Yield what an ingest works with; children that read documents start with the first one and end with this.

    Raises ConfigurationError.
    """
    slots = isolation_plan.plan_here(1, settings.models.device, own_models=settings.models.docling != "packaged")
    own_models = docling_models_folder(settings, locations)
    with ExitStack() as stack:

        def open_cage() -> Cage:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kbsync-project-"))
            cage = conversion_cage(slots, folder, settings.ocr.languages, own_models)
            stack.callback(cage.close)
            return cage

        converter = CageConverter(
            open_cage,
            languages=settings.ocr.languages,
            threads=slots.threads,
            tokenizer_json=packaged_model().tokenizer_json,
            models=own_models,
            passwords=() if password_file is None else tuple(passwords_in(password_file)),
        )
        summarize = summary.summarize if models.writer is None else models.writer.summarize
        yield Tools(SystemClock(), converter, summarize, settings.encodings)


def daemon_tools(engine: Engine) -> Tools:
    """Return what the daemon's intake works with: the children that read documents for the index read these too.

    Raises ConfigurationError.
    """
    settings = engine.settings
    writer = project_models(settings).writer
    converter = CageConverter(
        lambda: engine.cage,
        languages=settings.ocr.languages,
        threads=engine.slots.threads,
        tokenizer_json=engine.seams.model.tokenizer_json,
        models=docling_models_folder(settings, engine.locations),
    )
    summarize = summary.summarize if writer is None else writer.summarize
    return Tools(engine.seams.clock, converter, summarize, settings.encodings)


def _key(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            key = file.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"projects.key_file {path} cannot be read: {error}.", hint="Correct it.") from error
    if not key or not key.isprintable() or not key.isascii():
        raise ConfigurationError(f"projects.key_file {path} holds no key.", hint="Put the key alone into it.")
    return key
