"""What packagers take is what the program is: the manual page and the completions are made from it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest
from typer.main import get_command

from kbsync.interfaces.cli.app import app
from kbsync.interfaces.shells.commands import command_tree
from tests.meta.checkout import ROOT
from tests.meta.made_files import made_files, stale

PAGE = ROOT / "packaging" / "man" / "kbsync.1"


def test_they_are_as_the_program_makes_them_now() -> None:
    found = [str(path.relative_to(ROOT)) for path in stale()]
    assert found == [], "run: python -m tests.meta.made_files --write"


def test_nothing_else_lies_beside_them() -> None:
    folders = (ROOT / "packaging" / "man", ROOT / "packaging" / "completions")
    assert {path for folder in folders for path in folder.iterdir()} == set(made_files())


def test_the_page_tells_every_command_and_option() -> None:
    page = PAGE.read_text(encoding="utf-8").replace("\\-", "-")
    for command in command_tree(get_command(app)).walk():
        if command.path and not command.commands:
            assert f".SS \\fBkbsync {' '.join(command.path)}\\fR" in page
        for option in command.options:
            assert all(f"\\fB{name}\\fR" in page for name in (*option.names, *option.off))
    assert re.search(r"^\.B 78\nBad configuration\.$", page, re.MULTILINE)


def test_no_line_of_text_is_taken_for_an_instruction() -> None:
    macros = {".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".I", ".BR", '.\\"'}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        assert not line.startswith("'"), line
        assert not line.startswith(".") or line.split()[0] in macros, line
        assert line.isascii(), line


@pytest.mark.parametrize(
    "command",
    [["mandoc", "-T", "lint", "-W", "warning"], ["man", "--warnings", "-l", "-Tutf8", "-Z"]],
    ids=["mandoc", "man"],
)
def test_the_page_is_without_fault_for_who_shows_it(command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        if os.environ.get("CI") and command[0] == "mandoc":
            pytest.fail("mandoc is missing: .ci/run installs it.")
        pytest.skip(f"{command[0]} is not on this machine")
    shown = subprocess.run([*command, str(PAGE)], capture_output=True, text=True, timeout=60)
    told = shown.stdout if command[0] == "mandoc" else shown.stderr
    assert (shown.returncode, told) == (0, "")
