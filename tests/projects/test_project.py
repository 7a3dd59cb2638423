"""Decision 1: which folder a project is, how one is made, and which one is meant."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kbsync.errors import NotFound, UsageError
from kbsync.projects.project import find, is_project, projects_in
from kbsync.projects.starting import start
from kbsync.projects.state import state_of
from tests.fakes.manual_clock import ManualClock
from tests.projects.desk import Desk


@pytest.mark.parametrize("name", ["my-project", "资料库 2026", "é", "-x"])
def test_a_new_project_has_the_fixed_structure_and_holds_nothing(tmp_path: Path, name: str) -> None:
    start(str(tmp_path), name, ManualClock())
    root = tmp_path / name
    assert sorted(os.listdir(root)) == ["archive", "manifest.json", "parsed", "project.md", "sources"]
    record = json.loads((root / "manifest.json").read_text(encoding="utf-8"))
    assert (record["project"], record["last_ingest"], record["files"]) == (name, None, [])
    page = (root / "project.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {name}\n")
    heads = [line for line in page.splitlines() if line.startswith("## ")]
    assert heads == ["## 概述", "## 关键信息", "## 文件索引", "## 更新记录"]
    assert "| 文件名 | 解析文件 | 最新归档 | 摘要 |" in page


@pytest.mark.parametrize("name", ["", " ", ".", "..", "a/b", "/abs", "a\nb", " a", "x" * 300])
def test_what_cannot_be_a_folder_here_is_no_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        start(str(tmp_path), name, ManualClock())
    assert not os.listdir(tmp_path)


def test_a_folder_that_holds_something_and_a_project_that_is_there_are_left_alone(tmp_path: Path, desk: Desk) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine.txt").write_text("mine")
    before = desk.tree()
    for name in ("full", "kb"):
        with pytest.raises(UsageError):
            start(str(tmp_path), name, ManualClock())
    assert desk.tree() == before
    assert os.listdir(tmp_path / "full") == ["mine.txt"]


def test_without_a_name_the_folder_itself_is_meant_or_the_only_project_in_it(tmp_path: Path, desk: Desk) -> None:
    assert find(str(tmp_path), None).root == str(desk.root)
    assert find(str(desk.root), None).root == str(desk.root)
    start(str(tmp_path), "second", ManualClock())
    with pytest.raises(UsageError, match="kb, second"):
        find(str(tmp_path), None)
    with pytest.raises(NotFound, match="There are: kb, second"):
        find(str(tmp_path), "third")
    with pytest.raises(UsageError, match="holds none"):
        find(str(desk.root / "archive"), None)


def test_a_project_that_lost_a_list_or_its_empty_folders_is_still_one(desk: Desk) -> None:
    (desk.root / "manifest.json").unlink()
    (desk.root / "sources").rmdir()
    (desk.root / "archive").rmdir()
    assert is_project(str(desk.root))
    assert projects_in(str(desk.root.parent)) == ["kb"]
    problems = state_of(desk.project).problems
    assert any("manifest.json is gone" in problem for problem in problems)
    desk.ingest()
    assert not state_of(desk.project).problems


def test_status_counts_what_is_there_waits_and_is_not_as_it_should_be(desk: Desk) -> None:
    for name in ("a.md", "b.md"):
        desk.put(name, f"The file {name} has some words of its own in it.")
    desk.ingest()
    desk.put("a.md", "The file a.md has other words of its own in it.")
    desk.put("b.txt", "The file b.txt has the name of another one.")
    (desk.root / "parsed/b.md").unlink()
    (desk.root / "archive/found.bin").write_bytes(b"x")
    state = state_of(desk.project)
    assert (state.files, state.versions, state.waiting) == (2, 2, ("a.md",))
    assert [one.file for one in state.refused] == ["b.txt"]
    gone, unlisted = state.problems
    assert gone.startswith("parsed/b.md is gone: copy archive/b_")
    assert unlisted == "archive/found.bin is in no version list."
