"""Decision 8: what teaches an assistant is shipped, complete, put in place, and names only commands that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from kbsync.interfaces.cli.app import app
from kbsync.projects.skill import contents, install_skill

COMMANDS = {f"commands/lyxy-kb/{name}.md" for name in ("init", "ingest", "rebuild", "ask")}


def test_the_skill_and_its_four_commands_are_shipped_and_installed(tmp_path: Path) -> None:
    written, kept = install_skill(str(tmp_path), overwrite=False)
    assert set(written) == {"skills/lyxy-kb/SKILL.md", *COMMANDS}
    assert not kept
    assert install_skill(str(tmp_path), overwrite=False) == (written, [])


def test_a_file_that_somebody_changed_is_kept_unless_asked_otherwise(tmp_path: Path) -> None:
    install_skill(str(tmp_path), overwrite=False)
    mine = tmp_path / "commands/lyxy-kb/ask.md"
    mine.write_text("mine")
    assert install_skill(str(tmp_path), overwrite=False)[1] == ["commands/lyxy-kb/ask.md"]
    assert mine.read_text() == "mine"
    assert install_skill(str(tmp_path), overwrite=True)[1] == []
    assert mine.read_text() != "mine"


@pytest.mark.parametrize(
    "taught",
    [
        *("project.md", "manifest.json", "parsed/", "sources/", "archive/"),
        *("概述", "关键信息", "文件索引", "更新记录", "| 文件名 | 解析文件 | 最新归档 | 摘要 |"),
        *("<!-- source: ", "<!-- archived: ", "<!-- parsed_at: "),
        *('"created_at"', '"last_ingest"', '"versions"', '"hash": "sha256:', '"ingested_at"'),
        *("同名不同扩展名", "渐进式查询策略", "「根据《文件名》(parsed/文件名.md)，", ".docx .pdf .pptx .xlsx"),
    ],
)
def test_the_skill_teaches_what_decision_8_lists(taught: str) -> None:
    assert taught in dict(contents())["skills/lyxy-kb/SKILL.md"]


def test_every_command_that_is_taught_is_one_of_the_program() -> None:
    project = typer.main.get_command(app).commands["project"]  # type: ignore[attr-defined]  # a group of Click's
    taught = {name for _, text in contents() for name in re.findall(r"kbsync project ([\w-]+)", text)}
    assert {"init", "ingest", "rebuild", "ask", "status"} <= taught
    assert taught <= set(project.commands)


def test_the_two_readers_of_the_specification_are_replaced_by_this_program() -> None:
    assert all("lyxy-reader-office" not in text and "lyxy-runner-python" not in text for _, text in contents())
