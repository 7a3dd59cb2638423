"""`kbsync sources`: which folders are followed."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from kbsync.config.variables import refuse_sources_fixed
from kbsync.errors import Unconfirmed, UsageError
from kbsync.interfaces.cli.estimate import estimate_line, rough_seconds
from kbsync.interfaces.cli.exits import UNANSWERED, complain, errors_told, one_line
from kbsync.interfaces.cli.output import Record, counted, line, print_json, table
from kbsync.interfaces.cli.session import session

if TYPE_CHECKING:
    from kbsync.interfaces.cli.remote import Remote
    from kbsync.interfaces.operations import Operations

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
    project: Annotated[
        bool, typer.Option("--project", help="A knowledge project: take in what is dropped into its sources/.")
    ] = False,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", "-y", help="Do not ask, neither for the whole home folder nor before an inbox is emptied."
        ),
    ] = False,
    as_json: _Json = False,
) -> None:
    """Follow a folder: write it into the configuration and, with the daemon running, begin at once."""
    path = os.path.abspath(folder)
    with errors_told():
        if project and (inbox or ignore or not recursive):
            raise UsageError("--project goes with no other option.", hint="A project has a form of its own.")
    if project:
        _follow_project(path, as_json)
        return
    with errors_told(), _editing() as operations:
        answer = _added(operations, path, recursive=recursive, ignore=ignore or [], inbox=inbox, yes=yes)
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


def _follow_project(path: str, as_json: bool) -> None:
    with errors_told(), _editing() as operations:
        answer = operations.add_source(path, mode="project")
    if as_json:
        print_json(answer)
    else:
        line(f"Following {answer['added']}: what is dropped into its sources/ is taken in while the daemon runs.")


def is_asked() -> bool:
    """Say whether there is somebody to ask."""
    return sys.stdin.isatty()


@contextmanager
def _editing() -> Iterator[Remote | Operations]:
    """Open a session that edits the sources in config.toml: not where a variable of this very command beats them."""
    refuse_sources_fixed(os.environ)
    with session() as operations:
        yield operations


def _added(
    operations: Remote | Operations, path: str, *, recursive: bool, ignore: list[str], inbox: bool, yes: bool
) -> Record:
    """Add the folder; where it is the whole home, or files would be taken out of it, once a person has said yes."""
    try:
        return operations.add_source(
            path, recursive=recursive, ignore=ignore, mode="inbox" if inbox else "mirror", confirmed=yes
        )
    except Unconfirmed as error:
        if not is_asked():
            raise
        if not typer.confirm(f"{one_line(error.message)} Go on?"):
            raise typer.Exit(UNANSWERED) from None
    return operations.add_source(
        path, recursive=recursive, ignore=ignore, mode="inbox" if inbox else "mirror", confirmed=True
    )


@app.command("list")
def list_sources(as_json: _Json = False) -> None:
    """List the folders that are followed, with their state."""
    with errors_told(), session() as operations:
        answer = operations.sources()
    if as_json:
        print_json(answer)
        return
    heads = ("SOURCE", "MODE", "STATE", "INDEXED", "WAITING", "SKIPPED", "FAILED")
    table(
        [
            (source["path"], source["mode"], source["state"], *(source["files"][head.lower()] for head in heads[3:]))
            for source in answer["sources"]
        ],
        heads,
    )
    for project in answer["projects"]:
        waiting = counted(len(project["waiting"]), "file waits", "files wait")
        state = project["problem"] or f"{waiting}, {len(project['refused'])} refused"
        line(f"{project['path']}  project: {state}")
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
    """Stop following a folder. Its files stay; what they held is hidden from search.

    What an inbox took in stays indexed and stored: `kbsync documents export` writes it to a file again.
    """
    with errors_told(), _editing() as operations:
        answer = operations.remove_source(os.path.abspath(folder))
    if as_json:
        print_json(answer)
        return
    line(f"Not following {answer['removed']} any more. {_left_behind(answer)}")


def _left_behind(answer: Record) -> str:
    """Say what became of the files of a folder that is followed no more."""
    if answer["mode"] == "project":
        return "Nothing more is taken in there; all of it stays."
    if answer["mode"] != "inbox":
        return "Its files are untouched; what they held is hidden from search."
    return (
        "What was taken in stays indexed and stored: "
        f"`kbsync search --in {shlex.quote(answer['removed'])} WORDS` finds it, "
        "`kbsync documents export ID` writes one to a file again."
    )
