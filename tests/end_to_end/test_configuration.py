"""The configuration: followed while the daemon runs, refused with exit code 78 where it cannot be used."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Road
from tests.end_to_end.program import Program
from tests.fakes.eventually import eventually


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("workers = 0", "workers"),
        ("wrokers = 2", "wrokers"),
        ("workers = ", "Invalid value"),
        ('[[sources]]\npath = "not/absolute"', "absolute"),
        ("[sources]\npath = '/'", "sources"),
    ],
)
def test_a_mistake_ends_run_with_78_and_is_named(tmp_path: Path, content: str, named: str) -> None:
    program = Program(tmp_path / "home")
    program.home.mkdir()
    Path(program.places.config_file).write_text(content)
    for command in (["run"], ["config", "check"]):
        answer = program.run(*command, code=78)
        assert named in answer.stderr
        assert "Traceback" not in answer.stderr


def test_a_variable_that_cannot_be_used_ends_run_with_78(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.environment["KBSYNC_CHUNKS__MAX_TOKENS"] = "many"
    assert "max_tokens" in program.run("run", code=78).stderr


def test_sources_of_one_command_s_environment_take_nothing_from_those_in_the_file(tmp_path: Path) -> None:
    program = Program(tmp_path / "home")
    followed, other = tmp_path / "followed", tmp_path / "other"
    followed.mkdir()
    other.mkdir()
    (followed / "note.md").write_text("The medlar ripens late.\n")
    program.configure(followed)
    program.run("run", "--once")
    program.environment["KBSYNC_SOURCES"] = json.dumps([{"path": str(other)}])
    program.run("sources", "add", str(tmp_path), code=2)
    del program.environment["KBSYNC_SOURCES"]
    assert program.json("search", "medlar", "--mode", "lexical")["hits"][0]["path"] == str(followed / "note.md")


def test_a_source_that_is_added_is_indexed_and_one_that_is_removed_is_hidden(road: Road, tmp_path: Path) -> None:
    (tmp_path / "cellar.md").write_text("# Cellar\n\nThe quincewine matures until May.\n")
    assert road.program.run("sources", "add", str(tmp_path)).stdout == f"Following {tmp_path}.\n"
    assert "already" in road.program.run("sources", "add", str(tmp_path), code=2).stderr
    road.program.run("wait")
    (hit,) = road.program.json("search", "--mode", "lexical", "quincewine")["hits"]
    assert hit["path"] == str(tmp_path / "cellar.md")
    assert str(tmp_path) in [source["path"] for source in road.program.json("sources", "list")["sources"]]
    road.program.run("sources", "remove", str(tmp_path))
    road.program.run("search", "--mode", "lexical", "quincewine", code=3)
    road.program.run("sources", "remove", str(tmp_path), code=3)
    assert (tmp_path / "cellar.md").exists()


def test_a_configuration_file_that_changes_is_followed_and_a_mistake_changes_nothing(
    road: Road, tmp_path: Path
) -> None:
    (tmp_path / "attic.md").write_text("# Attic\n\nThe hatboxes stand under the skylight.\n")
    config, client = Path(road.program.places.config_file), road.daemon.client
    before = config.read_text()

    def sources() -> list[str]:
        return [source["path"] for source in client.get("sources")["sources"]]

    try:
        config.write_text(f'{before}\n[[sources]]\npath = "{tmp_path}"\n')
        eventually(lambda: str(tmp_path) in sources())
        road.program.run("wait")
        assert road.program.json("search", "--mode", "lexical", "hatboxes")["hits"]
        config.write_text("workers = -1\n")
        eventually(lambda: client.get("status")["config_error"])
        assert any("workers" in notice for notice in road.program.json("status")["notices"])
        assert str(tmp_path) in sources()
    finally:
        config.write_text(before)
    eventually(lambda: str(tmp_path) not in sources() and client.get("status")["config_error"] is None)
    road.program.run("search", "--mode", "lexical", "hatboxes", code=3)


def test_sighup_ends_nothing_and_the_configuration_is_read_again(road: Road) -> None:
    """That the signal alone has it read, a test of the daemon shows: here the file's own change tells too."""
    config, client, pid = Path(road.program.places.config_file), road.daemon.client, road.daemon.process.pid
    before = config.read_bytes()
    os.kill(pid, signal.SIGSTOP)
    config.write_bytes(b"?" + before[1:])
    os.kill(pid, signal.SIGHUP)
    os.kill(pid, signal.SIGCONT)
    try:
        eventually(lambda: client.get("status")["config_error"])
    finally:
        config.write_bytes(before)
    os.kill(pid, signal.SIGHUP)
    eventually(lambda: client.get("status")["config_error"] is None)
    assert client.get("status")["pid"] == pid
