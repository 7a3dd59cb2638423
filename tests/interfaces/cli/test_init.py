"""The first run: folders named or asked for, a configuration with everything explained, the service offered."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kbsync.config.settings import load_settings
from kbsync.config.written import template
from kbsync.interfaces.cli.app import app
from tests.fakes.eventually import eventually


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("Documents", "notes", "letters/2024"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "Documents" / "quince.md").write_text("quince")
    (tmp_path / "Documents" / "program.bin").write_text("?")
    return tmp_path


def environment(home: Path) -> dict[str, str]:
    # Without a PATH there is no service manager: nothing of this machine's is touched.
    return {"KBSYNC_HOME": str(home / "kb"), "HOME": str(home), "PATH": "/nowhere"}


def init(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["init", *arguments], env=environment(home))


def config(home: Path) -> Path:
    return home / "kb" / "config.toml"


def folders(home: Path) -> list[str]:
    return [source.path for source in load_settings(str(config(home))).sources]


class Terminal:
    """`kbsync init` on a terminal of its own."""

    def __init__(self, home: Path, *arguments: str) -> None:
        ours, theirs = pty.openpty()
        self._ours, self.shown = ours, b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kbsync", "init", *arguments],
            env=environment(home),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        os.set_blocking(ours, False)

    def _read(self) -> bytes:
        try:
            self.shown += os.read(self._ours, 65536)
        except OSError:
            time.sleep(0.01)
        return self.shown

    def answer(self, question: str, words: str) -> None:
        """Wait for a question and answer it."""
        eventually(lambda: question.encode() in self._read(), within_s=30)
        self.shown = self.shown.partition(question.encode())[2]
        os.write(self._ours, f"{words}\n".encode())

    def ended(self) -> int:
        while self.process.poll() is None:
            self._read()
        self._read()
        os.close(self._ours)
        return self.process.returncode


def test_named_folders_are_counted_and_written_below_the_explained_template(home: Path) -> None:
    answer = init(home, str(home / "Documents"), str(home / "notes"))
    assert answer.exit_code == 0
    assert "1 file, 6 B to read" in answer.stderr
    assert "Left out: 1 unsupported." in answer.stderr
    assert config(home).read_text().startswith(template())
    assert config(home).stat().st_mode & 0o777 == 0o600
    assert folders(home) == [str(home / "Documents"), str(home / "notes")]
    assert all(source.mode == "mirror" for source in load_settings(str(config(home))).sources)
    assert "kbsync run" in answer.stdout


def test_a_configuration_that_is_there_is_added_to_and_else_as_it_was(home: Path) -> None:
    config(home).parent.mkdir()
    before = "# mine\nworkers = 2\n"
    config(home).write_text(before)
    answer = init(home, str(home / "notes"), "--json")
    assert json.loads(answer.stdout)["created"] is False
    assert config(home).read_text() == f'{before}\n[[sources]]\npath = "{home}/notes"\n'


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["notes", "absent"], "not a folder"),
        (["notes", "notes/"], "named twice"),
        (["letters", "letters/2024"], "lies inside"),
        (["letters/2024", "letters"], "lies inside"),
        (["notes", "kb/data"], "kbsync's own"),
    ],
)
def test_with_one_folder_that_cannot_be_followed_none_is_written(home: Path, names: list[str], words: str) -> None:
    (home / "kb" / "data").mkdir(parents=True)
    answer = init(home, *(str(home / name) for name in names))
    assert (answer.exit_code, config(home).exists()) == (2, False)
    assert words in answer.stderr


def test_a_folder_inside_one_that_is_followed_already_is_refused_as_by_sources_add(home: Path) -> None:
    init(home, str(home / "letters"))
    before = config(home).read_text()
    assert init(home, str(home / "notes"), str(home / "letters/2024")).exit_code == 2
    assert config(home).read_text() == before


def test_a_folder_that_is_followed_already_is_told_and_passed_over(home: Path) -> None:
    init(home, str(home / "letters"))
    answer = init(home, str(home / "letters"), str(home / "notes"), "--json")
    record = json.loads(answer.stdout)
    assert (answer.exit_code, record["added"]) == (0, [str(home / "notes")])
    assert record["already"] == [str(home / "letters")]
    before = config(home).read_text()
    answer = init(home, str(home / "letters"))
    assert (answer.exit_code, "is a source already" in answer.stderr) == (0, True)
    assert "no folder is new" in answer.stdout
    assert config(home).read_text() == before


@pytest.mark.parametrize("path", ["/", "/proc", "/sys", "/etc", "/etc/..", "/usr", "~/.config", "~/kb", "~/.local"])
@pytest.mark.parametrize("command", [["init"], ["sources", "add"]], ids=" ".join)
def test_the_systems_folders_and_kbsyncs_own_are_refused_with_the_reason(
    home: Path, path: str, command: list[str]
) -> None:
    for name in (".config", ".local"):
        (home / name).mkdir()
    variables = environment(home)
    if path != "~/kb":
        del variables["KBSYNC_HOME"]  # then its things lie below the home folder
    CliRunner().invoke(app, ["sources", "list"], env={"KBSYNC_HOME": None, **variables})
    folder = path.replace("~", str(home))
    answer = CliRunner().invoke(app, [*command, folder], env={"KBSYNC_HOME": None, **variables})
    assert answer.exit_code == 2
    assert ("belongs to the system" in answer.stderr) is path.startswith("/")
    assert ("holds kbsync's own" in answer.stderr) is path.startswith("~")


@pytest.mark.parametrize("command", [["init"], ["sources", "add"]], ids=" ".join)
def test_the_whole_home_folder_is_followed_on_a_persons_word_only(home: Path, command: list[str]) -> None:
    answer = CliRunner().invoke(app, [*command, str(home)], env=environment(home))
    assert (answer.exit_code, config(home).exists()) == (5, False)
    assert "whole home folder" in answer.stderr
    answer = CliRunner().invoke(app, [*command, str(home), "--yes"], env=environment(home))
    assert (answer.exit_code, folders(home)) == (0, [str(home)])


def test_enter_where_folders_are_followed_lists_them(home: Path) -> None:
    init(home, str(home / "Documents"), str(home / "notes"))
    terminal = Terminal(home)
    terminal.answer("Another folder", "")
    assert terminal.ended() == 0
    assert f"  {home}/notes" in terminal.shown.decode()
    assert "service install" not in terminal.shown.decode(), "here none can be had"


@pytest.mark.parametrize("arguments", [(), ("--yes",)])
def test_without_a_terminal_folders_must_be_named(home: Path, arguments: tuple[str, ...]) -> None:
    answer = init(home, *arguments)
    assert (answer.exit_code, config(home).exists()) == (5, False)
    assert "kbsync init FOLDER" in answer.stderr


def test_where_no_service_can_be_had_the_folders_are_written_and_run_is_told(home: Path) -> None:
    answer = init(home, str(home / "notes"), "--yes", "--json")
    record = json.loads(answer.stdout)
    assert (answer.exit_code, record["service"], record["added"]) == (0, "unavailable", [str(home / "notes")])
    (home / "more").mkdir()
    answer = init(home, str(home / "more"), "--yes")
    assert "kbsync run" in answer.stdout
    assert "systemd" in answer.stderr


def test_where_the_service_could_be_had_and_fails_the_folders_are_written_and_the_exit_code_says_so(home: Path) -> None:
    manager = home / "systemctl"
    manager.write_text('#!/bin/sh\ncase "$*" in *show*) echo 257;; *) exit 1;; esac\n')
    manager.chmod(0o755)
    variables = environment(home) | {"PATH": str(home)}
    answer = CliRunner().invoke(app, ["init", str(home / "notes"), "--yes", "--json"], env=variables)
    assert (answer.exit_code, json.loads(answer.stdout)["service"]) == (1, "failed")
    assert folders(home) == [str(home / "notes")]


def test_the_home_folder_that_is_typed_is_asked_for(home: Path) -> None:
    terminal = Terminal(home)
    terminal.answer("Documents?", "n")
    terminal.answer("notes?", "n")
    terminal.answer("Another folder", "~")
    terminal.answer("whole home folder", "n")
    terminal.answer("Another folder", "~/letters")
    terminal.answer("Another folder", "")
    assert terminal.ended() == 0
    assert folders(home) == [str(home / "letters")]


def test_on_a_terminal_it_offers_what_is_there_and_asks_for_more(home: Path) -> None:
    terminal = Terminal(home)
    terminal.answer("Documents?", "y")
    terminal.answer("notes?", "n")
    terminal.answer("Another folder", str(home / "absent"))
    terminal.answer("is not a folder", "'~/letters'")
    terminal.answer("Another folder", "")
    assert terminal.ended() == 0
    assert folders(home) == [str(home / "Documents"), str(home / "letters")]


def test_ctrl_c_leaves_nothing_half_written(home: Path) -> None:
    terminal = Terminal(home)
    terminal.answer("Documents?", "y")
    terminal.answer("notes?", "y")
    eventually(lambda: b"Another folder" in terminal._read(), within_s=30)
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.ended() == 130
    assert not config(home).exists()
    assert not [path for path in (home / "kb").iterdir() if path.name.startswith(".config")]
