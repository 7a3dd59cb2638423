"""HTML of e-mail to text: what is shown, in order, and what is broken."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbsync.pipelines.html_text import text_of_html


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("no markup", "no markup"),
        ("<p>one</p><p>two</p>", "one\n\ntwo"),
        ("Hello <b>w</b>orld", "Hello world"),
        ("one<br>two<BR/>three", "one\ntwo\nthree"),
        ("<ul><li>one</li>\n<li><p>two</p></ul>", "- one\n\ntwo"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</table>d", "a b\nc\n\nd"),
        ("a&nbsp;&amp;&#228;&lt;p&gt;", "a &ä<p>"),
        ("x <!-- <p>hidden</p> --> y", "x y"),
        ("x<style>p { color: red }</style><script>if (a < b) {}</script>y", "xy"),
        ("<head><title>Mail</title></head><body>shown", "shown"),
        ('<a href="x>y">link</a> <img alt="a > b" src=c>end', "link end"),
        ("<!DOCTYPE html><?xml version='1'?><p>text", "text"),
        ("shown &zwnj;&nbsp;&#847; \u200b &shy; too", "shown too"),
        ("فیلم\u200cها", "فیلم\u200cها"),
        ("", ""),
    ],
)
def test_what_a_reader_sees_is_the_text(html: str, text: str) -> None:
    assert text_of_html(html) == text


@pytest.mark.parametrize(
    ("html", "word"),
    [
        ("1 < 2 and quince", "1 < 2 and quince"),
        ("<p>quince <!-- never closed, medlar", "medlar"),
        ("<p>quince <style>never closed, medlar", "medlar"),
        ("<script>hidden</script><script>open <p>medlar", "medlar"),
        ('<p title="never closed>quince</p><p>medlar', "medlar"),
        ("<p title='it's'>medlar", "medlar"),
        ("<p quince medlar", "medlar"),
        ("</p></p></div>medlar<", "medlar"),
    ],
)
def test_broken_markup_hides_no_text(html: str, word: str) -> None:
    assert word in text_of_html(html)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", ["<div>", '<a "', "<a b='", "<", "<!--", "<script>", "</p>", "&", "<style></style>"])
def test_neither_depth_nor_brokenness_costs_more_than_length(piece: str) -> None:
    # Quadratic, each of these takes minutes.
    assert text_of_html(f"quince {piece * 60_000} medlar").startswith("quince")


@settings(deadline=None)
@given(st.text(alphabet="<>/!-?ab \"'&;=\n", max_size=80))
def test_any_text_is_read(html: str) -> None:
    text_of_html(html)
