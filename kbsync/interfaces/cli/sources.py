"""`kbsync sources`: which folders are followed."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from kbsync.interfaces.cli.estimate import estimate_line, rough_seconds
from kbsync.interfaces.cli.exits import complain, errors_told
from kbsync.interfaces.cli.output import Record, line, print_json, table
from kbsync.interfaces.cli.session import session

app = typer.Typer(help="The folders that are followed.", no_args_is_help=True, rich_markup_mode=None)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Folder = Annotated[
    str, typer.Argument(metavar="FOLDER", help="A folder; it is never written to, unless it is an inbox.")
]


@app.command("add")
def add(
    folder: _Folder,
    recursive: Annotated[bool, typer.Option("--recursive/--no-recursive", help="Folders inside it too.")] = True,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", help="Leave these out (.gitignore syntax); may be repeated.")
    ] = None,
    inbox: Annotated[
        bool, typer.Option("--inbox", help="Take every file in: its copy is kept by kbsync, and the file goes.")
    ] = False,
    as_json: _Json = False,
) -> None:
    """Follow a folder: write it into the configuration and, with the daemon running, begin at once."""
    path = os.path.abspath(folder)
    with errors_told(), session() as operations:
        answer = operations.add_source(
            path, recursive=recursive, ignore=ignore or [], mode="inbox" if inbox else "mirror"
        )
        found = operations.survey(path, recursive=recursive, ignore=ignore or [])
        seconds = rough_seconds(found["by_type"])
    answer["estimate"] = {**found, "seconds": round(seconds)}
    if as_json:
        print_json(answer)
    else:
        line(f"Following {answer['added']}.")
        complain(f"{path}: {estimate_line(found, seconds)}")
        if inbox:
            line("It is an inbox: what is indexed moves from there into kbsync's own store.")


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
    for source in answer["sources"]:
        if source["detail"]:
            line(f"{source['state']}{f' ({reason})' if (reason := source['reason']) else ''}: {source['detail']}")


@app.command("pause")
def pause(folder: _Folder, as_json: _Json = False) -> None:
    """Leave a folder alone until `resume`: nothing of it is read or taken for gone. Search goes on."""
    with errors_told(), session() as operations:
        answer = operations.pause_source(os.path.abspath(folder))
    _print_controlled(answer, as_json, "is paused")


@app.command("resume")
def resume(folder: _Folder, as_json: _Json = False) -> None:
    """Go on with a folder that you paused: it is looked through at once."""
    with errors_told(), session() as operations:
        answer = operations.resume_source(os.path.abspath(folder))
    _print_controlled(answer, as_json, "is followed again")


@app.command("confirm")
def confirm(folder: _Folder, as_json: _Json = False) -> None:
    """Say that files which are missing from a folder are gone on purpose: what they held is hidden from search.

    It also takes an emptied folder as empty, and another folder in its place as the one to follow.
    """
    with errors_told(), session() as operations:
        answer = operations.confirm_source(os.path.abspath(folder))
    _print_controlled(answer, as_json, "is taken as it is now")


def _print_controlled(answer: Record, as_json: bool, what: str) -> None:
    if as_json:
        print_json(answer)
    else:
        line(f"{answer['source']['path']} {what}.")


@app.command("remove")
def remove(folder: _Folder, as_json: _Json = False) -> None:
    """Stop following a folder. Its files stay; what they held is hidden from search."""
    with errors_told(), session() as operations:
        answer = operations.remove_source(os.path.abspath(folder))
    if as_json:
        print_json(answer)
    else:
        line(f"Not following {answer['removed']} any more. Its files are untouched.")
