"""README's reference of the commands, made from the program itself: `python -m tests.meta.reference --write`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

from typer import Typer
from typer.main import get_command

from kbsync.interfaces.cli.app import app
from kbsync.interfaces.shells.commands import usage_of
from tests.meta.checkout import ROOT

README = ROOT / "README.md"
BEGIN, END = "<!-- reference:begin -->", "<!-- reference:end -->"


def render(app: Typer, name: str = "kbsync") -> str:
    """Return a program's reference as Markdown, without the markers."""
    return "\n".join(_lines(get_command(app), name, level=3)).rstrip() + "\n"


def with_reference(readme: str, reference: str) -> str:
    """Return the README with the part between the markers replaced. Raises ValueError where a marker is missing."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md has no part between {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{reference}\n{END}{after}"


# Only names, kinds and help texts are read: these are the same in every version of click, and Typer carries its own.
def _lines(command: Any, name: str, level: int) -> Iterator[str]:
    subcommands = [found for found in getattr(command, "commands", {}).values() if not found.hidden]
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [
        parameter
        for parameter in command.params
        if parameter.param_type_name == "option"
        and not getattr(parameter, "hidden", False)
        and not {"--install-completion", "--show-completion"}.intersection(parameter.opts)
    ]
    usage = [
        name,
        *(["[OPTIONS]"] if options else []),
        *map(usage_of, arguments),
        *(["COMMAND"] if subcommands else []),
    ]
    yield from ("#" * level + f" `{name}`", "", "```", " ".join(usage), "```", "")
    yield from (_paragraphs(command.help), "")
    rows = [(usage_of(parameter), parameter.help) for parameter in arguments if getattr(parameter, "help", None)]
    rows += [(_option(parameter), parameter.help) for parameter in options]
    if rows:
        yield from ("| | |", "|---|---|")
        yield from (f"| `{_cell(left)}` | {_cell(' '.join((right or '').split()))} |" for left, right in rows)
        yield ""
    for found in subcommands:
        yield from _lines(found, f"{name} {found.name}", min(level + 1, 4))


def _paragraphs(text: str | None) -> str:
    return inspect.cleandoc((text or "").replace("\b", "")).strip()


def _option(option: Any) -> str:
    names = ", ".join(option.opts)
    if option.secondary_opts:
        return " / ".join((names, ", ".join(option.secondary_opts)))
    if option.is_flag:
        return names
    choices = getattr(option.type, "choices", None)
    kind = option.metavar or ("|".join(map(str, choices)) if choices else option.type.name.upper())
    return f"{names} {kind}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: list[str]) -> int:
    current = README.read_text(encoding="utf-8")
    reference = render(app)
    wanted = with_reference(current, reference)
    if arguments == ["--write"]:
        README.write_text(wanted, encoding="utf-8")
        return 0
    sys.stdout.write(reference)
    return int(wanted != current)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
