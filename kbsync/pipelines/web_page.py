"""A web page as plain text, for those that Docling cannot read: its title, its headings, and the text between them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

from kbsync.pipelines.html_text import text_of_html
from kbsync.pipelines.markup import NOT_SHOWN, bits

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_TITLE = re.compile(r"<title(?:\s[^<>]*)?>([^<]*)", re.IGNORECASE)
# A longer heading is one that was never ended.
_LONGEST_HEADING = 500


def title_of_page(html: str) -> str | None:
    """Return what a browser writes on the page's tab; None where the page names nothing."""
    found = _TITLE.search(html)
    return " ".join(unescape(found[1]).split()) or None if found else None


def sections_of_page(html: str) -> Iterator[tuple[int, str]]:
    """Yield headings (level 1 to 6, on one line) and the text between them (level 0), in order. Linear in time."""
    level = 0
    inside: list[str] = []
    for tag, closing, text in bits(html):
        if tag in _HEADINGS:
            yield from _section(level, inside)
            level, inside = 0 if closing else _HEADINGS[tag], []
        elif tag and tag != "!--" and tag not in NOT_SHOWN:
            inside.append(f"</{tag}>" if closing else f"<{tag}>")
        inside.append(text)
    yield from _section(level, inside)


def _section(level: int, inside: list[str]) -> Iterator[tuple[int, str]]:
    text = text_of_html("".join(inside))
    if len(text) > _LONGEST_HEADING:
        level = 0
    if text:
        yield level, " ".join(text.split()) if level else text
