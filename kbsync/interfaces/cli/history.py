"""`kbsync history`: what happened to files, folders and documents."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from kbsync.interfaces.cli.exits import errors_told
from kbsync.interfaces.cli.output import line, local, print_json, table
from kbsync.interfaces.cli.session import session


def history(
    path: Annotated[str | None, typer.Argument(help="Only of this file, or of what is below this folder.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at most.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what happened, newest first: indexed, found, moved, gone, skipped, failed, removed, paused, held and more."""
    with errors_told(), session() as operations:
        answer = operations.history(None if path is None else os.path.abspath(path), limit)
    if as_json:
        print_json(answer)
        return
    if not answer["events"]:
        line("Nothing happened yet." if path is None else "Nothing is known to have happened there.")
        return
    rows = [(local(event["at"], "%Y-%m-%d %H:%M:%S"), event["kind"], *_told(event)) for event in answer["events"]]
    table(rows, ("WHEN", "WHAT", "WHERE"))
    if answer["total"] > len(answer["events"]):
        line(f"{len(answer['events'])} of {answer['total']}.")


def _told(event: dict[str, str | int | None]) -> tuple[str]:
    document = f"document {event['document_id']}" if event["document_id"] is not None else ""
    where = str(event["path"] or document)
    more = [str(part) for part in (document if event["path"] else "", event["detail"]) if part]
    return (f"{where} ({'; '.join(more)})" if more else where,)
