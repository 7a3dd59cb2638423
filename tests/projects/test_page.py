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
