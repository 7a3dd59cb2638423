"""`kbsync models`: which models there are, and the only command that ever fetches any."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kbsync.daemon.lock import owner_of
from kbsync.errors import UsageError
from kbsync.interfaces.cli.exits import UNANSWERED, complain, errors_told
from kbsync.interfaces.cli.output import Record, line, print_json, size, table
from kbsync.interfaces.cli.session import locations

if TYPE_CHECKING:
    from kbsync.config.locations import Locations
    from kbsync.config.settings import Settings
    from kbsync.pipelines.model_catalogue import Model

app = typer.Typer(help="The models, all of them on this machine.", no_args_is_help=True, rich_markup_mode=None)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_models(as_json: _Json = False) -> None:
    """List the models: what for, whether in use, where they are, size and licence. Reads no network."""
    with errors_told():
        from kbsync.pipelines import model_catalogue

        places = locations()
        settings = _settings(places.config_file)
        packaged, own = model_catalogue.packaged_models(), model_catalogue.docling_models(places.models_dir)
        found = [_embedder(settings), *packaged, *own]
        records = [_record(model, settings) for model in found]
    if as_json:
        print_json({"models": records, "total": len(records)})
        return
    rows = [
        (
            record["name"],
            record["purpose"],
            "yes" if record["in_use"] else "no",
            size(record["size_bytes"]),
            record["license"] or "unknown",
            record["path"] or "not on this disk",
        )
        for record in records
    ]
    table(rows, ("MODEL", "FOR", "IN USE", "SIZE", "LICENCE", "PATH"))


@app.command("download")
def download(yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False) -> None:
    """Fetch Docling's own models for layout and tables from huggingface.co. Everything works without them."""
    with errors_told():
        from kbsync.pipelines import model_catalogue

        places = locations()
        settings = _settings(places.config_file)
        own = model_catalogue.docling_models(places.models_dir)
        if not model_catalogue.are_there(own):
            missing = [model for model in own if model.path is None]
            for model in missing:
                line(f"{model.name} ({model.purpose}): {size(model.size)}, licence {model.license}")
            line(f"From huggingface.co into {places.models_dir}.")
            if not yes and not _confirmed(size(sum(model.size for model in missing))):
                raise typer.Exit(UNANSWERED)
            places.make_folders()
            model_catalogue.fetch_docling_models(places.models_dir, progress=sys.stderr.isatty())
    line(f"Docling's own models are in {places.models_dir}.")
    if settings.models.docling == "packaged":
        line(f'They are used when {places.config_file} says docling = "docling" under [models].')


@app.command("use")
def use(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="packaged, multilingual, bge-m3, qwen3, or a model's folder.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before anything is fetched.")] = False,
) -> None:
    """Choose the embedding model. The index is made anew for it at the next start, while search goes on.

    multilingual, bge-m3 and qwen3 are fetched from huggingface.co where they are not on this disk; everything else
    reads no network.
    """
    with errors_told():
        from kbsync.config.file import set_embedder
        from kbsync.embed.model_files import model_at, packaged_model

        places = locations()
        _settings(places.config_file)  # with a mistake in it nothing is fetched
        chosen = "packaged"
        if model == "packaged":
            files = packaged_model()
        else:
            chosen = _embedder_folder(model, places, yes=yes)
            files = model_at(chosen)
        set_embedder(places.config_file, chosen)
        line(f"{files.name} ({files.dimension} dimensions) is written into {places.config_file}.")
        running = owner_of(places.lock_file)
        begin = "Restart the daemon" if running is not None and running.role == "daemon" else "`kbsync run`"
        line(f"{begin}: it makes the index anew for this model, and search goes on meanwhile.")


def _embedder_folder(model: str, places: Locations, *, yes: bool) -> str:
    """Return the folder of a model: one that is known by name, fetched where need be, or one named by its folder."""
    from kbsync.embed.model_files import model_at
    from kbsync.errors import FailFile
    from kbsync.pipelines import model_catalogue

    known = next((one for one in model_catalogue.HUB_EMBEDDERS if one.name == model), None)
    if known is None:
        folder = os.path.abspath(os.path.expanduser(model))
        if not os.path.isdir(folder):
            names = ", ".join(one.name for one in model_catalogue.HUB_EMBEDDERS)
            raise UsageError(f"There is no model {model!r}.", hint=f"Name packaged, {names}, or a model's folder.")
        return folder
    folder = known.folder(places.models_dir)
    try:
        model_at(folder)
    except FailFile:  # not there yet, or not whole
        line(f"{known.repository}: {known.dimension} dimensions, {size(known.size)}, licence {known.license}")
        line(f"From huggingface.co into {folder}.")
        if not yes and not _confirmed(size(known.size)):
            raise typer.Exit(UNANSWERED) from None
        places.make_folders()
        model_catalogue.fetch_embedder(known, places.models_dir, progress=sys.stderr.isatty())
    model_catalogue.write_prompts(known, folder)  # an interruption may have come between the files and these
    return folder


def _settings(config_file: str) -> Settings:
    from kbsync.config.settings import load_settings

    return load_settings(config_file)


def _embedder(settings: Settings) -> Model:
    from kbsync.compose import configured_model
    from kbsync.embed.model_files import license_of, size_of
    from kbsync.pipelines.model_catalogue import Model

    packaged = settings.models.embedder == "packaged"
    files = configured_model(settings)
    return Model(
        files.name,
        "embedding",
        "package" if packaged else "folder",
        files.folder,
        size_of(files),
        license_of(files),
    )


def _record(model: Model, settings: Settings) -> Record:
    chosen = model.purpose in ("embedding", "OCR") or (model.origin == "docling") == (
        settings.models.docling == "docling"
    )
    return {
        "name": model.name,
        "purpose": model.purpose,
        "origin": model.origin,
        "in_use": chosen and model.path is not None,
        "path": model.path,
        "size_bytes": model.size,
        "license": model.license or None,
    }


def _confirmed(total: str) -> bool:
    if not sys.stdin.isatty():
        complain(f"{total} would be fetched. Say --yes to do it.")
        return False
    return typer.confirm(f"Fetch {total}?")
