"""The blocks of a Markdown text: headers, fences, tables and paragraphs, by lines. No inline markup, no nesting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kbsync.pipelines.lines import Lines

DEEPEST_SPLIT = 3  # `####` and deeper stay with their section
_NO_SETEXT = re.compile(r"\s*(?:[-*+>|#]|\d{1,9}[.)]\s)")
_ATTRIBUTES = re.compile(r"\{ ?[#.:][^{}]*\}$")
# What may stand before a fence on its line: it belongs to a list item or a quotation then.
_CONTAINER = re.compile(r"(?:[ \t]*(?:>|[-*+](?=[ \t])|\d{1,9}[.)](?=[ \t])))*[ \t]*")
_HTML = re.compile(r"[ \t]*(?:(?P<comment><!--)|<(?P<tag>pre|script|style|textarea)(?=[\s>]|$))")
_LONGEST_MARKUP = 10_000  # characters of a line that is looked at for markup; longer ones are text


@dataclass(frozen=True, slots=True)
class Header:
    """A header of level 1 to 3. A setext header has two lines."""

    level: int
    title: str
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Lines that belong together, without blank ones around. `closed`: the last line is that of a fence's end."""

    kind: Literal["prose", "fence", "table"]
    first_line: int
    last_line: int
    closed: bool = False


@dataclass(frozen=True, slots=True)
class _Fence:
    """A fence's opening: its marker and how far it is indented. `quoted`: each of its lines begins with `>`."""

    marker: str
    indentation: int
    quoted: bool


def scan(lines: Lines, first_line: int) -> Iterator[Header | Stretch]:
    """Yield headers and stretches in order; together they hold every line that is not blank."""
    return _Scan(lines).run(first_line)


class _Scan:
    """One pass over the lines. `_open` is the first line of a paragraph that has not ended."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._open: int | None = None
        self._endless: set[str] = set()

    def run(self, number: int) -> Iterator[Header | Stretch]:
        while number <= len(self._lines):
            line = self._lines.line(number)
            if not line or line.isspace():
                if self._open is not None and not self._only_deep_headers(number - 1):
                    yield from self._close(number - 1)
                number += 1
                continue
            if len(line) > _LONGEST_MARKUP:
                self._open = self._open or number
                number += 1
                continue
            found, number = self._block(line, number)
            yield from found
        yield from self._close(len(self._lines))

    def _block(self, line: str, number: int) -> tuple[list[Header | Stretch], int]:
        """Return what begins or ends at this line, and the line to go on with."""
        fence = _fence(line)
        if fence:
            last, is_closed = self._fence_end(number, fence)
            return [*self._close(number - 1), Stretch("fence", number, last, is_closed)], last + 1
        after = self._after_html(line, number)
        if after:
            self._open = self._open or number
            return [], after
        header = _atx(line, number)
        if header and header.level <= DEEPEST_SPLIT:
            return [*self._close(number - 1), header], number + 1
        if header:
            closed = self._close(number - 1)
            self._open = number
            return closed, number + 1
        level = _underline(line)
        if level and self._open == number - 1 and not _NO_SETEXT.match(self._lines.line(number - 1)):
            self._open = None
            return [Header(level, _title(self._lines.line(number - 1)), number - 1, number)], number + 1
        if "|" in line and number < len(self._lines) and _is_delimiter_row(self._lines.line(number + 1)):
            last = number + 1
            while last < len(self._lines) and not self._ends_table(last + 1):
                last += 1
            return [*self._close(number - 1), Stretch("table", number, last)], last + 1
        self._open = self._open or number
        return [], number + 1

    def _close(self, last: int) -> list[Header | Stretch]:
        if self._open is None:
            return []
        while self._lines.is_blank(last):
            last -= 1
        stretch = Stretch("prose", self._open, last)
        self._open = None
        return [stretch]

    def _only_deep_headers(self, last: int) -> bool:
        """Say whether the open paragraph is only a deep header, which stays with the text that follows."""
        return self._open is not None and all(
            self._lines.is_blank(row) or _atx(self._lines.line(row), row) for row in range(self._open, last + 1)[:20]
        )

    def _ends_table(self, number: int) -> bool:
        """Say whether a line is no row: it is blank or begins a block of its own."""
        line = self._lines.line(number)
        if not line or line.isspace():
            return True
        if len(line) > _LONGEST_MARKUP:
            return False
        return bool(_fence(line) or _atx(line, number) or _HTML.match(line) or line.lstrip().startswith(">"))

    def _fence_end(self, number: int, fence: _Fence) -> tuple[int, bool]:
        """Return the last line of a fence and whether it is its closing line."""
        if fence.quoted or fence.marker not in self._endless:
            for row in range(number + 1, len(self._lines) + 1):
                line = self._lines.line(row).strip()
                if fence.quoted:
                    if not line.startswith(">"):
                        return row - 1, False
                    line = line.lstrip("> \t")
                if line.startswith(fence.marker) and not line.strip(fence.marker[0]):
                    return row, True
            if fence.quoted:
                return len(self._lines), False
            self._endless.add(fence.marker)
        return self._item_end(number, fence.indentation), False

    def _item_end(self, number: int, indentation: int) -> int:
        """Return the last line of the list item that an open fence is in; one that is in none goes on to the end."""
        if indentation == 0:
            return len(self._lines)
        last = number
        for row in range(number + 1, len(self._lines) + 1):
            line = self._lines.line(row)
            if line and not line.isspace():
                if len(line) - len(line.lstrip()) < indentation:
                    return last
                last = row
        return last

    def _after_html(self, line: str, number: int) -> int | None:
        """Return the line after a comment, preformatted text, script or style, in which nothing is markup."""
        match = _HTML.match(line)
        if match is None:
            return None
        closing = "-->" if match["comment"] else f"</{match['tag']}>"
        if closing in self._endless:
            return None
        place = self._lines.text.find(closing, self._lines.start(number))
        if place != -1:
            return self._lines.at(place) + 1
        self._endless.add(closing)
        return None


def _fence(line: str) -> _Fence | None:
    """Read a fence's opening line. Any indentation: fences in lists are indented too."""
    container = _CONTAINER.match(line)
    before = container.group() if container else ""
    text = line[len(before) :]
    for char in "`~":
        if text.startswith(char * 3):
            info = text.lstrip(char)
            if char == "`" and "`" in info:
                return None
            return _Fence(text[: len(text) - len(info)], len(before), ">" in before)
    return None


def _atx(line: str, number: int) -> Header | None:
    text = line.lstrip(" ")
    level = len(text) - len(text.lstrip("#"))
    if not 1 <= level <= 6 or len(line) - len(text) > 3 or text[level : level + 1] not in (" ", "\t"):
        return None
    title = text[level:].strip()
    bare = title.rstrip("#")
    if bare != title and (not bare or bare[-1] in " \t"):
        title = bare
    title = _title(title)
    return Header(level, title, number, number) if title else None


def _title(line: str) -> str:
    """Return a header's text without the attributes `{ #anchor }` that some generators read."""
    text = " ".join(line.split())
    return _ATTRIBUTES.sub("", text).rstrip() or text


def _underline(line: str) -> int | None:
    text = line.strip()
    if len(line) - len(line.lstrip(" ")) > 3 or len(text) < 2:
        return None
    return {"=": 1, "-": 2}.get(text[0]) if not text.strip(text[0]) else None


def _is_delimiter_row(line: str) -> bool:
    return "|" in line and "-" in line and not line.strip("|:- \t")
