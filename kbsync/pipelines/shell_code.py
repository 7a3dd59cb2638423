"""Bash, by its conventions: a function ends at the brace under its beginning; here-documents are not code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kbsync.pipelines.code_units import Unit, with_comments
from kbsync.pipelines.lines import Lines

_FUNCTION = re.compile(
    r"([ \t]*)(?:function[ \t]+(?P<keyword>[\w:.+@-]+)[ \t]*(?:\([ \t]*\))?|(?P<plain>[\w:.+@-]+)[ \t]*\([ \t]*\))"
    r"[ \t]*(?P<body>[{(].*)?(?:#.*)?$"
)
_ENDS_HERE = {"{": re.compile(r".*[;}&\s]\}|\{\s*\}"), "(": re.compile(r".*\)")}
_HERE_DOCUMENT = re.compile(r"<<(?P<tabs>-?)[ \t]*(?P<quote>[\"']?)\\?(?P<word>[A-Za-z_][\w.-]*)(?P=quote)")
_CLOSING = {"{": "}", "(": ")"}
_LONGEST_WORD = 200
_LONGEST_MARKUP = 10_000  # characters of a line that is looked at; longer ones are data


def shell_units(lines: Lines) -> list[Unit]:
    """Return the functions in order, those inside another one left in it."""
    return list(_Reader(lines).units())


class _Reader:
    """A few passes over the lines, none for each function: what was looked for in vain is not looked for again."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._missing: set[str] = set()
        rows = ((lines.line(number).lstrip("\t"), number) for number in range(1, len(lines) + 1))
        self._last_line_of = {row: number for row, number in rows if len(row) <= _LONGEST_WORD}
        self._documents = self._here_documents()

    def units(self) -> Iterator[Unit]:
        number, after_line = 1, 0
        while number <= len(self._lines):
            begun = self._function(number)
            if begun is None:
                number += 1
                continue
            name, last_line = begun
            first_line = with_comments(self._lines, number, after_line, "#")
            yield Unit(first_line, last_line, "function", name, signature=self._lines.line(number))
            after_line = last_line
            number = last_line + 1

    def _here_documents(self) -> set[int]:
        """Return the lines inside here-documents, their closing word included."""
        inside: set[int] = set()
        waiting: list[tuple[str, bool]] = []
        for number in range(1, len(self._lines) + 1):
            line = self._lines.line(number)
            if waiting:
                inside.add(number)
                word, tabs = waiting[0]
                if (line.lstrip("\t") if tabs else line) == word or self._last_line_of[word] <= number:
                    waiting.pop(0)
            elif "<<" in line and len(line) <= _LONGEST_MARKUP and not line.lstrip().startswith("#"):
                waiting = self._begun_documents(line.replace("<<<", "   "), number)
        return inside

    def _begun_documents(self, line: str, number: int) -> list[tuple[str, bool]]:
        """Return the word that ends each here-document begun on a line, and whether tabs may stand before it.

        One that never ends is a shift in arithmetic, or its file is torn: it is none.
        """
        found = [(match["word"], bool(match["tabs"])) for match in _HERE_DOCUMENT.finditer(line)]
        return [(word, tabs) for word, tabs in found if self._last_line_of.get(word, 0) > number]

    def _function(self, number: int) -> tuple[str, int] | None:
        """Return name and last line of the function that begins at a line."""
        line = self._lines.line(number)
        if number in self._documents or len(line) > _LONGEST_MARKUP:
            return None
        match = _FUNCTION.match(line)
        if match is None:
            return None
        opening, body = number, match["body"]
        if body is None:  # the brace is on the next line
            opening = number + 1
            body = self._lines.line(opening).strip() if opening <= len(self._lines) else ""
            if body[:1] not in _CLOSING or len(body) > _LONGEST_MARKUP:
                return None
        name = match["keyword"] or match["plain"]
        if _ENDS_HERE[body[0]].match(body):
            return name, opening
        last_line = self._closing_line(opening, match[1] + _CLOSING[body[0]])
        return None if last_line is None else (name, last_line)

    def _closing_line(self, opening: int, closing: str) -> int | None:
        if closing in self._missing:
            return None
        for number in range(opening + 1, len(self._lines) + 1):
            if number not in self._documents and self._lines.line(number).startswith(closing):
                return number
        self._missing.add(closing)
        return None
