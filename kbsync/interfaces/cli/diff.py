"""`kbsync diff`: what a rescan would do, without doing it."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from kbsync.interfaces.cli.exits import complain, errors_told
from kbsync.interfaces.cli.output import line, print_json, table
from kbsync.interfaces.cli.session import session


def diff(
    source: Annotated[str | None, typer.Argument(metavar="SOURCE", help="Only this followed folder.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at most.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what a look at the folders would find now: new, changed, gone and moved files. Nothing is changed."""
    with errors_told(), session() as operations:
        answer = operations.diff(None if source is None else os.path.abspath(source), limit)
    if as_json:
        print_json(answer)
        return
    for notice in answer["notices"]:
        complain(notice)
    if not answer["changes"]:
        line("Nothing else would be done." if answer["notices"] else "Everything is as it was seen last.")
        return
    table([(change["change"], _where(change)) for change in answer["changes"]], ("CHANGE", "PATH"))
    if answer["total"] > len(answer["changes"]):
        line(f"{len(answer['changes'])} of {answer['total']}.")


def _where(change: dict[str, str | None]) -> str:
    where = f"{change['from']} -> {change['path']}" if change["from"] else str(change["path"])
    return f"{where} ({change['reason']})" if change["reason"] else where
