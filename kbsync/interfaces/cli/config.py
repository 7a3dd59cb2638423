"""`kbsync config`: where the configuration is, what it says, whether it is right."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from kbsync.errors import ConfigurationError, UsageError
from kbsync.interfaces.cli.exits import complain, errors_told
from kbsync.interfaces.cli.output import block, counted, line, print_json
from kbsync.interfaces.cli.session import locations

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
    """Say whether the configuration can be used (exit code 78 where not)."""
    with errors_told():
        from kbsync.config.settings import load_settings, unknown_variables

        places = locations()
        settings = load_settings(places.config_file)
        for message in unknown_variables(os.environ):
            complain(message)
    missing = [source.path for source in settings.sources if not os.path.isdir(source.path)]
    if as_json:
        print_json({"ok": True, "path": places.config_file, "missing": missing})
        return
    if os.path.exists(places.config_file):
        line(f"{places.config_file} is right: {counted(len(settings.sources), 'source')}.")
    else:
        line(f"There is no {places.config_file}; the defaults hold.")
    for source in missing:
        line(f"{source} is not there now.")


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


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
