"""project.md: rows and entries are put where they belong, whatever stands around them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbsync.projects import page
from kbsync.projects.page import Row

ROW = Row("a", "parsed/a.md", "archive/a_1.md", "What it says.")
_TEXT = st.text(st.characters(blacklist_categories=["Cs", "Cc", "Zl", "Zp", "Zs"]), min_size=1, max_size=30)


@given(_TEXT, _TEXT)
def test_any_words_go_into_a_cell_and_come_back(name: str, summary: str) -> None:
    row = Row(name, f"parsed/{name}.md", f"archive/{name}_1.md", summary)
    text = page.with_file(page.new_page("p"), row, "- e", "")
    assert page.rows(text) == [row]
    assert page.with_file(text, row, "- e", summary) == text


def test_heads_in_a_fence_are_no_heads_and_english_ones_are_known() -> None:
    text = "# p\n\n```\n## 文件索引\n```\n\n## File index\n\n| a | b | c | d |\n|---|---|---|---|\n\n## Change log\n"
    found = page.with_file(text, ROW, "- e", "")
    assert page.rows(found) == [ROW]
    assert found.endswith("## Change log\n\n- e\n")
    assert "```\n## 文件索引\n```" in found


def test_a_column_that_a_person_added_keeps_its_words() -> None:
    text = page.with_file(page.new_page("p"), ROW, "- e", "").replace("| 摘要 |", "| 摘要 | 我的 |")
    text = text.replace("What it says. |", "What it says. | 重要 |")
    again = page.with_file(text, Row("a", "parsed/a.md", "archive/a_2.md", "Other words."), "- f", "What it says.")
    assert "| a | parsed/a.md | archive/a_2.md | Other words. | 重要 |" in again


@pytest.mark.parametrize(
    "text", ["", "\n", "# only a title", "## 更新记录", "## 文件索引\n\nno table\n\n## 更新记录\n"]
)
def test_whatever_is_missing_is_put_back_once(text: str) -> None:
    once = page.with_file(text, ROW, "- e", "")
    assert page.rows(once) == [ROW]
    assert page.entries(once) == ["- e"]
    assert page.with_file(once, ROW, "- e", ROW.summary) == once


def test_the_newest_entry_stands_last() -> None:
    text = page.new_page("p")
    for entry in ("- 1", "- 2", "- 3"):
        text = page.with_entry(text, entry)
    assert page.entries(text) == ["- 1", "- 2", "- 3"]


def test_a_table_without_pipes_at_its_edges_is_the_table_too() -> None:
    table = "文件名 | 解析文件 | 最新归档 | 摘要\n---|---|---|---\nb | parsed/b.md | | mine\na | parsed/a.md | |\n"
    text = f"# p\n\n## 文件索引\n\n{table}\nWords.\n"
    found = page.with_file(text, ROW, "- e", "")
    assert [row.name for row in page.rows(found)] == ["b", "a"]
    assert page.rows(found)[1] == ROW
    more = page.with_file(found, Row("c", "parsed/c.md", "archive/c_1.md", "More."), "- f", "")
    assert [row.name for row in page.rows(more)] == ["b", "a", "c"]
    assert "b | parsed/b.md | | mine\n" in more


def test_ends_of_lines_stay_as_they_are_also_where_they_are_mixed() -> None:
    text = "# p\r\n\nmine\n\r\n## 文件索引\r\n\r\n| a | b | c | d |\r\n|---|---|---|---|\r\n\n## 更新记录\n- 1\r\n"
    found = page.with_file(text, ROW, "- e", "")
    assert (
        found
        == text.replace("|---|\r\n", f"|---|\r\n{'| a | parsed/a.md | archive/a_1.md | What it says. |'}\r\n")
        + "- e\r\n"
    )


def test_a_row_is_known_by_its_parsed_file_whatever_a_person_calls_it() -> None:
    text = page.with_file(page.new_page("p"), ROW, "- e", "").replace("| a |", "| [The A](archive/a_1.md) |")
    again = page.with_file(text, Row("a", "parsed/a.md", "archive/a_2.md", "Other words."), "- f", "What it says.")
    assert [(row.name, row.archived) for row in page.rows(again)] == [("[The A](archive/a_1.md)", "archive/a_2.md")]


def test_a_head_in_a_comment_is_no_head() -> None:
    text = "# p\n\n<!--\n## 文件索引\n\n| a | b | c | d |\n|---|---|---|---|\n-->\n\n## 更新记录\n"
    found = page.with_file(text, ROW, "- e", "")
    assert found.index("-->") < found.index("| a | parsed/a.md")
    assert page.rows(found) == [ROW]


def test_a_line_of_nothing_but_blanks_and_signs_takes_no_time() -> None:
    for line in ("### a" + " " * 50_000 + "b", "### " + "#" * 50_000 + "x", " " * 50_000 + "x", "-" * 50_000 + "x|"):
        assert page.rows(f"## 文件索引\n{line}\n| a | b |\n|---|---|\n| c | parsed/c.md |\n")


def test_a_small_head_of_the_same_name_is_a_persons_own() -> None:
    text = page.new_page("p").replace("## 概述\n", "## 概述\n\n### 更新记录\n\n- mine\n")
    found = page.with_file(text, ROW, "- e", "")
    assert page.entries(found) == ["- e"]
    assert "### 更新记录\n\n- mine\n" in found


def test_a_fence_that_never_ends_hides_nothing() -> None:
    text = page.new_page("p").replace("## 概述\n", "## 概述\n\n```\nx = 1\n")
    found = page.with_file(text, ROW, "- e", "")
    assert (page.rows(found), page.entries(found)) == ([ROW], ["- e"])
    assert page.with_file(found, ROW, "- e", ROW.summary) == found
