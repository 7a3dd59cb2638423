"""The unit file is what systemd takes without a word, and holds what was promised of it."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kbsync.errors import ServiceFailed
from kbsync.interfaces.cli.exits import BAD_CONFIGURATION, USAGE
from kbsync.interfaces.cli.signals import END_S
from kbsync.interfaces.service.service import Program
from kbsync.interfaces.service.systemd_unit import MARK, for_packagers, render
from tests.interfaces.service.tools import needed
from tests.meta.checkout import ROOT

PROGRAM = Program(("/opt/kb/bin/python", "-P", "-m", "kbsync", "run", "--service"), {}, "/home/me/kbsync.log")


def unit(program: Program = PROGRAM) -> configparser.SectionProxy:
    parser = configparser.RawConfigParser(strict=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # keys keep their letters' case
    parser.read_string(render(program))
    return parser["Service"]


def test_packagers_get_the_unit_that_is_rendered() -> None:
    """But for what is of this machine: write it anew with `for_packagers()`."""
    packaged = (ROOT / "systemd" / "kbsync.service").read_text(encoding="utf-8")
    assert packaged == for_packagers()
    rendered = render(PROGRAM).splitlines()
    differing = [pair for pair in zip(packaged.splitlines(), rendered, strict=True) if len(set(pair)) > 1]
    assert [old.split("=")[0] for old, _ in differing[1:]] == ["ExecStart"]
    assert rendered[0] == MARK


def test_an_end_that_no_start_mends_is_final_and_every_other_one_is_not() -> None:
    """S03: bad configuration is not restarted; a start that never reaches kbsync's own pauses is given up."""
    assert unit()["Restart"] == "on-failure"
    assert unit()["RestartPreventExitStatus"].split() == [str(USAGE), str(BAD_CONFIGURATION)]
    assert "StartLimitBurst=30\n" in render(PROGRAM)


def test_systemd_waits_longer_than_kbsync_takes_to_end() -> None:
    assert float(unit()["TimeoutStopSec"].removesuffix("s")) > END_S


def test_nothing_hides_what_is_to_be_read_and_a_killed_child_is_no_end() -> None:
    """S04: neither folders, disks and graphics cards, nor what torch compiles into memory."""
    asked = unit()
    for key in ("ProtectHome", "ProtectSystem", "PrivateTmp", "PrivateDevices", "PrivateUsers", "MemoryMax"):
        assert key not in asked
    assert "MemoryDenyWriteExecute" not in asked
    assert asked["OOMPolicy"] == "continue"
    assert int(asked["TasksMax"]) >= 1024


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("/home/me/my venv/bin/python", '"/home/me/my venv/bin/python"'),
        ("/home/me/100%/python", "/home/me/100%%/python"),
        ("/home/me/größe/日本/python", "/home/me/größe/日本/python"),
        ("/home/me/$HOME/${X}/python", ":/home/me/$HOME/${X}/python"),
        ("/home/me/;/python", '"/home/me/;/python"'),
    ],
)
def test_a_path_of_any_characters_is_written_as_systemd_reads_it(word: str, written: str) -> None:
    """S02: the environment of the program may lie anywhere."""
    assert unit(Program((word, "run"), {}, ""))["ExecStart"] == f"{written} run"


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ('/home/me/"q"/python', '"/home/me/\\"q\\"/python"'),
        ("/home/me/it's/python", '"/home/me/it\'s/python"'),
        ("/home/me/a\\b/python", "/home/me/a\\\\b/python"),
        ("/home/me/new\nline/python", "/home/me/new\\x0aline/python"),
    ],
)
def test_a_program_that_systemd_would_not_start_is_started_by_a_shell(word: str, written: str) -> None:
    """S02: quotes in the name of a folder."""
    shell = ':/bin/sh -c "exec \\"$0\\" \\"$@\\""'
    assert unit(Program((word, "run"), {}, ""))["ExecStart"] == f"{shell} {written} run"


def test_a_name_that_is_no_utf8_is_refused_with_its_remedy() -> None:
    with pytest.raises(ServiceFailed, match="Rename"):
        render(Program((os.fsdecode(b"/home/me/\xff/python"), "run"), {}, ""))


def test_variables_are_written_whole_whatever_is_in_them() -> None:
    environment = {"KBSYNC_HOME": "/home/me/my 100% $x", "KBSYNC_HTTP__PORT": "0"}
    lines = [line for line in render(Program(("/bin/true",), environment, "")).splitlines() if "Environment=" in line]
    assert lines == ['Environment="KBSYNC_HOME=/home/me/my 100%% $x"', "Environment=KBSYNC_HTTP__PORT=0"]


@pytest.mark.parametrize("folder", ["plain", "with 'two' \"kinds\" of quotes", "100% of $HOME and ${X} \\ größe"])
def test_systemd_takes_the_unit_without_a_word(tmp_path: Path, folder: str) -> None:
    """S02 and S04: what it does not know it would tell."""
    needed("systemd-analyze")
    (tmp_path / folder).mkdir()
    python = tmp_path / folder / "python"
    python.symlink_to(sys.executable)
    file = tmp_path / "kbsync.service"
    program = Program((str(python), *PROGRAM.command[1:]), {"KBSYNC_HOME": str(tmp_path / folder)}, "")
    file.write_text(render(program), encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(file)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_key_that_systemd_does_not_know_is_told(tmp_path: Path) -> None:
    """The judge has teeth."""
    needed("systemd-analyze")
    file = tmp_path / "kbsync.service"
    program = Program((shutil.which("true") or "/bin/true",), {}, "")
    file.write_text(render(program).replace("WatchdogSec", "WatchDogSec"))
    command = ["systemd-analyze", "--user", "verify", str(file)]
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    told = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60).stderr
    assert "WatchDogSec" in told


def test_the_exposure_of_the_unit_is_as_low_as_a_user_manager_lets_it_be(
    tmp_path: Path, told: Callable[[str], None]
) -> None:
    """S04: what would lower it further is refused there, or passed over without a word."""
    needed("systemd-analyze")
    file = tmp_path / "kbsync.service"
    file.write_text(render(PROGRAM))
    done = subprocess.run(
        ["systemd-analyze", "--user", "--offline=true", "security", str(file)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "SYSTEMD_COLORS": "0", "SYSTEMD_EMOJI": "0"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    found = re.search(r"Overall exposure level for kbsync\.service: ([\d.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    told(f"systemd-analyze security of the rendered unit: exposure {found[1]} (0 to 10)")
    assert float(found[1]) < 7.0


def test_the_reload_is_a_hangup_of_the_main_process() -> None:
    shell, option, script = shlex.split(unit()["ExecReload"])
    assert (shell, option) == ("/bin/sh", "-c")
    done = subprocess.run(
        [shell, option, script.replace("kill", "echo")], env={"MAINPID": "42"}, capture_output=True, text=True
    )
    assert done.stdout == "-HUP 42\n"
