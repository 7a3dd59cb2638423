"""`kbsync config`: where the configuration is, what it says, whether it is right."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from kbsync.errors import ConfigurationError, Mistake, UsageError
from kbsync.interfaces.cli.exits import BAD_CONFIGURATION, complain, errors_told
from kbsync.interfaces.cli.output import block, counted, line, print_json
from kbsync.interfaces.cli.session import locations

if TYPE_CHECKING:
    from kbsync.config.locations import Locations
    from kbsync.config.mistakes import Keys
    from kbsync.config.settings import Settings

app = typer.Typer(help="The configuration.", no_args_is_help=True, rich_markup_mode=None)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("path")
def path() -> None:
    """Print where the configuration file is."""
    line(locations().config_file)


@app.command("show")
def show(as_json: _Json = False) -> None:
    """Print every setting that holds now: the file, KBSYNC_* variables and defaults together."""
    with errors_told():
        from kbsync.config.settings import load_settings, unknown_variables
        from kbsync.config.written import as_toml

        settings = load_settings(locations().config_file).model_dump(mode="json")
        for message in unknown_variables(os.environ):
            complain(message)
    if as_json:
        print_json(settings)
    else:
        block(as_toml(settings).rstrip())


@app.command("check")
def check(as_json: _Json = False) -> None:
    """Say whether the configuration can be used, its models and devices too (exit code 78 where not).

    Every mistake is told with its line in the file, or with the variable that it comes from.
    """
    from kbsync.config.settings import load_settings, unknown_variables
    from kbsync.config.usable import usable_part

    places = locations()
    missing: list[str] = []
    mistakes: list[Mistake] = []
    with errors_told():
        try:
            settings = load_settings(places.config_file)
        except ConfigurationError as error:
            mistakes = list(error.mistakes)
            problems = [_placed(places, mistake) for mistake in mistakes] or [str(error)]
            with suppress(ConfigurationError):  # no TOML at all: that is told
                problems += _unusable(usable_part(places.config_file), places)
        else:
            for message in unknown_variables(os.environ):
                complain(message)
            problems = _unusable(settings, places)
            missing = [source.path for source in settings.sources if not os.path.isdir(source.path)]
            for source in settings.sources:
                if source.password_file is not None and not os.access(source.password_file, os.R_OK):
                    complain(f"The password file {source.password_file} of {source.path} is not there or not readable.")
    for problem in problems:
        complain(problem)
    if as_json:
        print_json(
            {
                "ok": not problems,
                "path": places.config_file,
                "missing": missing,
                "problems": problems,
                "mistakes": [asdict(mistake) for mistake in mistakes],
            }
        )
    if problems:
        raise typer.Exit(BAD_CONFIGURATION)
    if as_json:
        return
    if os.path.exists(places.config_file):
        line(f"{places.config_file} is right: {counted(len(settings.sources), 'source')}.")
    else:
        line(f"There is no {places.config_file}; the defaults hold.")
    for path in missing:
        line(f"{path} is not there now.")


@app.command("init")
def init() -> None:
    """Write a configuration file with everything explained, where there is none."""
    with errors_told():
        from kbsync.config.written import template

        places = locations()
        target = places.config_file
        places.make_config_folder()
        try:
            with open(target, "x", encoding="utf-8", opener=_open_private) as file:
                file.write(template())
        except FileExistsError:
            raise UsageError(f"{target} is there already; nothing was changed.") from None
        except OSError as error:
            raise ConfigurationError(
                f"{target} cannot be written: {error.strerror}.", hint="Make its folder writable, or free some space."
            ) from error
    line(f"Wrote {target}.")


def _unusable(settings: Settings, locations: Locations) -> list[str]:
    """Return a message for everything that is set and cannot be used here: models, the device, patterns of sources.

    Imports torch (4 s) where a device is named.
    """
    from kbsync.compose import configured_model, docling_models_folder, require_reranker
    from kbsync.compose.project_tools import project_models
    from kbsync.config.file import text_of
    from kbsync.config.mistakes import line_of
    from kbsync.embed.sentence_transformer import devices
    from kbsync.model import Source
    from kbsync.sources.ignore import rules_for

    device = settings.models.device
    checks: list[tuple[Keys, Callable[[], object]]] = [
        (("models", "embedder"), partial(configured_model, settings)),
        (("models", "reranker"), partial(require_reranker, settings)),
        (("models", "docling"), partial(docling_models_folder, settings, locations)),
        (("ocr", "languages"), partial(_require_language, settings.ocr.languages)),
        (("projects", "endpoint"), partial(project_models, settings)),
    ]
    if device not in ("auto", "cpu"):
        names = device if isinstance(device, str) else list(device)
        checks.append((("models", "device"), partial(devices, names)))
    checks += [
        (
            ("sources", n, "ignore"),
            partial(rules_for, Source(0, entry.path, include=entry.include, ignore=entry.ignore)),
        )
        for n, entry in enumerate(settings.sources)
    ]
    found = []
    for keys, check in checks:
        try:
            check()
        except ConfigurationError as error:
            line = line_of(text_of(locations.config_file), keys) if os.path.exists(locations.config_file) else None
            found.append(f"{locations.config_file}, line {line}: {error}" if line else str(error))
    return found


def _require_language(languages: tuple[str, ...]) -> None:
    """Raise ConfigurationError for a language that OCR does not read. One unknown by name imports Docling (10 s)."""
    if not languages:
        return
    from kbsync.pipelines.docling_converter import reads_language

    if not reads_language(languages[0]):
        raise ConfigurationError(
            f"ocr.languages: OCR cannot read {languages[0]!r}.",
            hint="Name another language such as de, fr, ch or japan, or none.",
        )


def _placed(locations: Locations, mistake: Mistake) -> str:
    """Return a mistake with the file that it is in; one that comes from a variable is in none."""
    return str(mistake) if mistake.variable else f"{locations.config_file}, {mistake}"


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
