"""A web page as plain text: its title, its headings, and the text between them, in order."""

from __future__ import annotations

import pytest

from kbsync.pipelines.web_page import sections_of_page, title_of_page


def test_headings_and_the_text_between_them_come_in_order() -> None:
    page = (
        "<html><head><title>no</title><style>h1{}</style></head><body><p>first &amp; foremost</p>"
        "<h1>Trees <em>and</em>\n shrubs</h1><p>one</p><p>two</p><h3>Quince</h3><ul><li>a<li>b</ul>"
        "<table><tr><td>1<td>2</tr></table><!-- <h1>hidden</h1> --></body>"
    )
    assert list(sections_of_page(page)) == [
        (0, "first & foremost"),
        (1, "Trees and shrubs"),
        (0, "one\n\ntwo"),
        (3, "Quince"),
        (0, "- a\n- b\n\n1 2"),
    ]


def test_a_heading_that_never_ends_is_no_heading() -> None:
    assert [level for level, _ in sections_of_page("<h2>a" + "<p>word" * 200)] == [0]


@pytest.mark.parametrize("deep", ["<div>", "<ul><li>", "<table><tr><td>", "<h1>", "<b><a href='x'>"])
def test_the_text_of_a_page_is_read_however_deep_it_is(deep: str) -> None:
    assert list(sections_of_page(deep * 20_000 + "blackthorn"))[-1][1].split()[-1] == "blackthorn"


@pytest.mark.parametrize(
    ("page", "title"),
    [
        ("<TITLE lang=en>\n Hedges &lt;3 </TITLE>", "Hedges <3"),
        ("<title></title>", None),
        ("<titles>no</titles>", None),
        ("no title", None),
        ("<title>" * 100_000, None),
    ],
)
def test_the_title_is_that_of_the_tab(page: str, title: str | None) -> None:
    assert title_of_page(page) == title
