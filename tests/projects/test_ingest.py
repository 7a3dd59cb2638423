"""Decisions 2 to 6 of the specification: from sources/ to parsed/ and archive/, and what both lists say of it."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from kbsync.errors import EngineBusy, UsageError
from kbsync.projects import files, page, parsed, reading
from kbsync.projects.ingest import ingest
from kbsync.projects.project import local
from tests.projects.desk import NOW, Desk

STAMP, MINUTE = f"{local(NOW):%Y%m%d%H%M}", f"{local(NOW):%Y-%m-%dT%H:%M}"


def test_a_file_is_parsed_archived_and_listed_as_the_specification_draws_it(desk: Desk) -> None:
    content = "# 技术方案\n\n本方案描述系统的总体架构和部署方式。\n"
    desk.put("技术方案.md", content)
    outcome = desk.ingest()
    archived = f"archive/技术方案_{STAMP}.md"
    assert [(one.file, one.parsed, one.archived, one.version) for one in outcome.taken] == [
        ("技术方案.md", "parsed/技术方案.md", archived, 1)
    ]
    assert not os.listdir(desk.root / "sources")
    assert (desk.root / archived).read_text(encoding="utf-8") == content
    assert (desk.root / "parsed/技术方案.md").read_text(encoding="utf-8") == (
        f"<!-- source: 技术方案.md -->\n<!-- archived: {archived} -->\n"
        f"<!-- parsed_at: {MINUTE.replace('T', ' ')} -->\n{content}"
    )
    assert json.loads((desk.root / "manifest.json").read_text(encoding="utf-8")) == {
        "project": "kb",
        "created_at": MINUTE,
        "last_ingest": MINUTE,
        "files": [
            {
                "name": "技术方案",
                "ext": ".md",
                "parsed": "parsed/技术方案.md",
                "summary": "摘录：本方案描述系统的总体架构和部署方式。",
                "versions": [
                    {
                        "archived": archived,
                        "hash": f"sha256:{hashlib.sha256(content.encode()).hexdigest()}",
                        "ingested_at": MINUTE,
                    }
                ],
            }
        ],
    }
    assert page.rows(desk.page) == [
        page.Row("技术方案", "parsed/技术方案.md", archived, "摘录：本方案描述系统的总体架构和部署方式。")
    ]
    assert page.entries(desk.page) == [f"- {MINUTE.replace('T', ' ')}: 解析 技术方案.md"]


def test_a_new_version_overwrites_the_parsed_text_and_is_archived_beside_the_old_one(desk: Desk) -> None:
    desk.put("plan.md", "The first plan says that we meet on Monday morning.")
    desk.ingest()
    desk.clock.advance(3600)
    desk.put("plan.md", "The second plan says that we meet on Friday morning.")
    outcome = desk.ingest()
    later = f"{local(NOW + 3600):%Y%m%d%H%M}"
    assert outcome.taken[0].version == 2
    assert sorted(os.listdir(desk.root / "archive")) == [f"plan_{STAMP}.md", f"plan_{later}.md"]
    assert "Friday" in (desk.root / "parsed/plan.md").read_text(encoding="utf-8")
    (row,) = page.rows(desk.page)
    assert row.archived == f"archive/plan_{later}.md"
    assert "Friday" in row.summary
    assert len(page.entries(desk.page)) == 2


def test_the_same_bytes_again_are_another_snapshot_and_a_second_one_in_a_minute_is_told_apart(desk: Desk) -> None:
    for _ in range(3):
        desk.put("a.txt", "The very same words, three times over in one minute.")
        desk.ingest()
    assert sorted(os.listdir(desk.root / "archive")) == [f"a_{STAMP}-2.txt", f"a_{STAMP}-3.txt", f"a_{STAMP}.txt"]
    listed = json.loads((desk.root / "manifest.json").read_text(encoding="utf-8"))
    assert [version["archived"] for version in listed["files"][0]["versions"]] == [
        f"archive/a_{STAMP}.txt",
        f"archive/a_{STAMP}-2.txt",
        f"archive/a_{STAMP}-3.txt",
    ]
    assert len(page.rows(desk.page)) == 1
    at = MINUTE.replace("T", " ")
    assert page.entries(desk.page) == [f"- {at}: 解析 a.txt", f"- {at}: 解析 a.txt (2)", f"- {at}: 解析 a.txt (3)"]


@pytest.mark.parametrize(
    ("first", "second"), [("方案.pdf", "方案.docx"), ("Plan.md", "plan.md"), ("café.md", "café.txt")]
)
def test_two_files_of_one_name_in_sources_are_refused_untouched_and_the_others_go_on(
    desk: Desk, first: str, second: str
) -> None:
    for name in (first, second, "other.md"):
        desk.put(name, f"Some words for the file {name}, which has its own.")
    outcome = desk.ingest()
    assert [one.file for one in outcome.taken] == ["other.md"]
    assert {one.file for one in outcome.refused} == {first, second}
    assert all("Rename it" in one.message for one in outcome.refused)
    assert sorted(os.listdir(desk.root / "sources")) == sorted([first, second])
    assert os.listdir(desk.root / "parsed") == ["other.md"]


def test_a_name_that_the_manifest_has_with_another_ending_is_refused(desk: Desk) -> None:
    desk.put("方案.md", "最初的方案是用 Markdown 写成的文件。")
    desk.ingest()
    before = desk.tree()
    desk.put("方案.docx", "something else")
    outcome = desk.ingest()
    assert not outcome.taken
    assert "方案.md, which the project holds" in outcome.refused[0].message
    assert {name: bytes_ for name, bytes_ in desk.tree().items() if name != "sources/方案.docx"} == before


def test_what_a_person_wrote_into_project_md_survives_to_the_byte(desk: Desk) -> None:
    desk.put("a.md", "The first file tells about the budget of the year.")
    desk.ingest()
    mine = desk.page.replace("## 概述\n", "## 概述\n\n我自己写的概述 | 有竖线\\。\n\n### 我的小节\n- 一\n")
    mine = mine.replace("## 文件索引\n", "## 文件索引\n\n这里是我的说明。\n") + "\n## 我的笔记\n\n别动它。\n"
    (desk.root / "project.md").write_bytes(mine.replace("\n", "\r\n").encode())
    desk.put("b.md", "The second file tells about the people in the team.")
    desk.ingest()
    after = (desk.root / "project.md").read_bytes().decode()
    row = f"| b | parsed/b.md | archive/b_{STAMP}.md | Extract: The second file tells about the people in the team. |"
    entry = f"- {MINUTE.replace('T', ' ')}: 解析 b.md"
    assert row in after
    assert after.replace(f"{row}\r\n", "").replace(f"{entry}\r\n", "") == mine.replace("\n", "\r\n")


def test_a_summary_that_a_person_wrote_stays_when_a_new_version_comes(desk: Desk) -> None:
    desk.put("a.md", "The first version of this file speaks of apples.")
    desk.ingest()
    (desk.root / "project.md").write_text(
        desk.page.replace("Extract: The first version of this file speaks of apples.", "我的摘要"), encoding="utf-8"
    )
    desk.put("a.md", "The second version of this file speaks of pears.")
    desk.ingest()
    (row,) = page.rows(desk.page)
    assert (row.summary, row.archived) == ("我的摘要", f"archive/a_{STAMP}-2.md")


def test_a_table_or_section_that_a_person_took_out_comes_back_where_it_belongs(desk: Desk) -> None:
    (desk.root / "project.md").write_text("# mine\n\nnothing of the form is left\n", encoding="utf-8")
    desk.put("a.md", "The only file that this project holds until now.")
    desk.ingest()
    assert [row.name for row in page.rows(desk.page)] == ["a"]
    assert len(page.entries(desk.page)) == 1
    assert desk.page.startswith("# mine\n\nnothing of the form is left\n")


@pytest.mark.parametrize(
    "name",
    [
        "季度 报告（终稿）.md",
        "自転車の手入れ.txt",
        "보고서.md",
        "تقرير.md",
        "a|b.md",
        "it's -- not > a <comment>.md",
        "tab le & more.md",
        "-dash.md",
        "x" * 240 + ".md",
        "长" * 80 + ".md",
        "two.dots.md",
        "no-ending",
        "$HOME `id`.md",
        "Screenshot 2024-01-01 at 1.00.00\u202fPM.md",
        "季度\u3000报告.md",
        "می\u200cخواهم.md",
        "👨\u200d👩\u200d👧 family.md",
        "\u200fעברית.md",
        "a  b .md",
        " lead.md",
    ],
)
def test_a_name_of_any_script_and_length_goes_all_the_way_and_is_told_back(desk: Desk, name: str) -> None:
    desk.put(name, "Whatever its name is, this file says that the meeting is at noon.")
    outcome = desk.ingest()
    assert [one.file for one in outcome.taken] == [name]
    one = outcome.taken[0]
    assert (desk.root / one.archived).is_file()
    told = parsed.read(str(desk.root / one.parsed))
    assert (told.source, told.archived) == (name, one.archived)
    (row,) = page.rows(desk.page)
    assert (row.parsed, row.archived) == (one.parsed, one.archived)
    desk.put(name, "Another version of the file with this name, in the same minute.")
    assert desk.ingest().taken[0].version == 2
    assert len(page.rows(desk.page)) == 1


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("empty.md", b"", "empty"),
        ("picture.md", b"\x00\x01\x02" * 400, "binary"),
        ("old.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "Save it as Word"),
        ("broken.pdf", b"%PDF-1.7 %BROKEN", "damaged"),
        ("id_rsa", b"words that nobody may read", "never read"),
        (os.fsdecode(b"bad\xff.md"), b"some words in it", "UTF-8"),
        ("new\nline.md", b"some words in it", "Rename it"),
        ("tab\t.md", b"some words in it", "Rename it"),
        ("turned\u202edm.exe", b"some words in it", "Rename it"),
        ("a." + "x" * 250, b"some words in it", "too long"),
    ],
)
def test_what_cannot_be_taken_in_stays_and_says_why(desk: Desk, name: str, content: bytes, why: str) -> None:
    path = desk.put(name, content)
    desk.put("good.md", "This file has nothing wrong with it at all.")
    outcome = desk.ingest()
    assert [one.file for one in outcome.taken] == ["good.md"]
    assert why in outcome.refused[0].message
    assert path.read_bytes() == content
    assert [row.name for row in page.rows(desk.page)] == ["good"]
    assert os.listdir(desk.root / "parsed") == ["good.md"]


def test_names_that_differ_by_spaces_only_have_a_row_each(desk: Desk) -> None:
    names = [" a", "a", "a ", "b  c", "b c", "b\u3000c"]
    for name in names:
        desk.put(f"{name}.md", f"The words of {name!r}, which is a file of its own.")
    desk.ingest()
    assert sorted(row.parsed for row in page.rows(desk.page)) == sorted(f"parsed/{name}.md" for name in names)


def test_a_file_that_cannot_be_taken_away_is_not_archived_either(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    path = desk.put("a.md", "These words lie where nobody may take them away.")
    unlink = os.unlink

    def closed(target: str) -> None:
        if target == str(path):
            raise PermissionError(13, "Permission denied", target)
        unlink(target)

    monkeypatch.setattr(os, "unlink", closed)
    with pytest.raises(UsageError, match=r"sources/a\.md cannot be"):
        desk.ingest()
    assert not os.listdir(desk.root / "archive")


def test_of_a_text_that_is_too_long_it_is_said_that_only_its_beginning_is_there(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_TEXT_BYTES", 60)
    desk.put("long.md", "These words are the beginning of a very long text that goes on and on and on.")
    desk.ingest()
    assert parsed.read(str(desk.root / "parsed/long.md")).text.endswith("<!-- only the first 60 bytes -->\n")


def test_folders_links_and_unfinished_downloads_are_no_files_to_take_in(desk: Desk) -> None:
    (desk.root / "sources/folder").mkdir()
    (desk.root / "sources/link.md").symlink_to("/etc/hostname")
    for name in (".hidden.md", "~$plan.docx", "film.part"):
        desk.put(name, "not ready, or not the user's own")
    outcome = desk.ingest()
    assert not outcome.taken
    assert [one.file for one in outcome.refused] == ["folder", "link.md"]


@pytest.mark.parametrize(
    ("name", "content", "shown"),
    [
        ("page.html", "<h1>Title</h1><p>Words of a page.</p>", "<h1>Title</h1><p>Words of a page.</p>\n"),
        ("values.json", '{"a": 1}', '```json\n{"a": 1}\n```\n'),
        ("rows.csv", "a,b\n1,2\n", "```csv\na,b\n1,2\n```\n"),
        ("code.py", 'X = """\n```\n"""\n', '````python\nX = """\n```\n"""\n````\n'),
        ("report.pdf", "%PDF-1.7 the words of it", "# pdf\n\n%PDF-1.7 the words of it\n"),
        ("really-a-pdf.txt", "%PDF-1.7 the words of it", "# pdf\n\n%PDF-1.7 the words of it\n"),
        ("notes.log", "line one of it\nline two of it\n", "```text\nline one of it\nline two of it\n```\n"),
    ],
)
def test_the_type_decides_how_a_file_is_read(desk: Desk, name: str, content: str, shown: str) -> None:
    desk.put(name, content)
    (one,) = desk.ingest().taken
    assert parsed.read(str(desk.root / one.parsed)).text == shown


def test_text_in_an_old_encoding_is_read_as_everywhere_else(desk: Desk) -> None:
    desk.put("通知.txt", "各部门请注意：会议时间改为星期三下午三点，地点不变，请准时参加。".encode("gb18030"))
    desk.ingest()
    assert "星期三下午三点" in (desk.root / "parsed/通知.md").read_text(encoding="utf-8")


def test_a_file_that_is_written_while_it_is_read_is_archived_as_it_is_parsed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.put("log.md", "The first words, which are soon not all of them.")
    move = files.move

    def written_to(source: str, target: str) -> None:
        Path(source).write_text("The last words, written between the reading and the move.", encoding="utf-8")
        move(source, target)

    monkeypatch.setattr(files, "move", written_to)
    (one,) = desk.ingest().taken
    content = (desk.root / one.archived).read_bytes()
    listed = json.loads((desk.root / "manifest.json").read_text(encoding="utf-8"))
    assert b"The last words" in content
    assert "The last words" in parsed.read(str(desk.root / one.parsed)).text
    assert listed["files"][0]["versions"][0]["hash"] == f"sha256:{hashlib.sha256(content).hexdigest()}"


def test_two_ingests_at_once_are_one_after_the_other(desk: Desk) -> None:
    desk.put("a.md", "Only one of the two may take this file in.")
    with desk.project.alone(), pytest.raises(EngineBusy):
        desk.ingest()
    assert len(desk.ingest().taken) == 1


def test_only_what_is_ready_is_taken_in(desk: Desk) -> None:
    desk.put("ready.md", "This file has been quiet for a while already.")
    desk.put("growing.md", "This file is still being written by somebody")
    outcome = ingest(desk.project, desk.tools, only=lambda file: file == "ready.md")
    assert [one.file for one in outcome.taken] == ["ready.md"]
    assert os.listdir(desk.root / "sources") == ["growing.md"]


def test_an_archive_on_another_disk_gets_a_copy_and_the_original_goes_after_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def across(*_arguments: object, **_options: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", across)
    desk.put("a.md", "These words go over to the other disk by a copy.")
    (one,) = desk.ingest().taken
    assert (desk.root / one.archived).read_text() == "These words go over to the other disk by a copy."
    assert not os.listdir(desk.root / "sources")
