"""The real program where something is wrong around it: it starts, keeps running, and says what to do.

Its model is away in all of these: nothing loads torch, so they are quick.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kbsync.daemon.lock import owner_of
from kbsync.embed.model_files import packaged_model
from tests.end_to_end.program import PATIENCE_S, Daemon, Program
from tests.fakes.eventually import eventually

MODEL = "KBSYNC_MODELS__EMBEDDER"


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Return a program whose model is to lie in `tmp_path/model`, where nothing is."""
    program = Program(tmp_path / "home")
    program.environment[MODEL] = str(tmp_path / "model")
    return program


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "medlar.md").write_text("# Medlar\n\nIt ripens late.\n")
    return folder


def notices(program: Program) -> str:
    return "\n".join(program.json("status")["notices"])


def ends_well(daemon: Daemon) -> None:
    daemon.signal(signal.SIGTERM)
    assert daemon.ended(within_s=10) == 0, daemon.messages
    assert "Traceback" not in daemon.messages


def test_without_its_model_it_runs_and_says_so_and_goes_on_when_it_is_back(
    program: Program, folder: Path, tmp_path: Path
) -> None:
    assert program.run("config", "check", code=78).stderr.count("models.embedder") == 1
    program.configure(folder)
    with program.daemon() as daemon:
        told = program.run("wait", code=1)
        assert told.stdout.endswith("0 indexed, 0 skipped, 0 failed, 1 waiting.\n")
        assert f"The embedding model in {tmp_path / 'model'} cannot be used" in told.stderr
        answer = program.run("add", str(folder / "medlar.md"), "--json", code=1)
        assert [queued["path"] for queued in answer.json()["queued"]] == [str(folder / "medlar.md")]
        assert "what waits is not lost" in answer.stderr
        found = program.json("search", "medlar", code=3)
        assert (found["mode"], found["hits"]) == ("lexical", [])
        assert "cannot be used" in found["notice"]
        assert "model" in notices(program)

        os.symlink(packaged_model().folder, tmp_path / "model")
        daemon.signal(signal.SIGHUP)
        eventually(lambda: "starting anew" in daemon.messages, within_s=PATIENCE_S, every_s=0.1)
        eventually(daemon.serves, within_s=PATIENCE_S, every_s=0.1)
        status = program.json("status")
        assert (status["model_error"], status["embedding_dim"], status["pid"]) == (None, 384, daemon.process.pid)
        assert status["queue"]["queued"] + status["queue"]["processing"] == 2
        assert owner_of(program.places.lock_file) is not None
        ends_well(daemon)


# ---- P20 ----


def modes(home: Path) -> dict[str, int]:
    """Return what others than the owner may do with what lies in a home, where that is anything."""
    found = {str(path.relative_to(home)): stat.S_IMODE(path.lstat().st_mode) for path in home.rglob("*")}
    del found["daemon-messages"]  # the test's own
    return {name: mode for name, mode in found.items() if mode & 0o077}


def test_wherever_it_is_started_names_are_whole_and_nothing_is_for_others(program: Program, tmp_path: Path) -> None:
    """P20: HOME unset, no XDG_RUNTIME_DIR, TMPDIR unwritable, locale C, umask 000."""
    for name in ("HOME", "XDG_RUNTIME_DIR", "LANG", "PYTHONUTF8"):
        program.environment.pop(name, None)
    # Without Python's own way out for this locale.
    program.environment |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TMPDIR": "/proc/nowhere"}
    folder = tmp_path / "夏の庭"
    folder.mkdir()
    (folder / "枇杷 é.md").write_text("# 枇杷\n\nUnd der Mispelbaum trägt spät.\n")
    (folder / os.fsdecode(b"odd \xff.md")).write_text("# Odd\n\nA name that is no UTF-8.\n")
    before = os.umask(0)
    try:
        assert "夏の庭" in program.run("sources", "add", str(folder)).stdout
        with program.daemon() as daemon:
            program.run("wait", code=1)
            (listed,) = daemon.client.get("sources")["sources"]
            assert (listed["path"], listed["files"]["waiting"]) == (str(folder), 2)
            assert "枇杷 é.md" in program.run("why", str(folder / "枇杷 é.md")).stdout
            assert "odd \\xff.md" in program.run("why", os.fsencode(folder) + b"/odd \xff.md").stdout
            assert stat.S_IMODE(Path(program.places.socket_path()).stat().st_mode) == 0o600
            assert modes(program.home) == {}, "open to others"
            ends_well(daemon)
        assert stat.S_IMODE(program.home.stat().st_mode) == 0o700
    finally:
        os.umask(before)


def test_without_a_home_the_place_of_the_configuration_is_known_all_the_same(program: Program) -> None:
    """P20: the system knows where a user is at home."""
    for name in ("HOME", "KBSYNC_HOME", "XDG_CONFIG_HOME"):
        program.environment.pop(name, None)
    assert os.path.isabs(program.run("config", "path").stdout.strip())


def test_a_configuration_that_cannot_be_written_is_told_and_read(program: Program, folder: Path) -> None:
    """P20: a folder in the place of the file, as root may write everything else."""
    program.home.mkdir()
    Path(program.places.config_file).mkdir()
    answer = program.run("sources", "add", str(folder), code=78)
    assert program.places.config_file in answer.stderr
    assert "Traceback" not in answer.stderr


# ---- P18 ----


def started(program: Program, command: str) -> subprocess.Popen[bytes]:
    program.home.mkdir(parents=True, exist_ok=True)
    return subprocess.Popen(
        ["sh", "-c", f'exec "{sys.executable}" -m kbsync {command}'], env=program.environment, start_new_session=True
    )


def test_with_its_standard_streams_closed_it_keeps_running(program: Program, folder: Path) -> None:
    """P18: no file of ours gets their numbers, into which any library would print."""
    program.configure(folder)
    process = started(program, "run <&- >&- 2>&-")
    daemon = Daemon(process, program.places, program.home / "daemon-messages")
    try:
        eventually(daemon.serves, within_s=PATIENCE_S)
        assert program.run("wait", code=1)
        targets = {os.readlink(f"/proc/{process.pid}/fd/{number}") for number in (0, 1, 2)}
        assert targets == {os.devnull}
        daemon.signal(signal.SIGTERM)
        assert daemon.ended(within_s=10) == 0
    finally:
        process.kill()
        process.wait()


def test_when_nobody_reads_what_it_prints_it_keeps_running(program: Program, folder: Path) -> None:
    """P18: SIGPIPE, the log of a dead pager or terminal."""
    program.configure(folder)
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "kbsync", "run", "--progress"],
        env=program.environment,
        stdout=write,
        stderr=write,
        start_new_session=True,
    )
    os.close(write)
    os.close(read)
    daemon = Daemon(process, program.places, program.home / "daemon-messages")
    try:
        eventually(daemon.serves, within_s=PATIENCE_S)
        Path(program.places.config_file).write_text("this is no TOML [", encoding="utf-8")
        eventually(lambda: daemon.client.get("status")["config_error"] is not None, within_s=30)
        daemon.signal(signal.SIGTERM)
        assert daemon.ended(within_s=10) == 0
    finally:
        process.kill()
        process.wait()


def test_whatever_becomes_of_its_log_it_keeps_running(program: Program, folder: Path) -> None:
    """P18: gone, full or with a file in its place, while it runs and at the start."""
    program.configure(folder)
    logs = Path(program.places.log_dir)
    wrongs = 0

    def something_is_logged() -> str:
        """Have it log something, a wrong configuration, and return the notices."""
        nonlocal wrongs
        wrongs += 1
        Path(program.places.config_file).write_text(f"wrong_{wrongs} = 1\n", encoding="utf-8")
        eventually(lambda: f"wrong_{wrongs}" in str(daemon.client.get("status")["config_error"]), within_s=30)
        return "\n".join(daemon.client.get("status")["notices"])

    with program.daemon() as daemon:
        shutil.rmtree(logs)
        assert "The log" not in something_is_logged()
        assert "wrong_1" in (logs / "kbsync.log").read_text(), "made anew"
        (logs / "kbsync.log").unlink()
        (logs / "kbsync.log").symlink_to("/dev/full")
        assert "No space left" in something_is_logged()
        shutil.rmtree(logs)
        logs.write_text("no folder")
        assert f"The log {logs}/kbsync.log cannot be written" in something_is_logged()
        ends_well(daemon)
    program.configure(folder)
    with program.daemon() as daemon:
        assert f"The log {logs}/kbsync.log cannot be written" in something_is_logged()
        logs.unlink()
        assert "The log" not in something_is_logged()
        ends_well(daemon)


# ---- P19 ----


def test_a_program_that_is_replaced_while_it_runs_ends_in_good_order_and_says_what_to_do(
    program: Program, folder: Path, tmp_path: Path
) -> None:
    """P19: an upgrade takes the files away under a daemon that runs; it serves on, and says that it is an old one."""
    place = tmp_path / "installed"
    root = Path(__file__).parents[2]
    shutil.copytree(root / "kbsync", place / "kbsync", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "VERSION"):
        shutil.copy(root / name, place)
    newer = Program(program.home)
    newer.environment[MODEL] = program.environment[MODEL]
    program.environment |= {"PYTHONPATH": str(place), "PYTHONSAFEPATH": "1"}
    program.configure(folder)
    with program.daemon() as daemon:
        (place / "VERSION").write_text("99.0.0\n")
        shutil.rmtree(place / "kbsync")
        assert "kbsync 99.0.0 is installed by now" in notices(newer)
        (folder / "new.md").write_text("# New\n\nThe quince.\n")
        eventually(lambda: daemon.client.get("sources")["sources"][0]["files"]["waiting"] == 2, within_s=30)
        assert newer.run("run", code=1).stderr.count("works on") == 1
        ends_well(daemon)
