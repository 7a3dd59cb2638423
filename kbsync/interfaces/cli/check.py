"""`kbsync check`: whether the database is whole."""

from __future__ import annotations

from typing import Annotated

import typer

from kbsync.interfaces.cli.exits import FAILED, errors_told
from kbsync.interfaces.cli.output import line, print_json
from kbsync.interfaces.cli.session import session


def check(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Check the database: the file itself, and that chunks, full text and vectors agree."""
    with errors_told(), session() as operations:
        answer = operations.check()
    if as_json:
        print_json(answer)
    else:
        for problem in answer["problems"]:
            line(f"{problem['kind']}: {problem['detail']} ({problem['count']})")
        line("The database is whole." if answer["ok"] else "The database has problems.")
    if not answer["ok"]:
        raise typer.Exit(FAILED)
