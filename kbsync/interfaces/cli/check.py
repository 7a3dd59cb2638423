"""`kbsync check`: whether all is whole, and making it whole."""

from __future__ import annotations

from typing import Annotated

import typer

from kbsync.errors import DatabaseDamaged
from kbsync.interfaces.cli.exits import FAILED, errors_told
from kbsync.interfaces.cli.output import Record, line, print_json
from kbsync.interfaces.cli.session import session, session_with_engine


def check(
    repair: Annotated[bool, typer.Option("--repair", help="Make whole what is not, from what is sure.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check that all is whole: the database, that text, full text, vectors and folders agree, and stored copies."""
    with errors_told():
        try:
            answer = _asked(repair=repair)
        except DatabaseDamaged as error:
            if not as_json:
                raise
            answer = _unreadable(error)
    if as_json:
        print_json(answer)
    else:
        _print(answer, repair=repair)
    if not answer["ok"]:
        raise typer.Exit(FAILED)


def _asked(*, repair: bool) -> Record:
    with session_with_engine(may_rebuild=repair) as (operations, engine):
        answer = operations.check(repair=repair)
    # The file itself, or a table of another form: no row of it can be mended.
    damaged = [one for one in answer["problems"] if one["kind"] in ("corrupt", "schema") and not one["repaired"]]
    if not (repair and damaged and engine is not None):
        return answer
    # The check has noted it: whoever opens the file now sets it aside and makes another one.
    with session(may_rebuild=True) as operations:
        answer = operations.check(repair=True)
    done = "The file was set aside; `kbsync run` builds the index anew."
    repaired = [{**problem, "repaired": True, "done": done, "hint": ""} for problem in damaged]
    return {**answer, "problems": [*repaired, *answer["problems"]]}


def _unreadable(error: DatabaseDamaged) -> Record:
    """Return the answer about a database that cannot even be opened."""
    from kbsync.interfaces.records import check_record
    from kbsync.knowledge_base.damage import SENTENCES, Damage, Problem

    problem = Problem(Damage.CORRUPT, SENTENCES[Damage.CORRUPT], 1, error.message, hint=error.hint)
    return {**check_record([problem]), "unread": None, "notices": []}


def _print(answer: Record, *, repair: bool) -> None:
    from kbsync.interfaces.notices import where

    for problem in answer["problems"]:
        line(f"{problem['kind']}: {problem['detail']} {where(problem['count'], problem['first'])}".rstrip())
        if problem["repaired"]:
            line(f"  Repaired. {problem['done']}".rstrip())
            continue
        if problem["done"]:
            line(f"  {problem['done']}")
        if problem["hint"]:
            line(f"  {problem['hint']}")
    for notice in answer["notices"]:
        line(f"! {notice}")
    if answer["unread"]:
        line(f"! {answer['unread']}")
    if answer["ok"] and answer["unread"]:
        line("What is there is whole; the rest follows once it is read.")
    elif answer["ok"]:
        line("All is whole again." if answer["problems"] else "All is whole.")
    elif repair:
        line("Not all could be repaired.")
    elif not all(problem["repaired"] or problem["hint"] for problem in answer["problems"]):
        line("`kbsync check --repair` makes whole what can be.")
