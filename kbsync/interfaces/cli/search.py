"""`kbsync search`."""

from __future__ import annotations

from typing import Annotated

import typer

from kbsync.interfaces.cli.exits import NOTHING, complain, errors_told
from kbsync.interfaces.cli.output import Record, line, marked_line, print_json
from kbsync.interfaces.cli.session import session_with_engine
from kbsync.interfaces.values import LARGEST_OFFSET, known_mode

# Loading the model takes this long at most, or something is wrong with it.
_MODEL_S = 300.0


def search(
    query: Annotated[list[str], typer.Argument(metavar="QUERY...", help="Words, or a question.")],
    mode: Annotated[
        str | None, typer.Option("--mode", help="hybrid, lexical (words only) or vector (meaning only).")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at most.")] = 10,
    offset: Annotated[
        int, typer.Option("--offset", min=0, max=LARGEST_OFFSET, help="Leave out so many of the best.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find documents by what they say. Without the daemon by words only, unless --mode asks for more."""
    with errors_told():
        wanted = None if mode is None else known_mode(mode)
        with session_with_engine() as (operations, engine):
            if engine is None:
                answer = operations.search(" ".join(query), wanted or "hybrid", limit, offset)
            else:
                if wanted in ("hybrid", "vector"):
                    complain("The daemon is not running; loading the model takes a while.")
                    engine.batcher.start()
                    engine.batcher.wait_ready(_MODEL_S)
                answer = operations.search(" ".join(query), wanted or "lexical", limit, offset)
                if wanted is None:
                    answer["notice"] = "The daemon is not running: found by words only."
    if as_json:
        print_json(answer)
    else:
        _print(answer)
    if not answer["hits"]:
        raise typer.Exit(NOTHING)


def _print(answer: Record) -> None:
    if answer["notice"]:
        complain(answer["notice"])
    if not answer["hits"]:
        complain("Nothing found.")
    for hit in answer["hits"]:
        header = f" > {hit['section_header']}" if hit["section_header"] else ""
        page = f", page {hit['page']}" if hit["page"] is not None else ""
        line(f"{hit['rank']}. {hit['title']}{header}{page}")
        marked_line(f"   {hit['snippet']}")
        line(f"   {hit['path'] or 'note'}  (document {hit['document_id']})")
        line()
