"""`kbsync backup`: a copy of everything in a folder, written while the daemon goes on."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from kbsync.errors import UsageError
from kbsync.interfaces.cli.exits import FAILED, complain, errors_told
from kbsync.interfaces.cli.output import Record, counted, line, print_json, size
from kbsync.interfaces.cli.session import session


def backup(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A folder that is new or empty, best on another disk.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write a backup: the database, the copies that kbsync keeps, kept conversions, and config.toml.

    Search and indexing go on. Files in followed folders are yours to back up; models that were downloaded are fetched
    again. `kbsync restore` reads it, on this machine or another.
    """
    with errors_told():
        path = named_folder(folder)  # before anything is opened
        with session() as operations:
            answer = operations.backup(path)
    if as_json:
        print_json(answer)
    else:
        line(f"Wrote {answer['path']}: {contents(answer)}, {answer['seconds']:.1f} s.")
        for problem in answer["problems"]:
            complain(problem)
    if answer["problems"]:
        raise typer.Exit(FAILED)


def named_folder(folder: str) -> str:
    """Return the absolute path of a folder that was named. Raises UsageError for "", which would be the current one."""
    if not folder:
        raise UsageError("DIR is empty.", hint="Name a folder; `.` is the current one.")
    return os.path.abspath(folder)


def contents(answer: Record) -> str:
    """Say how much a backup holds."""
    parts = (
        counted(answer["documents"], "document"),
        counted(answer["chunks"], "chunk"),
        counted(answer["stored_files"], "stored file"),
        size(answer["size_bytes"]),
    )
    return ", ".join(parts)
