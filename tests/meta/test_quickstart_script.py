"""packaging/quickstart.sh goes from clone to search, ends in order, passes errors on; kbsync's part is played."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.meta.checkout import ROOT

# Plays kbsync: writes down its calls; `run` makes a file that says it is running and removes it when it is ended.
KBSYNC = """#!/bin/bash
echo "$*" >>"$CALLS"
running=$CALLS.running
case "$1 ${2:-}" in
    "run ")
        trap 'rm "$running"; exit "${RUN_CODE:-0}"' TERM
        echo "$BASHPID" >"$running"
        [ -z "${DIES:-}" ] || { rm "$running"; exit "$DIES"; }
        while :; do sleep 0.02; done ;;
    "status ") [ -e "$running" ] || exit 4 ;;
    "sources list") echo "{\\"sources\\": [${SOURCES:-}]}" ;;
    "documents list") echo "{\\"documents\\": [${DOCUMENTS-{\\"title\\": \\"The old orchard\\"\\}}]}" ;;
    "search "*) echo "home=${KBSYNC_HOME:-usual}"; exit "${SEARCH_CODE:-0}" ;;
    "wait ")
        # The daemon dies while it is asked: the command loses it.
        [ -z "${LOST:-}" ] || { kill -KILL "$(cat "$running")"; rm "$running"; exit 4; }
        exit "${WAIT_CODE:-0}" ;;
esac
"""
PYTHON = f'#!/bin/sh\ncase "$*" in *pip*|*"import apsw"*) ;; *) exec {sys.executable} "$@" ;; esac\n'


class Stage:
    """A checkout, an environment with the played kbsync, and the calls that came."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls_file = folder / "calls"
        self.home = folder / "my files"
        checkout = folder / "checkout"
        shutil.copytree(ROOT / "packaging", checkout / "packaging")
        for name in ("pyproject.toml", "VERSION"):
            shutil.copy(ROOT / name, checkout / name)
        binaries = folder / "venv" / "bin"
        for made in (binaries, self.home, folder / "tmp"):
            made.mkdir(parents=True)
        for name, text in (("kbsync", KBSYNC), ("python", PYTHON)):
            (binaries / name).write_text(text)
            (binaries / name).chmod(0o755)
        self.script = str(checkout / "packaging" / "quickstart.sh")
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TMPDIR": str(folder / "tmp"),
            "KBSYNC_VENV": str(folder / "venv"),
            "CALLS": str(self.calls_file),
        }

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.script, *arguments],
            env=self.environment | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )

    @property
    def calls(self) -> list[str]:
        """The calls, without the looks whether the daemon answers."""
        lines = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        return [line for line in lines if line != "status"]

    @property
    def daemon_runs(self) -> bool:
        return Path(f"{self.calls_file}.running").exists()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_own_folder_is_added_indexed_and_searched_in_the_usual_place(stage: Stage) -> None:
    outcome = stage.run(str(stage.home))
    assert outcome.returncode == 0, outcome.stderr
    assert stage.calls == [
        "sources list --json",
        f"sources add {stage.home}",
        "run",
        "wait",
        "documents list --json",
        "search --limit 3 -- The old orchard",
    ]
    assert "home=usual" in outcome.stdout
    assert f"  {stage.folder}/venv/bin/kbsync search --mode hybrid 'The old orchard'\n" in outcome.stdout
    assert f"kbsync has ended. Start it again with:\n\n  {stage.folder}/venv/bin/kbsync run\n" in outcome.stdout
    assert "second terminal" not in outcome.stdout
    assert not stage.daemon_runs


@pytest.mark.parametrize("title", ["Plain", "Jane's; rm -r $HOME `x`", "搬家清单", r"back\slash"])
def test_printed_line_can_be_typed_as_it_stands(stage: Stage, title: str) -> None:
    outcome = stage.run(str(stage.home), DOCUMENTS=json.dumps({"title": title}))
    (line,) = re.findall(r"^  (\S+kbsync search .*)$", outcome.stdout, re.MULTILINE)
    assert shlex.split(line)[1:] == ["search", "--mode", "hybrid", title]


def test_sample_is_copied_to_a_temporary_home_that_the_printed_line_carries(stage: Stage) -> None:
    outcome = stage.run()
    assert outcome.returncode == 0, outcome.stderr
    (home,) = re.findall(r"^home=(.*)$", outcome.stdout, re.MULTILINE)
    assert home.startswith(str(stage.folder / "tmp"))
    assert f"  KBSYNC_HOME={home} {stage.folder}/venv/bin/kbsync search" in outcome.stdout
    copied = Path(home).parent / "sample"
    assert sorted(os.listdir(copied)) == sorted(os.listdir(ROOT / "packaging" / "sample"))
    assert f"sources add {copied}" in stage.calls


def test_folder_that_is_a_source_already_is_not_added_again(stage: Stage) -> None:
    outcome = stage.run(str(stage.home), SOURCES=f'{{"path": "{stage.home.parent}"}}')
    assert outcome.returncode == 0, outcome.stderr
    assert "among your sources already" in outcome.stderr
    assert not any(call.startswith("sources add") for call in stage.calls)


def test_running_daemon_is_used_and_left_running(stage: Stage) -> None:
    Path(f"{stage.calls_file}.running").write_text("somebody else's")
    outcome = stage.run(str(stage.home))
    assert outcome.returncode == 0, outcome.stderr
    assert "running already" in outcome.stderr
    assert "second terminal" in outcome.stdout
    assert "has ended" not in outcome.stdout
    assert "run" not in stage.calls
    assert stage.daemon_runs


def test_nothing_indexed_is_said_and_is_no_failure(stage: Stage) -> None:
    outcome = stage.run(str(stage.home), DOCUMENTS="")
    assert outcome.returncode == 0, outcome.stderr
    assert "could be indexed" in outcome.stderr
    assert not any(call.startswith("search") for call in stage.calls)


@pytest.mark.parametrize(
    ("variables", "code"),
    [
        ({"DIES": "78"}, 78),
        ({"RUN_CODE": "7"}, 7),
        ({"WAIT_CODE": "1"}, 1),
        ({"LOST": "yes"}, 137),
        ({"SEARCH_CODE": "1"}, 1),
        ({"SEARCH_CODE": "3"}, 0),
    ],
    ids=str,
)
def test_exit_code_of_a_failure_is_passed_on(stage: Stage, variables: dict[str, str], code: int) -> None:
    assert stage.run(str(stage.home), **variables).returncode == code
    assert not stage.daemon_runs


@pytest.mark.parametrize("arguments", [("--twice",), ("no/such/folder",), ("",), (".", ".")])
def test_wrong_usage_is_told_before_anything_is_done(stage: Stage, arguments: tuple[str, ...]) -> None:
    outcome = stage.run(*arguments)
    assert outcome.returncode == 2
    assert outcome.stderr
    assert ("quickstart.sh [--once] [FOLDER]" in outcome.stderr) == arguments[0].startswith("-")
    assert not stage.calls


@pytest.mark.parametrize("arguments", [("{}", "--once"), ("--once", "{}"), ("--once", "--", "{}")], ids=" ".join)
def test_options_may_stand_before_and_after_the_folder(stage: Stage, arguments: tuple[str, ...]) -> None:
    outcome = stage.run(*(argument.format(stage.home) for argument in arguments))
    assert outcome.returncode == 0, outcome.stderr
    assert f"sources add {stage.home}" in stage.calls


@contextmanager
def on_a_terminal(stage: Stage, *arguments: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Yield the terminal's other end and the script, started as a shell would: in the terminal's foreground."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", stage.script, *arguments],
        env=stage.environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        yield ours, process
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(terminal: int, text: bytes) -> bytes:
    """Return what the terminal shows up to a text, or to its end."""
    shown = b""
    while text not in shown:
        try:
            more = os.read(terminal, 4096)
        except OSError:  # Linux tells the end of a terminal so
            break
        if not more:
            break
        shown += more
    return shown


@pytest.mark.skipif(
    shutil.which("setsid") is None, reason="setsid gives a process a terminal of its own; macOS lacks it"
)
@pytest.mark.parametrize("how", ["key", "signal"])
def test_on_a_terminal_it_watches_until_it_is_ended(stage: Stage, how: str) -> None:
    with on_a_terminal(stage, str(stage.home)) as (terminal, process):
        assert b"until Ctrl+C" in read_until(terminal, b"until Ctrl+C")
        assert stage.daemon_runs
        if how == "key":
            os.write(terminal, b"\x03")
        else:
            process.send_signal(signal.SIGTERM)
        read_until(terminal, b"\0")
        assert process.wait(timeout=60) == 0
    assert not stage.daemon_runs


@pytest.mark.skipif(
    shutil.which("setsid") is None, reason="setsid gives a process a terminal of its own; macOS lacks it"
)
def test_once_ends_on_a_terminal_too(stage: Stage) -> None:
    with on_a_terminal(stage, "--once", str(stage.home)) as (terminal, process):
        read_until(terminal, b"\0")
        assert process.wait(timeout=60) == 0
    assert not stage.daemon_runs
