"""The commands against a running engine: what they print, where, and how they end."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from kbsync.interfaces.cli.app import app
from kbsync.interfaces.cli.exits import EPILOG
from tests.interfaces.conftest import Service


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["status"], 0),
        (["sources", "list"], 0),
        (["documents", "list"], 0),
        (["check"], 0),
        (["wait"], 0),
        (["search", "--mode", "lexical", "xyzzyplugh"], 3),
        (["why", "/never/seen.md"], 3),
        (["documents", "show", "999999"], 3),
        (["sources", "remove", "/never/listed"], 3),
        (["search"], 2),
        (["search", "a", "--limit", "0"], 2),
        (["search", "a", "--mode", "psychic"], 2),
        (["add"], 2),
        (["add", "a.md", "--note", "both"], 2),
        (["add", "--note", "  "], 2),
        (["add", "a.md", "--type", "note"], 2),
        (["add", "a.md", "--ocr", "sometimes"], 2),
        (["why", "/"], 2),
        (["sources", "add", "/absent/folder"], 2),
        (["documents", "show", "one"], 3),
        (["nothing"], 2),
        (["wait", "--timeout", "-1"], 2),
        (["add", "/absent.md"], 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_a_command_ends_with_the_documented_code(service: Service, arguments: list[str], code: int) -> None:
    result = service.command(*arguments)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    if code:
        assert result.stderr, "nobody was told why"


@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        (["status"], {"version", "model_name", "embedding_dim", "device", "database", "queue", "sources"}),
        (["sources", "list"], {"sources", "total"}),
        (["documents", "list"], {"documents", "total"}),
        (["check"], {"ok", "problems"}),
        (["wait"], {"settled", "indexed", "skipped", "failed", "paused", "seconds"}),
        (["search", "--mode", "lexical", "xyzzyplugh"], {"query", "mode", "took_ms", "hits"}),
        (["add", "/absent.md"], {"added", "skipped", "failed", "summary"}),
        (["config", "show"], {"workers", "sources", "chunks", "models"}),
        (["config", "check"], {"ok", "path", "missing"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_json_is_all_there_is_on_stdout(service: Service, arguments: list[str], keys: set[str]) -> None:
    assert json.loads(service.command(*arguments, "--json").stdout).keys() >= keys


def test_exit_codes_are_in_the_help(service: Service) -> None:
    told = " ".join(service.command("--help").stdout.split())
    assert EPILOG in told
    for code in ("0", "1", "2", "3", "4", "5", "78", "130"):
        assert code in EPILOG


def test_sources_are_printed_as_a_table(service: Service) -> None:
    service.write("table.md", "# Table\n\nOne row of hazels.\n")
    head, *rows = service.command("sources", "list").stdout.splitlines()
    assert head.split() == ["SOURCE", "MODE", "STATE", "INDEXED", "WAITING", "SKIPPED", "FAILED"]
    (row,) = [row for row in rows if row.startswith(str(service.folder))]
    assert row.split()[1:3] == ["mirror", "watching"]


def test_a_document_is_shown_with_its_sections(service: Service) -> None:
    path = service.write("shown.md", "# Shown\n\n## First part\n\n" + "Willow bark.\nIn two lines.\n" * 30)
    number = json.loads(service.command("why", str(path), "--json").stdout)["document_id"]
    printed = service.command("documents", "show", str(number)).stdout
    assert str(path) in printed.splitlines()
    assert "First part" in printed
    assert "Willow bark.\nIn two lines.\n" in printed


def test_what_people_read_cannot_steer_their_terminal(service: Service) -> None:
    service.write("evil.md", "# Evil\x1b]0;title\x07\n\nThe aspen \x1b[2J\x9b31m trembles \u202eback\n")
    number = json.loads(service.command("search", "aspen", "--json").stdout)["hits"][0]["document_id"]
    for arguments in (["search", "aspen"], ["search", "aspen", "--json"], ["documents", "show", str(number)]):
        printed = service.command(*arguments).stdout
        assert "trembles" in printed
        assert not set("\x1b\x07\x9b\u202e") & set(printed)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(min_size=1, max_size=50).filter(lambda text: not text.startswith("-")))
def test_search_takes_any_words(service: Service, query: str) -> None:
    assert service.command("search", "--mode", "lexical", "--", query).exit_code in (0, 3)


def test_config_init_writes_once(tmp_path: Path) -> None:
    environment = {"KBSYNC_HOME": str(tmp_path / "home")}
    config = tmp_path / "home" / "config.toml"
    answer = CliRunner().invoke(app, ["config", "check"], env=environment)
    assert answer.stdout == f"There is no {config}; the defaults hold.\n"
    assert CliRunner().invoke(app, ["config", "path"], env=environment).stdout == f"{config}\n"
    assert CliRunner().invoke(app, ["config", "init"], env=environment).exit_code == 0
    assert (config.stat().st_mode & 0o777, config.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert CliRunner().invoke(app, ["config", "check"], env=environment).exit_code == 0
    assert CliRunner().invoke(app, ["config", "init"], env=environment).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", "a", "--mode", "psychic"], "There is no mode 'psychic'. Modes: hybrid, lexical, vector."),
        (
            ["documents", "list", "--state", "lost"],
            "Documents have no state 'lost'. States: current, superseded, missing, all.",
        ),
        (["documents", "list", "--type", "bogus"], "Documents have no type 'bogus'. Types: code, csv, "),
        (["add", "a.md", "--type", "bogus"], "Files of type 'bogus' cannot be read. Types: code, csv, "),
        (
            ["add", "a.md", "--language", "rust"],
            "Code in 'rust' cannot be read. Languages: python, bash, go, notebook.",
        ),
        (["add", "--note", "x", "a.md"], "Give files or folders, or --note TEXT, not both."),
        (["why", "/"], "/ is a folder, not one that is followed; name a file."),
        (["why", "/typo.md"], "/typo.md: There is no such file and none was ever seen."),
        (["add", "/typo.md"], "There is no file /typo.md."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_refusals_are_the_same_with_the_daemon_and_without(
    service: Service, tmp_path: Path, arguments: list[str], message: str
) -> None:
    alone = CliRunner().invoke(app, arguments, env={"KBSYNC_HOME": str(tmp_path)})
    asked = service.command(*arguments)
    assert asked.stderr.startswith(f"kbsync: {message}")
    assert (asked.stderr, asked.exit_code) == (alone.stderr, alone.exit_code)


@pytest.mark.parametrize("command", [["status"], ["sources", "list"]], ids=" ".join)
def test_without_a_daemon_no_folder_is_said_to_be_watched(tmp_path: Path, command: list[str]) -> None:
    environment = {"KBSYNC_HOME": str(tmp_path / "home")}
    (tmp_path / "folder").mkdir()
    CliRunner().invoke(app, ["sources", "add", str(tmp_path / "folder")], env=environment)
    assert "stopped" in CliRunner().invoke(app, command, env=environment).stdout
    answer = CliRunner().invoke(app, [*command, "--json"], env=environment).stdout
    assert [source["state"] for source in json.loads(answer)["sources"]] == ["stopped"]


def test_a_home_that_a_command_makes_is_private(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    before = os.umask(0o022)
    try:
        CliRunner().invoke(app, ["search", "x"], env={"KBSYNC_HOME": str(home)})
    finally:
        os.umask(before)
    assert {folder.stat().st_mode & 0o777 for folder in (home, home.parent, home / "data")} == {0o700}


def test_an_index_without_documents_says_so(tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["documents", "list"], env={"KBSYNC_HOME": str(tmp_path)})
    assert (answer.stdout, answer.exit_code) == ("No documents.\n", 0)


def test_status_counts_the_files_by_state_and_reason(service: Service) -> None:
    service.write("counted.zip", "no archive")
    (line,) = [line for line in service.command("status").stdout.splitlines() if line.startswith("files ")]
    assert re.fullmatch(r"files +\d+ seen: \d+ indexed, 1 skipped \(1 unsupported\), 0 failed(, \d+ gone)?", line)
    (service.folder / "counted.zip").unlink()
    service.settle()


def test_a_variable_that_means_nothing_is_named(tmp_path: Path) -> None:
    environment = {"KBSYNC_HOME": str(tmp_path), "KBSYNC_WORKRES": "2"}
    answer = CliRunner().invoke(app, ["config", "check"], env=environment)
    assert answer.exit_code == 0
    assert "KBSYNC_WORKRES" in answer.stderr
