"""A rebuild makes all of project.md anew from the parsed files; the update record is kept and goes on."""

from __future__ import annotations

from kbsync.projects import page
from tests.projects.desk import Desk

TEXTS = {
    "insurance.md": "The policy pays for cancelled trips. The deductible is 75 euros per person. Call within 48 hours.",
    "搬家.md": "联系房东，确认押金退还的时间和条件。七天之内到派出所登记新地址。",
}


def filled(desk: Desk) -> None:
    for name, text in TEXTS.items():
        desk.put(name, text)
    desk.ingest()


def test_overview_key_information_and_index_are_made_anew_and_the_record_stays(desk: Desk) -> None:
    filled(desk)
    (desk.root / "project.md").write_text(
        desk.page.replace("## 概述\n", "## 概述\n\nold words\n").replace("| insurance |", "| gone |"), encoding="utf-8"
    )
    record = page.entries(desk.page)
    rebuilt = desk.rebuild()
    assert (rebuilt.files, rebuilt.notices) == (2, ())
    assert "old words" not in desk.page
    assert [row.name for row in page.rows(desk.page)] == ["insurance", "搬家"]
    assert page.entries(desk.page)[:2] == record
    assert page.entries(desk.page)[2].endswith(": 重建 project.md")
    assert "insurance" in page.section_text(desk.page, page.OVERVIEW)
    key_points = page.section_text(desk.page, page.KEY_POINTS)
    assert "- The deductible is 75 euros per person. (parsed/insurance.md)" in key_points
    assert "(parsed/搬家.md)" in key_points


def test_every_sentence_of_a_rebuild_without_a_model_stands_in_a_file_and_says_whose_choice_it_is(desk: Desk) -> None:
    filled(desk)
    desk.rebuild()
    for head in (page.OVERVIEW, page.KEY_POINTS):
        text = page.section_text(desk.page, head)
        assert "以下句子由程序从原文中摘录" in text
        quoted = [line[2:] for line in text.splitlines() if line.startswith(("- ", "> "))]
        assert quoted
        assert all(any(line.split(" (parsed/")[0] in source for source in TEXTS.values()) for line in quoted)
    assert all(row.summary.startswith(("Extract: ", "摘录：")) for row in page.rows(desk.page))


def test_a_parsed_file_of_a_persons_own_is_listed_and_one_that_is_gone_is_told(desk: Desk) -> None:
    filled(desk)
    (desk.root / "parsed/insurance.md").unlink()
    (desk.root / "parsed/mine.md").write_text("These are words that I put here by hand, all of them mine.")
    rebuilt = desk.rebuild()
    assert "parsed/insurance.md is gone" in rebuilt.notices[0]
    assert [(row.name, row.archived != "") for row in page.rows(desk.page)] == [("mine", False), ("搬家", True)]


def test_summaries_that_a_rebuild_wrote_give_way_to_those_of_new_versions(desk: Desk) -> None:
    filled(desk)
    desk.rebuild()
    desk.put("insurance.md", "The new policy pays for lost suitcases and nothing else.")
    desk.ingest()
    assert "suitcases" in page.rows(desk.page)[0].summary


def test_an_empty_project_gives_an_empty_page(desk: Desk) -> None:
    assert desk.rebuild().files == 0
    assert page.rows(desk.page) == []


def test_the_overview_speaks_the_language_of_most_files_and_names_the_first_ones(desk: Desk) -> None:
    desk.put("a.md", "The policy pays for cancelled trips and for lost suitcases. " * 500)
    for number in range(40):
        desk.put(f"文件{number:02}.md", f"第{number}号文件说明了搬家的时间和条件。")
    desk.ingest()
    desk.rebuild()
    overview = page.section_text(desk.page, page.OVERVIEW)
    assert overview.startswith("共 41 个文件：a, 文件00")
    assert "文件39" not in overview
