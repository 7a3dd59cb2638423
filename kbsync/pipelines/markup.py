"""Walks through HTML without building a tree: no page is too deep or too long for it, and none takes it long.

Nothing here nests, and no character is looked at twice: for broken markup too, its time grows as the page does.
(The tree builders do not keep that: html.parser takes minutes for a few thousand comments that never end, libxml2 for
end tags that match nothing.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

# A tag as far as the next `<`, which no search here passes: that keeps broken markup linear.
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/<>]*)(?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*+>")
_BROKEN_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/<>]*)[^<>]*>")
_BEGINS = re.compile(r"<[a-zA-Z/!?]")
_DECLARATION = re.compile(r"<[!?][^<>]*>")
# Their content is no part of what a reader sees; it is passed over.
NOT_SHOWN = frozenset(("script", "style", "title", "template", "noscript"))
_VOID = frozenset(
    (
        *("area", "base", "br", "col", "embed", "hr", "img", "input"),
        *("link", "meta", "param", "source", "track", "wbr"),
    )
)
_END_PARAGRAPH = frozenset(
    (
        *("address", "article", "aside", "blockquote", "div", "dl", "fieldset", "footer", "form", "header", "hr"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "main", "nav", "ol", "p", "pre", "section", "table", "ul"),
    )
)
# Elements whose end tag may be left out: what a new one ends, and where its look upwards stops.
_ITEMS, _CELLS, _ROWS = frozenset(("dt", "dd")), frozenset(("td", "th")), frozenset(("tr", "td", "th"))
_TABLE = frozenset(("table", "thead", "tbody", "tfoot"))
_IMPLIED = {
    "li": (frozenset(("li",)), frozenset(("ul", "ol", "menu"))),
    "dt": (_ITEMS, frozenset(("dl",))),
    "dd": (_ITEMS, frozenset(("dl",))),
    "td": (_CELLS, frozenset(("tr", "table"))),
    "th": (_CELLS, frozenset(("tr", "table"))),
    "tr": (_ROWS, _TABLE),
}


class Bit(NamedTuple):
    """A tag with the text behind it, up to the next one; `tag` in lower case, empty for the start and for no tag."""

    tag: str
    closing: bool
    text: str


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides how long a tree builder takes: levels of nesting, elements, those whose end tag is left out, cells
    of tables, and places that look like a tag or comment and never end.
    """

    depth: int
    elements: int
    unclosed: int
    cells: int
    broken: int


def bits(html: str) -> Iterator[Bit]:
    """Yield what a page is made of, in order. Comments and what is NOT_SHOWN are passed over, with their end tags."""
    never_closed: set[str] = set()
    place = html.find("<")
    yield Bit("", False, html if place == -1 else html[:place])
    while place != -1:
        tag, closing, begin = _tag_at(html, place)
        end = "-->" if tag == "!--" else f"</{tag}" if tag in NOT_SHOWN and not closing else ""
        if end and end not in never_closed:
            found = re.compile(re.escape(end), re.IGNORECASE).search(html, begin)
            if found is not None:
                begin = found.end() if tag == "!--" else _tag_at(html, found.start())[2]
            else:
                never_closed.add(end)  # then it hides nothing: better a style sheet in the text than no text
        place = html.find("<", max(begin, place + 1))
        yield Bit(tag, closing, html[begin : len(html) if place == -1 else place])


def shape(html: str, most_nesting: int) -> Shape:
    """Measure a page, as far as the first element nested deeper than `most_nesting`.

    Levels are those that are left once implied end tags are put in, as a browser does.
    """
    open_tags: list[str] = []
    depth = elements = unclosed = cells = 0
    broken = max(0, html.count("<!--") - html.count("-->"))
    for tag, closing, text in bits(html):
        if not tag:
            broken += _BEGINS.match(text) is not None
        elif tag in _VOID or tag in NOT_SHOWN or tag == "!--":
            elements += 1
        elif closing:
            _close(open_tags, tag)
        else:
            elements += 1
            cells += tag in _CELLS
            unclosed += _end_implied(open_tags, tag)
            open_tags.append(tag)
            depth = max(depth, len(open_tags))
            if depth > most_nesting:  # nobody wants to know more, and a look upwards stays short
                break
    return Shape(depth, elements, unclosed, cells, broken)


def _close(open_tags: list[str], tag: str) -> None:
    for place in range(len(open_tags) - 1, -1, -1):
        if open_tags[place] == tag:
            del open_tags[place:]
            return


def _end_implied(open_tags: list[str], tag: str) -> bool:
    """End what the new element ends without an end tag; say whether there was something."""
    if tag in _END_PARAGRAPH and open_tags and open_tags[-1] == "p":
        open_tags.pop()
        return True
    if tag not in _IMPLIED:
        return False
    ended, stops = _IMPLIED[tag]
    last = None
    for place in range(len(open_tags) - 1, -1, -1):
        if open_tags[place] in ended:
            last = place
        elif open_tags[place] in stops:
            break
    if last is None:
        return False
    del open_tags[last:]
    return True


def _tag_at(html: str, place: int) -> tuple[str, bool, int]:
    """Return the name of the tag that begins here, whether it is an end tag, and where it ends; `!--` for a comment."""
    if html.startswith("<!--", place):
        return "!--", False, place + 4
    if not html[place + 1 : place + 2].isalpha() and html[place + 1 : place + 2] not in "/!?":
        return "", False, place
    after = html.find("<", place + 1)
    end = len(html) if after == -1 else after
    found = _TAG.match(html, place, end) or _BROKEN_TAG.match(html, place, end)
    if found is not None:
        return found[2].lower(), bool(found[1]), found.end()
    declared = _DECLARATION.match(html, place, end)
    return "", False, declared.end() if declared else place
