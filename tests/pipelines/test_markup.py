"""HTML without a tree: its tags and texts, its shape, and that no page takes long, however broken it is."""

from __future__ import annotations

import pytest

from kbsync.pipelines.markup import bits, shape

MOST_NESTING = 150


def test_a_page_is_its_tags_and_the_texts_behind_them() -> None:
    page = 'a<P class="x > y">b<!-- <p>no</p> --> c</p ><script>if (1<2) "</p>"</script>d<br/>'
    assert list(bits(page)) == [
        ("", False, "a"),
        ("p", False, "b"),
        ("!--", False, " c"),
        ("p", True, ""),
        ("script", False, "d"),
        ("br", False, ""),
    ]


@pytest.mark.parametrize("page", ["1 < 2", "<3 and <", "a<", "<a href='x", '<a href="x', "<", ""])
def test_what_is_no_tag_stays_in_the_text(page: str) -> None:
    assert "".join(text for _, _, text in bits(page)) == page


def test_a_comment_or_script_that_never_ends_hides_nothing() -> None:
    assert "".join(text for _, _, text in bits("<!-- one <p>two<script>three")) == " one twothree"


@pytest.mark.parametrize(
    ("page", "depth"),
    [
        ("<div><p>a<p>b<p>c</div>", 2),
        ("<ul>" + "<li>a" * 500, 2),
        ("<table>" + "<tr><td>a<td>b" * 500, 3),
        ("<dl>" + "<dt>a<dd>b" * 500, 2),
        ("<ul><li>" * 10, 20),
        ("<p>a<div>b</div>" * 500, 1),
        ("<br><img><hr/>" * 500, 0),
        ("<b>a</i>" * 100, 100),
        ("<script><div><div></script>", 0),
    ],
)
def test_levels_are_counted_as_a_browser_nests_them(page: str, depth: int) -> None:
    assert shape(page, MOST_NESTING).depth == depth


def test_cells_elements_and_left_out_ends_are_counted() -> None:
    found = shape("<table><tr><td>a<td>b<tr><th>c</table><p>d<p>e", MOST_NESTING)
    assert (found.cells, found.elements, found.unclosed, found.broken) == (3, 8, 3, 0)


@pytest.mark.parametrize("start", ["<!--", '<a href="', "<a href='", "<![CDATA[", "<?php", "</"])
def test_what_begins_and_never_ends_is_counted(start: str) -> None:
    assert shape(start * 1000, MOST_NESTING).broken >= 999


@pytest.mark.parametrize(
    "broken",
    [
        *("<div>", "<ul><li>", "<table><tr><td>", "<b><p>", "</span>", "<p>x<div>y</div></p>", "<", "<!", "<?", "&"),
        *("<!--", "<![CDATA[", "<script>", "<title>", "</scr", '<a b="', "<a b='\">", '<a b=">"', "<a ", '"x'),
        "<title><script><style><!--",
    ],
)
@pytest.mark.parametrize("before", ["", "<div>" * 20_000])
@pytest.mark.timeout(60)  # in quadratic time most of these take many minutes
def test_no_page_takes_long_however_broken_it_is(before: str, broken: str) -> None:
    page = before + broken * (200_000 // len(broken))
    assert sum(len(text) for _, _, text in bits(page)) <= len(page)
    assert shape(page, MOST_NESTING).depth <= MOST_NESTING + 1
