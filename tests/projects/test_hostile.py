"""Projects that came from somebody else, or were damaged: nothing outside is read, written or removed, all is told."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kbsync.errors import UsageError
from kbsync.projects import parsed
from kbsync.projects.asking import Conversation
from kbsync.projects.state import state_of
from tests.projects.desk import Desk, local_stamp

WORDS = "The deductible of the policy is 75 euros per person."


@pytest.fixture
def filled(desk: Desk) -> Desk:
    desk.put("a.md", WORDS)
    desk.ingest()
    return desk


def change_manifest(desk: Desk, **changes: Any) -> None:
    record = json.loads((desk.root / "manifest.json").read_text(encoding="utf-8"))
    (desk.root / "manifest.json").write_text(json.dumps({**record, **changes}), encoding="utf-8")


def test_a_forged_comment_brings_no_file_outside_the_project_to_an_end(filled: Desk, tmp_path: Path) -> None:
    victim = tmp_path / "victim.md"
    victim.write_text("secret")
    (filled.root / "archive/evil_1.md").write_text("secret")
    (filled.root / "parsed/evil.md").write_text(
        "<!-- source: ../../victim.md -->\n<!-- archived: archive/evil_1.md -->\n<!-- parsed_at: now -->\nWords.\n"
    )
    filled.ingest()
    assert victim.read_text() == "secret"
    assert "victim" not in (filled.root / "manifest.json").read_text()
    assert not filled.ingest().notices


@pytest.mark.parametrize("folder", ["sources", "parsed", "archive"])
def test_a_folder_that_is_a_link_out_of_the_project_is_not_worked_in(filled: Desk, tmp_path: Path, folder: str) -> None:
    outside = tmp_path / "outside"
    (filled.root / folder).rename(outside)
    (outside / "mine.md").write_text("These words are none of this project's.")
    (filled.root / folder).symlink_to(outside)
    for work in (filled.ingest, filled.rebuild):
        with pytest.raises(UsageError, match=f"{folder} is a symbolic link"):
            work()
    assert (outside / "mine.md").is_file()
    assert any(f"{folder} is a symbolic link" in problem for problem in state_of(filled.project).problems)


def test_a_parsed_file_that_is_a_link_is_not_read(filled: Desk, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("The password of the vault is swordfish.")
    (filled.root / "parsed/vault.md").symlink_to(tmp_path / "secret.md")
    os.mkfifo(filled.root / "parsed/pipe.md")
    assert not Conversation(filled.project).ask("What is the password of the vault?").answered
    filled.rebuild()
    assert "swordfish" not in filled.page


@pytest.mark.parametrize(
    "files",
    [
        [{"name": "a", "ext": ".md", "parsed": "parsed/a.md", "versions": []}],
        [
            {
                "name": "a",
                "ext": ".md",
                "parsed": "parsed/a.md",
                "versions": [{"archived": "a", "hash": "", "ingested_at": "x"}],
            }
        ]
        * 2,
        [
            {
                "name": "../b",
                "ext": ".md",
                "parsed": "parsed/b.md",
                "versions": [{"archived": "a", "hash": "", "ingested_at": "x"}],
            }
        ],
        [
            {
                "name": "\ud800",
                "ext": ".md",
                "parsed": "parsed/b.md",
                "versions": [{"archived": "a", "hash": "", "ingested_at": "x"}],
            }
        ],
    ],
    ids=["no version", "twice", "a path for a name", "half a character"],
)
def test_a_manifest_that_cannot_be_right_is_made_anew(filled: Desk, files: list[Any]) -> None:
    before = (filled.root / "manifest.json").read_text(encoding="utf-8")
    change_manifest(filled, files=files)
    assert "made anew" in filled.ingest().notices[0]
    assert (filled.root / "manifest.json").read_text(encoding="utf-8") == before


@pytest.mark.parametrize("more", [{"x": "\ud800"}, {"x": float("inf")}])
def test_fields_that_could_not_be_written_back_make_a_manifest_broken(filled: Desk, more: dict[str, Any]) -> None:
    change_manifest(filled, **more)
    assert "made anew" in filled.ingest().notices[0]


def test_whatever_lies_in_the_archive_a_manifest_is_made_of_files_only(filled: Desk) -> None:
    before = (filled.root / "manifest.json").read_text(encoding="utf-8")
    stamp = local_stamp(filled.clock.now())
    (filled.root / f"archive/folder_{stamp}").mkdir()
    os.mkfifo(filled.root / f"archive/a_{stamp}-2.md")
    (filled.root / f"archive/a_{stamp}.docx").write_text("another ending, which the name a cannot have")
    (filled.root / "manifest.json").unlink()
    filled.ingest()
    assert (filled.root / "manifest.json").read_text(encoding="utf-8") == before
    assert not filled.ingest().notices


def test_an_ending_in_another_case_is_no_other_file_when_a_manifest_is_made_anew(desk: Desk) -> None:
    desk.put("a.MD", WORDS)
    desk.ingest()
    desk.put("a.md", WORDS)
    desk.ingest()
    before = json.loads((desk.root / "manifest.json").read_text(encoding="utf-8"))
    (desk.root / "manifest.json").unlink()
    desk.ingest()
    (after,) = json.loads((desk.root / "manifest.json").read_text(encoding="utf-8"))["files"]
    assert after["versions"] == before["files"][0]["versions"]


def test_in_the_hour_that_comes_twice_the_latest_version_stays_the_last(desk: Desk) -> None:
    desk.put("a.md", "The first version of this file speaks of apples.")
    desk.ingest()
    desk.clock.advance(-1800)  # the clock is set back
    desk.put("a.md", "The second version of this file speaks of pears.")
    (one,) = desk.ingest().taken
    (desk.root / "manifest.json").unlink()
    desk.ingest()
    record = json.loads((desk.root / "manifest.json").read_text(encoding="utf-8"))
    assert record["files"][0]["versions"][-1]["archived"] == one.archived


def test_a_text_that_a_person_put_into_parsed_is_not_overwritten(desk: Desk) -> None:
    (desk.root / "parsed/mine.md").write_text("These words are my own and exist nowhere else.")
    desk.put("mine.txt", "These words come from a file and want the same place.")
    outcome = desk.ingest()
    assert "parsed/mine.md" in outcome.refused[0].message
    assert (desk.root / "parsed/mine.md").read_text() == "These words are my own and exist nowhere else."
    assert os.listdir(desk.root / "sources") == ["mine.txt"]


def test_names_in_the_comments_read_as_they_are(desk: Desk) -> None:
    for name in ("R&D.md", "&amp;.md", "a--b&#45;.md"):
        desk.put(name, WORDS)
    desk.ingest()
    assert (desk.root / "parsed/R&D.md").read_text().startswith("<!-- source: R&D.md -->\n")
    assert sorted(one.source for one in parsed.read_all(desk.project.parsed)) == ["&amp;.md", "R&D.md", "a--b&#45;.md"]


def test_a_page_or_list_that_is_no_file_ends_an_ingest_before_anything_moves(filled: Desk) -> None:
    filled.put("b.md", WORDS)
    (filled.root / "project.md").unlink()
    (filled.root / "project.md").mkdir()
    with pytest.raises(OSError, match="directory"):
        filled.ingest()
    assert os.listdir(filled.root / "sources") == ["b.md"]
    assert os.listdir(filled.root / "parsed") == ["a.md"]


@pytest.mark.parametrize("encoding", ["gb18030", "utf-16"])
def test_a_page_that_an_editor_wrote_in_another_encoding_keeps_its_words_in_utf_8(filled: Desk, encoding: str) -> None:
    mine = filled.page.replace("## 概述\n", "## 概述\n\n这是我自己写的概述，说明了项目的目标和时间安排。\n")
    (filled.root / "project.md").write_bytes(mine.encode(encoding))
    filled.put("b.md", WORDS)
    outcome = filled.ingest()
    assert "it is in UTF-8 now" in outcome.notices[0]
    assert "这是我自己写的概述" in filled.page
    assert filled.page.count("## 文件索引") == 1
    assert (filled.root / "project.md.damaged-1").read_bytes() == mine.encode(encoding)
    assert not filled.ingest().notices


def test_a_few_bytes_of_a_page_that_are_no_utf_8_stay_as_they_are(filled: Desk) -> None:
    mine = filled.page.replace("## 概述\n", "## 概述\n\n这是我自己写的概述。\n").encode() + b"odd \xff byte\n"
    (filled.root / "project.md").write_bytes(mine)
    filled.put("b.md", WORDS)
    assert not filled.ingest().notices
    assert b"odd \xff byte\n" in (filled.root / "project.md").read_bytes()
