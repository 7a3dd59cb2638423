"""The text of an HTML fragment, in order, without its markup: for e-mail, whose tables are layout."""

from __future__ import annotations

import re
from html import unescape

from kbsync.pipelines.markup import bits

_PARAGRAPHS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "div", "dl", "fieldset", "footer", "form", "header", "hr"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "main", "nav", "ol", "p", "pre", "section", "table", "ul"),
    )
)
# These separate where they begin; their end tags say nothing, and may be left out.
_BEGINNINGS = {"br": "\n", "dd": "\n", "dt": "\n", "li": "\n- ", "tr": "\n", "td": " ", "th": " "}
_SPACE = re.compile(r"\s+")
# What fills the line that mail programs show beside the subject.
_PADDING = "\u00ad\u034f\u200b\u200c\u200d\u2007\ufeff"


def text_of_html(html: str) -> str:
    """Return what a reader of the page sees: paragraphs with an empty line between them, items and rows as lines."""
    shown: list[str] = []
    for tag, closing, text in bits(html):
        if tag in _PARAGRAPHS:
            shown.append("\n\n")
        elif not closing:
            shown.append(_BEGINNINGS.get(tag, ""))
        shown.append(_SPACE.sub(" ", unescape(text)))
    lines = (" ".join(word for word in line.split() if word.strip(_PADDING)) for line in "".join(shown).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join("" if line == "-" else line for line in lines)).strip()
