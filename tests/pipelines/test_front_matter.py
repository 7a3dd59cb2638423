"""Front matter of Markdown files."""

from __future__ import annotations

import pytest

from kbsync.pipelines.front_matter import read_front_matter
from kbsync.pipelines.lines import Lines


@pytest.mark.parametrize(
    ("text", "values", "last_line"),
    [
        ("---\ntitle: A guide\ndate: 2024-01-02\n---\ntext", {"title": "A guide", "date": "2024-01-02"}, 4),
        ("---\ntitle: \"It's: here\"  \ntags: [a, 'b c']\n---\n", {"title": "It's: here", "tags": ["a", "b c"]}, 4),
        ("---\ntags:\n  - one\n  - two\nx: 1 # why\n---\n", {"tags": ["one", "two"], "x": "1"}, 6),
        ("---\nsummary: >\n  two\n  lines\n...\n", {"summary": "two lines"}, 5),
        ("---\n标题: 指南\n'quoted key': x\n\"b\": 1\n---\n", {"标题": "指南", "quoted key": "x", "b": "1"}, 5),
        ("---\na: [1, 2\nb: {x\n---\n", {"a": "[1, 2", "b": "{x"}, 4),
        ("---\na:b\n---\n", {}, 0),
        ("---\n---\ntext", {}, 0),
        ("---\n# comment\nurl: https://a.b/c:d\n---\n", {"url": "https://a.b/c:d"}, 4),
        ('+++\ntitle = "T"\ntags = ["a"]\ndraft = true\n+++\n', {"title": "T", "tags": ["a"], "draft": True}, 5),
        ("+++\ndate = 2024-01-02\n+++\n", {"date": "2024-01-02"}, 3),
        ("---\nJust a line between rules.\n---\n", {}, 0),
        ("---\ntitle: never closed\n", {}, 0),
        ("text\n---\ntitle: x\n---\n", {}, 0),
        ("", {}, 0),
    ],
)
def test_simple_settings_are_read_and_text_is_left_alone(text: str, values: object, last_line: int) -> None:
    front = read_front_matter(Lines(text))
    assert (front.values, front.last_line) == (values, last_line)
