"""`kbsync search`."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from kbsync.interfaces.cli.exits import NOTHING, complain, errors_told
from kbsync.interfaces.cli.output import Record, line, marked_line, print_json
from kbsync.interfaces.cli.session import session_with_engine
from kbsync.interfaces.narrowing import Narrowing
from kbsync.interfaces.values import LARGEST_OFFSET, known_mode

# Loading the model takes this long at most, or something is wrong with it.
_MODEL_S = 300.0


class QueryCommand(TyperCommand):
    """A command whose words may begin with a minus: where they are taken for options, it says how to write them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # Typer has click's classes under a name of its own.
            option = str(getattr(error, "option_name", "--"))
            if not option.startswith("--"):
                error.message = (  # type: ignore[attr-defined]  # a ClickException
                    f"There is no option {option}. A word that must not be there goes behind `--`, or into quotes "
                    "with the others: kbsync search -- lighthouse -storm"
                )
            raise


def search(
    query: Annotated[list[str], typer.Argument(metavar="QUERY...", help="Words, or a question.")],
    mode: Annotated[
        str | None, typer.Option("--mode", help="hybrid, lexical (words only) or vector (meaning only).")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at most.")] = 10,
    offset: Annotated[
        int, typer.Option("--offset", min=0, max=LARGEST_OFFSET, help="Leave out so many of the best.")
    ] = 0,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Only this type, such as pdf; may be repeated.")
    ] = None,
    sources: Annotated[
        list[str] | None, typer.Option("--source", help="Only this followed folder; may be repeated.")
    ] = None,
    places: Annotated[
        list[str] | None, typer.Option("--in", help="Only this file or what is below this folder; may be repeated.")
    ] = None,
    languages: Annotated[
        list[str] | None, typer.Option("--language", help="Only this language; may be repeated.")
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="Only with this phrase in the title.")] = None,
    section: Annotated[str | None, typer.Option("--section", help="Only sections with this phrase above them.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Only changed since 2024, 2024-05, 2024-05-31 ...")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Only changed until then; that day is meant too.")
    ] = None,
    all_versions: Annotated[
        bool, typer.Option("--all-versions", help="Older versions and files that are gone, too.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find documents by what they say. Without the daemon by words only, unless --mode asks for more.

    In QUERY: "some words" for a phrase, -word for what must not be there, word* for a beginning, title:word, type:pdf,
    in:folder. Put `--` before a query that begins with a minus.
    """
    with errors_told():
        wanted = None if mode is None else known_mode(mode)
        narrowing = Narrowing(
            types or (),
            [_absolute(path) for path in sources or ()],
            [_absolute(path) for path in places or ()],
            languages or (),
            title,
            section,
            since,
            until,
            all_versions,
        )
        narrowing.filters()  # what cannot be is told before anything is opened
        with session_with_engine() as (operations, engine):
            if engine is None:
                answer = operations.search(" ".join(query), wanted or "hybrid", limit, offset, narrowing)
            else:
                if wanted in ("hybrid", "vector"):
                    complain("The daemon is not running; loading the model takes a while.")
                    engine.embedders.load_for_queries(_MODEL_S)
                answer = operations.search(" ".join(query), wanted or "lexical", limit, offset, narrowing)
                if wanted is None:
                    offline = "The daemon is not running: found by words only."
                    answer["notice"] = " ".join(filter(None, (offline, engine.embedders.problem(), answer["notice"])))
    if as_json:
        print_json(answer)
    else:
        _print(answer)
    if not answer["hits"]:
        raise typer.Exit(NOTHING)


def _absolute(path: str) -> str:
    return os.path.realpath(os.path.expanduser(path))


def _print(answer: Record) -> None:
    if answer["notice"]:
        complain(answer["notice"])
    if not answer["hits"]:
        complain(f"Nothing found. {answer['hint']}" if answer["hint"] else "Nothing found.")
    for hit in answer["hits"]:
        header = f" > {hit['section_header']}" if hit["section_header"] else ""
        page = f", page {hit['page']}" if hit["page"] is not None else ""
        state = f" ({hit['state']})" if hit["state"] != "current" else ""
        line(f"{hit['rank']}. {hit['title']}{header}{page}{state}")
        marked_line(f"   {hit['snippet'] or '(no text in it)'}")
        line(f"   {hit['path'] or 'note'}  (document {hit['document_id']})")
        line()
    if answer["notices"]:
        from kbsync.interfaces.cli.status import notice_line

        complain(notice_line(answer["notices"]))
