"""The completion scripts under the shells themselves: what is offered where, without a start of the program."""

from __future__ import annotations

import os
import pty
import select
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kbsync.interfaces.cli.app import app
from kbsync.interfaces.cli.completion import _script
from kbsync.interfaces.values import FILE_TYPES, JOB_STATES
from tests.fakes.eventually import eventually

# What is typed, and what must be offered then, what must not.
CASES: list[tuple[str, set[str], set[str]]] = [
    ("kbsync ", {"run", "search", "sources", "completion"}, {"--json", "list", "pdf"}),
    ("kbsync so", {"sources"}, {"search", "status"}),
    ("kbsync sources ", {"add", "list", "pause", "resume", "confirm", "remove"}, {"run", "retry"}),
    ("kbsync documents list --", {"--state", "--type", "--limit", "--json", "--help"}, {"--failed", "--repair"}),
    ("kbsync documents list --st", {"--state"}, {"--type"}),
    ("kbsync run --", {"--once", "--progress", "--no-progress"}, {"--launchd"}),
    ("kbsync add --type ", set(FILE_TYPES), {"note", "run"}),
    ("kbsync add --recursive --type p", {"pdf", "pptx"}, {"csv"}),
    ("kb jobs list --state ", set(JOB_STATES), {"current"}),
    ("kbsync documents list --state ", {"current", "superseded", "missing", "all"}, {"queued"}),
    ("kbsync search --mode ", {"hybrid", "lexical", "vector"}, {"file.pdf"}),
    ("kbsync completion ", {"bash", "zsh", "fish"}, {"run"}),
    ("kbsync pause ", {"until", "1h"}, {"run", "file.pdf"}),
    ("kbsync models use ", {"packaged", "bge-m3"}, {"run"}),
    ("kbsync search sources ", set(), {"add", "remove"}),
    ("kbsync purge --document ", set(), {"run", "--yes", "file.pdf"}),
]
# Where a place is wanted: whether files fit too.
PLACES = [
    ("kbsync why ", True),
    ("kbsync add ", True),
    ("kbsync documents show ", True),
    ("kbsync sources add ", False),
    ("kbsync sources remove ", False),
    ("kbsync restore ", False),
    ("kbsync search --source ", False),
    ("kbsync documents export 7 --to ", False),
    ("kbsync add --password-file ", True),
]


# Writes what is offered into a file, where ^T is typed.
ZSHRC = r"""
PS1='RE''ADY> '
fpath=($ZDOTDIR/.zsh $fpath)
autoload -U compinit; compinit -u -D
compadd() {
    local -a hits
    if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]]; then
        builtin compadd -A hits "$@"
        print -rl -- $hits >>| $ZDOTDIR/.told
    fi
    builtin compadd "$@"
}
tell() { zle list-choices; print -r -- '<end>' >>| $ZDOTDIR/.told }
zle -N tell; bindkey '^T' tell
"""


def shell(name: str) -> str:
    """Return the shell's program; a skip where it is not on this machine."""
    program = shutil.which(name)
    if program is None:
        if os.environ.get("CI"):
            pytest.fail(f"{name} is missing: .ci/run installs it.")
        pytest.skip(f"{name} is not on this machine")
    return program


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a file and a folder whose name has a space in it."""
    folder = tmp_path_factory.mktemp("typed")
    (folder / "my docs").mkdir()
    (folder / "file.pdf").touch()
    for name in ("bash", "zsh", "fish"):
        (folder / f".{name}").mkdir()
        (folder / f".{name}" / "_kbsync").write_text(_script(name), encoding="utf-8")
    return folder


def in_bash(folder: Path, line: str) -> set[str]:
    """Return what bash is told: words, and `<default>` or `<dirnames>` where it names places itself."""
    words = [*line.split(" ")]
    typed = " ".join(map(shlex.quote, words))
    script = (
        f'source .bash/_kbsync; compopt() {{ shift; echo "<$1>"; }}; COMP_WORDS=({typed}); '
        f"COMP_CWORD={len(words) - 1}; _kbsync; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    return _said([shell("bash"), "--norc", "-c", script], folder)


def in_fish(folder: Path, line: str) -> set[str]:
    """Return the words that fish offers."""
    told = _said([shell("fish"), "-N", "-c", f"source .fish/_kbsync; complete -C {shlex.quote(line)}"], folder)
    return {one.split("\t")[0] for one in told}


def in_zsh(folder: Path, lines: Sequence[str]) -> list[set[str]]:
    """Return what the scripts offer zsh for each line, as it asks them on a terminal."""
    program, told = shell("zsh"), folder / ".told"
    told.write_text("")
    (folder / ".zshrc").write_text(ZSHRC)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(program, ["zsh", "-d", "-i"], _environment(folder))
    offered: list[set[str]] = []
    try:
        _read(terminal, b"READY> ")
        for line in lines:
            os.write(terminal, f"{line}\x14".encode())
            eventually(lambda: told.read_text().count("<end>") > len(offered))
            found = told.read_text().split("<end>")[len(offered)]
            offered.append({word.replace("\\", "") for word in found.splitlines()} - {""})
            os.write(terminal, b"\x15")
        return offered
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


def _read(terminal: int, until: bytes) -> None:
    told, deadline = b"", time.monotonic() + 60
    while until not in told:
        assert time.monotonic() < deadline, told
        if select.select([terminal], [], [], 1.0)[0]:
            told += os.read(terminal, 1 << 16)


def _environment(folder: Path) -> dict[str, str]:
    return {"PATH": os.defpath, "HOME": str(folder), "ZDOTDIR": str(folder), "TERM": "dumb", "LC_ALL": "C"}


def _said(arguments: list[str], folder: Path) -> set[str]:
    outcome = subprocess.run(
        arguments, cwd=folder, env=_environment(folder), capture_output=True, text=True, check=True, timeout=60
    )
    assert outcome.stderr == ""
    return set(outcome.stdout.splitlines()) - {""}


@pytest.mark.parametrize(("line", "offered", "not_offered"), CASES, ids=[case[0] for case in CASES])
def test_bash_offers_what_fits(folder: Path, line: str, offered: set[str], not_offered: set[str]) -> None:
    told = in_bash(folder, line)
    assert offered <= told
    assert not told & not_offered


@pytest.mark.parametrize(("line", "files"), PLACES, ids=[case[0] for case in PLACES])
def test_bash_is_told_to_name_places_itself(folder: Path, line: str, files: bool) -> None:
    assert in_bash(folder, line) == {"<default>" if files else "<dirnames>"}


def test_bash_takes_a_value_behind_an_equals_sign(folder: Path) -> None:
    """It splits words there: `--type=p` comes as three."""
    assert in_bash(folder, "kbsync add --type = p") == {"pdf", "pptx"}
    assert in_bash(folder, "kbsync add --type =") == set(FILE_TYPES)


@pytest.mark.parametrize(("line", "offered", "not_offered"), CASES, ids=[case[0] for case in CASES])
def test_fish_offers_what_fits(folder: Path, line: str, offered: set[str], not_offered: set[str]) -> None:
    told = in_fish(folder, line)
    assert offered <= told
    assert not told & not_offered


@pytest.mark.parametrize(("line", "files"), PLACES, ids=[case[0] for case in PLACES])
def test_fish_offers_places(folder: Path, line: str, files: bool) -> None:
    told = in_fish(folder, line)
    assert "my docs/" in told
    assert ("file.pdf" in told) is files


@pytest.mark.parametrize("line", ["kbsync search --mode ", "kbsync sources add --", "kbsync service install --"])
def test_fish_tells_each_choice_apart(folder: Path, line: str) -> None:
    told = _said([shell("fish"), "-N", "-c", f"source .fish/_kbsync; complete -C {shlex.quote(line)}"], folder)
    explained = [one.partition("\t")[2] for one in told]
    assert all(explained)
    assert len(set(explained)) == len(explained)


def test_zsh_offers_what_fits(folder: Path) -> None:
    told = in_zsh(folder, [*(case[0] for case in CASES), *(case[0] for case in PLACES)])
    for (line, offered, not_offered), words in zip(CASES, told, strict=False):
        assert offered <= words, line
        assert not words & not_offered, line
    for (line, files), words in zip(PLACES, told[len(CASES) :], strict=True):
        assert "my docs" in words, line
        assert ("file.pdf" in words) is files, line


def test_a_script_is_printed_and_an_unknown_shell_is_refused_with_those_that_there_are() -> None:
    for name in ("bash", "zsh", "fish"):
        printed = CliRunner().invoke(app, ["completion", name])
        assert (printed.exit_code, printed.stdout) == (0, _script(name))
    refused = CliRunner().invoke(app, ["completion", "powershell"])
    assert refused.exit_code == 2
    assert "Shells: bash, zsh, fish." in refused.stderr
