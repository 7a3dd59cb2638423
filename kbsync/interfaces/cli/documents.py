"""`kbsync documents`: what is in the index."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kbsync.interfaces.cli import export
from kbsync.interfaces.cli.exits import UNANSWERED, complain, errors_told
from kbsync.interfaces.cli.output import Record, block, counted, line, print_json, size, table
from kbsync.interfaces.cli.session import session
from kbsync.interfaces.values import LARGEST_OFFSET, LISTED_TYPES, known_listed_type, known_state, listed

app = typer.Typer(help="What is in the index.", no_args_is_help=True, rich_markup_mode=None)

app.command("export")(export.export)
app.command("open")(export.open_document)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_documents(
    state: Annotated[
        str, typer.Option("--state", help="current, superseded (an older version), missing (its file is gone) or all.")
    ] = "current",
    document_type: Annotated[
        str | None, typer.Option("--type", help=f"Only of this type: {listed(LISTED_TYPES)}.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at most.")] = 100,
    offset: Annotated[
        int, typer.Option("--offset", min=0, max=LARGEST_OFFSET, help="Leave out so many of the newest.")
    ] = 0,
    as_json: _Json = False,
) -> None:
    """List documents, newest first."""
    with errors_told():
        wanted = known_state(state)
        of_type = known_listed_type(document_type)
        with session() as operations:
            answer = operations.documents(wanted, of_type, limit, offset)
    if as_json:
        print_json(answer)
        return
    rows = [
        (document["id"], document["type"], document["state"], document["title"], _place(document))
        for document in answer["documents"]
    ]
    if not rows:
        line("No documents." if not answer["total"] else f"No more documents; there are {answer['total']}.")
        return
    table(rows, ("ID", "TYPE", "STATE", "TITLE", "PATH"))
    if answer["total"] > offset + len(rows):
        line(f"{len(rows)} of {answer['total']}.")


@app.command("show")
def show(document: export.DocumentNamed, as_json: _Json = False) -> None:
    """Show a document with its chunks."""
    with errors_told(), session() as operations:
        answer = operations.document(export.number_of(operations, document))
    if as_json:
        print_json(answer)
        return
    line(f"{answer['title']}  ({answer['type']}, {answer['state']}, {size(answer['size_bytes'])})")
    for path in answer["paths"]:
        line(path)
    for chunk in answer["chunks"]:
        header = chunk["metadata"].get("section_header")
        line()
        line(f"--- {chunk['position'] + 1}{f' · {header}' if header else ''}")
        block(chunk["text"])


@app.command("remove")
def remove(
    document: export.DocumentNamed,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: _Json = False,
) -> None:
    """Take a document out of the index. Your files stay; in followed folders they are left out from now on."""
    with errors_told(), session() as operations:
        found = operations.document(export.number_of(operations, document))
        if _is_only_copy(found) and not yes and not _confirmed(found):
            raise typer.Exit(UNANSWERED)
        answer = operations.remove_document(found["id"])
    if as_json:
        print_json(answer)
        return
    line(f"Removed {answer['removed']['title']}.")
    if len(found["paths"]) > 1:
        line(f"It was the same document in {counted(len(found['paths']), 'file')}: {', '.join(found['paths'])}.")


def _is_only_copy(document: Record) -> bool:
    """A note, or a file that was added by hand: the original may be gone."""
    return document["type"] == "note" or document["stored_path"] is not None


def _confirmed(document: Record) -> bool:
    if not sys.stdin.isatty():
        complain(f"kbsync may hold the only copy of {document['title']!r}. Say --yes to remove it.")
        return False
    return typer.confirm(f"kbsync may hold the only copy of {document['title']!r}. Remove it?")


def _place(document: Record) -> str:
    paths = document["paths"]
    if not paths:
        return "note" if document["type"] == "note" else document["original_filename"] or ""
    return paths[0] if len(paths) == 1 else f"{paths[0]} (and {len(paths) - 1} more)"
