"""`kbsync project`: the commands in the current folder, what they print and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kbsync.interfaces.cli.app import app


class Shell:
    """Runs commands in a folder with a home of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("KBSYNC_HOME", str(folder / "home"))
        monkeypatch.chdir(folder)

    def __call__(self, *arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(app, ["project", *arguments], input=stdin)

    def enter(self, folder: str) -> None:
        self._monkeypatch.chdir(self.folder / folder)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(tmp_path, monkeypatch)


def put(shell: Shell, name: str, text: str, project: str = "kb") -> None:
    (shell.folder / project / "sources" / name).write_text(text, encoding="utf-8")


def test_from_init_to_an_answer(shell: Shell) -> None:
    assert shell("init", "kb").exit_code == 0
    put(shell, "policy.md", "The deductible of the policy is 75 euros per person.")
    result = shell("ingest")
    assert result.exit_code == 0
    assert "policy.md -> parsed/policy.md, archive/policy_" in result.stdout
    assert "1 file taken in, 0 refused." in result.stdout
    assert shell("rebuild", "kb").exit_code == 0
    answer = shell("ask", "kb", "How much is the deductible?")
    assert answer.exit_code == 0
    assert answer.stdout.startswith('According to "policy" (parsed/policy.md), “The deductible')


def test_one_word_is_a_name_where_such_a_project_is_here_and_else_the_question(shell: Shell) -> None:
    shell("init", "kb")
    put(shell, "policy.md", "The deductible of the policy is 75 euros per person.")
    shell("ingest")
    assert "75 euros" in shell("ask", "deductible").stdout
    assert "75 euros" in shell("ask", "kb", stdin="deductible?\n").stdout
    assert "75 euros" in shell("ask", "What", "is", "the", "deductible?").stdout
    shell.enter("kb")
    assert "75 euros" in shell("ask", "deductible").stdout
    assert shell("ask", "other", "deductible").exit_code == 3


@pytest.mark.parametrize("command", ["ingest", "rebuild", "ask"])
def test_without_a_name_among_several_projects_the_list_is_told(shell: Shell, command: str) -> None:
    for name in ("a", "b"):
        shell("init", name)
    result = shell(command)
    assert result.exit_code == 2
    assert "a, b" in result.stderr
    assert shell("ingest", "b").exit_code == 0
    assert shell("ingest", "c").exit_code == 3


def test_a_refused_file_ends_with_1_and_says_how_to_go_on(shell: Shell) -> None:
    shell("init", "kb")
    for name in ("plan.md", "plan.txt", "other.md"):
        put(shell, name, f"The words of the file {name} in this project.")
    result = shell("ingest", "--json")
    assert result.exit_code == 1
    record = json.loads(result.stdout)
    assert [one["file"] for one in record["ingested"]] == ["other.md"]
    assert {one["file"] for one in record["refused"]} == {"plan.md", "plan.txt"}
    assert "Rename it" in record["refused"][0]["reason"]


def test_an_unanswered_question_ends_with_3_and_a_conversation_goes_on(shell: Shell) -> None:
    shell("init", "kb")
    put(shell, "policy.md", "The deductible of the policy is 75 euros per person.")
    shell("ingest")
    result = shell("ask", "--json", "kb", "谁是法国总统？")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["answered"] is False
    talk = shell("ask", stdin="谁是法国总统？\nWhat is the deductible?\nexit\nAnd what is the policy?\n")
    assert talk.stdout.count("75 euros") == 1
    assert talk.exit_code == 0
    assert "没有回答" in talk.stdout
    assert "75 euros" in talk.stdout


def test_status_lists_every_project_here(shell: Shell) -> None:
    for name in ("甲", "b"):
        shell("init", name)
    put(shell, "x.md", "Some words that wait to be taken in.", "甲")
    record = json.loads(shell("status", "--json").stdout)
    assert [(one["name"], one["waiting"]) for one in record["projects"]] == [("b", []), ("甲", ["x.md"])]
    assert "甲" in shell("status", "甲").stdout
    assert shell("status", "c").exit_code == 3


def test_init_refuses_what_is_there(shell: Shell) -> None:
    assert shell("init", "kb").exit_code == 0
    assert shell("init", "kb").exit_code == 2
    assert shell("init", "../x").exit_code == 2


def test_the_skill_is_put_below_a_folder(shell: Shell) -> None:
    result = shell("install-skill", "assistant")
    assert result.exit_code == 0
    assert (shell.folder / "assistant/skills/lyxy-kb/SKILL.md").is_file()
    (shell.folder / "assistant/skills/lyxy-kb/SKILL.md").write_text("mine")
    assert shell("install-skill", "assistant").exit_code == 5
    assert shell("install-skill", "assistant", "--yes").exit_code == 0


@pytest.mark.parametrize("command", ["ingest", "rebuild", "status"])
def test_a_list_that_cannot_be_read_is_told_without_a_traceback(shell: Shell, command: str) -> None:
    shell("init", "kb")
    (shell.folder / "kb/manifest.json").unlink()
    (shell.folder / "kb/manifest.json").mkdir()
    result = shell(command)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert "manifest.json" in result.stderr


def test_an_empty_question_is_answered_and_begins_no_conversation(shell: Shell) -> None:
    shell("init", "kb")
    shell.enter("kb")
    assert shell("ask", "", stdin="").exit_code == 3
