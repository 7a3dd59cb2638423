"""`kbsync purge`: deletes for good what nothing holds any more."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kbsync.interfaces.cli.exits import FAILED, UNANSWERED, complain, errors_told
from kbsync.interfaces.cli.output import Record, counted, line, print_json, size, table
from kbsync.interfaces.cli.session import session


def purge(
    older_than: Annotated[
        float,
        typer.Option("--older-than", metavar="DAYS", min=0, max=36500, help="Only what is gone for so many days."),
    ] = 0.0,
    document: Annotated[
        int | None,
        typer.Option("--document", metavar="ID", min=0, max=(1 << 63) - 1, help="Only this document, its copy too."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be deleted, and delete nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Delete older versions and documents whose files are gone, for good: no byte of them stays in the database.

    What was removed by hand or left out before is overwritten too. The database is written anew, which takes a while
    and as much room again. Files of yours are never touched; a document of which kbsync has a copy is left unless
    --document names it.
    """
    with errors_told(), session() as operations:
        found = operations.to_purge(older_than, document)
        if dry_run:
            _print_dry(found, as_json)
            return
        # Without documents nothing is lost: the database is only written anew.
        if found["total"] and not yes and not _confirmed(found):
            raise typer.Exit(UNANSWERED)
        answer = operations.purge(older_than, document)
    if as_json:
        print_json(answer)
    else:
        line(_done(answer))
        _tell_kept(answer)
        if not answer["complete"]:
            complain("A search held on to the database's log; run `kbsync purge` again to overwrite that too.")
    if not answer["complete"]:
        raise typer.Exit(FAILED)


def _done(answer: Record) -> str:
    """Say what was purged; without documents what was removed before is still overwritten."""
    now = f"the database has {size(answer['size_bytes'])} now."
    if not answer["total"]:
        return f"Nothing to purge. What was removed before is overwritten; {now}"
    return f"Purged {counted(answer['total'], 'document')}; {now}"


def _print_dry(found: Record, as_json: bool) -> None:
    if as_json:
        print_json({**found, "dry_run": True})
        return
    rows = [(one["id"], one["state"], one["until"], one["title"]) for one in found["documents"]]
    if rows:
        table(rows, ("ID", "STATE", "SINCE", "TITLE"))
    line(f"Would purge {counted(len(rows), 'document')}." if rows else "Nothing to purge.")
    _tell_kept(found)


def _tell_kept(found: Record) -> None:
    if found["kept"]:
        complain(
            f"{counted(found['kept'], 'document')} left: kbsync may hold the only copy. "
            "`kbsync purge --document ID` deletes one."
        )


def _confirmed(found: Record) -> bool:
    question = f"{counted(found['total'], 'document')} that nothing holds any more will be deleted for good"
    if not sys.stdin.isatty():
        complain(f"{question}. Say --yes to do it.")
        return False
    return typer.confirm(f"{question}. Go on?")
