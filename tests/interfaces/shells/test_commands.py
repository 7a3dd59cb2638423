"""The commands as plain values: all of them, and for each value what may stand there."""

from __future__ import annotations

from typing import Annotated

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from kbsync.file_types import READABLE_TYPES
from kbsync.interfaces.cli.app import app
from kbsync.interfaces.shells.commands import Command, Values, command_tree


@pytest.fixture(scope="module")
def program() -> Command:
    return command_tree(get_command(app))


def found(program: Command, *path: str) -> Command:
    return next(command for command in program.walk() if command.path == path)


def test_every_command_is_there_with_its_way_to_it(program: Command) -> None:
    paths = {command.path for command in program.walk()}
    assert {(), ("run",), ("search",), ("sources",), ("sources", "add"), ("completion",)} <= paths
    assert all(command.summary for command in program.walk())
    assert all(len(command.summary) <= 90 for command in program.walk())


def test_values_are_those_that_the_program_takes(program: Command) -> None:
    options = {option.names[0]: option for option in found(program, "search").options}
    assert options["--type"].values == Values(tuple(sorted(READABLE_TYPES)))
    assert options["--type"].is_repeated
    assert options["--json"].values is None
    assert options["--limit"].values == Values(), "a number"
    assert found(program, "sources", "remove").arguments[0].values == Values(places="folders")
    assert "--no-progress" in next(one for one in found(program, "run").options if one.off).off


@pytest.mark.parametrize("path", [("init",), ("pause",), ("search",), ("add",), ("diff",), ("jobs", "list")])
def test_arguments_are_shown_as_the_help_shows_them(program: Command, path: tuple[str, ...]) -> None:
    usage = " ".join(("[OPTIONS]", *(argument.usage for argument in found(program, *path).arguments)))
    shown = CliRunner().invoke(app, [*path, "--help"]).stdout.splitlines()[0]
    assert shown.endswith(f" {' '.join(path)} {usage}")


def test_what_is_hidden_is_not_shown(program: Command) -> None:
    names = {name for command in program.walk() for option in command.options for name in option.names}
    assert "--launchd" not in names


def test_a_value_that_nobody_thought_about_is_told() -> None:
    tool = typer.Typer(add_completion=False)

    @tool.command()
    def paint(colour: Annotated[str, typer.Option("--colour")]) -> None:
        """Paint."""

    with pytest.raises(ValueError, match=r"--colour.*shells.commands"):
        command_tree(get_command(tool))
