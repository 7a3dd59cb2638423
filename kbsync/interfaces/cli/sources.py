"""`kbsync sources`: which folders are followed."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from kbsync.interfaces.cli.estimate import estimate_line, rough_seconds
from kbsync.interfaces.cli.exits import complain, errors_told
from kbsync.interfaces.cli.output import line, print_json, table
from kbsync.interfaces.cli.session import session

app = typer.Typer(help="The folders that are followed.", no_args_is_help=True, rich_markup_mode=None)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Folder = Annotated[str, typer.Argument(metavar="FOLDER", help="A folder; it is never written to.")]


@app.command("add")
def add(
    folder: _Folder,
    recursive: Annotated[bool, typer.Option("--recursive/--no-recursive", help="Folders inside it too.")] = True,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", help="Leave these out (.gitignore syntax); may be repeated.")
    ] = None,
    as_json: _Json = False,
) -> None:
    """Follow a folder: write it into the configuration and, with the daemon running, begin at once."""
    path = os.path.abspath(folder)
    with errors_told(), session() as operations:
        found = operations.survey(path, recursive=recursive, ignore=ignore or [])
        seconds = rough_seconds(found["by_type"])
        if not as_json and os.path.isdir(path):
            complain(f"{path}: {estimate_line(found, seconds)}")
        answer = operations.add_source(path, recursive=recursive, ignore=ignore or [])
    answer["estimate"] = {**found, "seconds": round(seconds)}
    if as_json:
        print_json(answer)
    else:
        line(f"Following {answer['added']}.")


@app.command("list")
def list_sources(as_json: _Json = False) -> None:
    """List the folders that are followed, with their state."""
    with errors_told(), session() as operations:
        answer = operations.sources()
    if as_json:
        print_json(answer)
        return
    heads = ("SOURCE", "STATE", "INDEXED", "WAITING", "SKIPPED", "FAILED")
    table(
        [
            (source["path"], source["state"], *(source["files"][head.lower()] for head in heads[2:]))
            for source in answer["sources"]
        ],
        heads,
    )


@app.command("remove")
def remove(folder: _Folder, as_json: _Json = False) -> None:
    """Stop following a folder. Its files stay; what they held is hidden from search."""
    with errors_told(), session() as operations:
        answer = operations.remove_source(os.path.abspath(folder))
    if as_json:
        print_json(answer)
    else:
        line(f"Not following {answer['removed']} any more. Its files are untouched.")
