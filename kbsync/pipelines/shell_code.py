"""Bash, by its conventions: a function ends at the brace under its beginning; here-documents are not code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kbsync.pipelines.code_units import Unit, with_comments
from kbsync.pipelines.lines import Lines

_FUNCTION = re.compile(
    r"([ \t]*)(?:function[ \t]+(?P<keyword>[\w:.+@-]+)[ \t]*(?:\([ \t]*\))?|(?P<plain>[\w:.+@-]+)[ \t]*\([ \t]*\))"
    r"[ \t]*(?P<body>\{.*|(?<=[ \t)])\(.*)?(?:#.*)?$"  # `function f(x) {` is awk
)
_ENDS_HERE = {"{": re.compile(r".*[;}&\s]\}|\{\s*\}"), "(": re.compile(r".*\)")}
# The line that ends a body, which others may only be indented deeper than. In `}'` the brace belongs to a text.
_CLOSES = {"{": re.compile(r"([ \t]*)\}(?![^\s;&|<>)])"), "(": re.compile(r"([ \t]*)\)(?![^\s;&|<>)}])")}
# Quoted text and comments are read over; text with a command in it is not, a here-document may begin there.
_HERE_DOCUMENT = re.compile(
    r"""\\.|'[^']*'|"(?:\\.|[^"\\$]|\$(?!\())*"|(?<!\S)\#.*|<<<"""
    r"""|<<(?P<tabs>-?)[ \t]*(?P<word>(?:'[^']+'|"[^"]+"|\\.|[^\s'"\\;&|<>()`])+)"""
)
_QUOTES = re.compile(r"""'([^']*)'|"([^"]*)"|\\(.)""")
# A program in another language that goes on over several lines: its braces stand where they like.
_PROGRAM = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|(?<!\S)\#.*|(?P<open>')""")
_INTERPRETER = re.compile(r"\b(?:[gmn]?awk|sed|perl|jq|python3?)\b")
_LONGEST_WORD = 200
_LONGEST_MARKUP = 10_000  # characters of a line that is looked at; longer ones are data
_MOST_LINES_BEFORE_BODY = 20


def shell_units(lines: Lines) -> list[Unit]:
    """Return the functions in order, those inside another one left in it."""
    return list(_Reader(lines).units())


class _Reader:
    """A few passes over the lines: a function ends before the next one begins, so that no line is read for many."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        rows = ((lines.line(number).lstrip("\t"), number) for number in range(1, len(lines) + 1))
        self._last_line_of = {row: number for row, number in rows if len(row) <= _LONGEST_WORD}
        self._foreign = self._foreign_lines()

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

    def _foreign_lines(self) -> set[int]:
        """Return the lines that begin inside a here-document (its closing word's too) or a quoted program."""
        inside: set[int] = set()
        waiting: list[tuple[str, bool]] = []
        program_end = 0
        for number in range(1, len(self._lines) + 1):
            line = self._lines.line(number)
            if waiting:
                inside.add(number)
                word, tabs = waiting[0]
                if (line.lstrip("\t") if tabs else line) == word or self._last_line_of[word] <= number:
                    waiting.pop(0)
                continue
            if number <= program_end:
                inside.add(number)
                line = line.partition("'")[2] if number == program_end else ""
            if len(line) > _LONGEST_MARKUP:
                continue
            if "'" in line:
                program_end = max(program_end, self._program_end(line, number))
            if "<<" in line:
                waiting = self._begun_documents(line, number)
        return inside

    def _program_end(self, line: str, number: int) -> int:
        """Return the line that a quoted program ends on which begins on this one, 0 where none does."""
        opening = next((match.start() for match in _PROGRAM.finditer(line) if match["open"]), None)
        if opening is None or not _INTERPRETER.search(line, 0, opening):
            return 0
        place = self._lines.text.find("'", self._lines.end(number))
        return self._lines.at(place) if place != -1 else 0

    def _begun_documents(self, line: str, number: int) -> list[tuple[str, bool]]:
        """Return the word that ends each here-document begun on a line, and whether tabs may stand before it.

        One that never ends is a shift in arithmetic, or its file is torn: it is none.
        """
        matches = (match for match in _HERE_DOCUMENT.finditer(line) if match["word"])
        found = [(_QUOTES.sub(r"\1\2\3", match["word"]), bool(match["tabs"])) for match in matches]
        return [(word, tabs) for word, tabs in found if self._last_line_of.get(word, 0) > number]

    def _function(self, number: int) -> tuple[str, int] | None:
        """Return name and last line of the function that begins at a line."""
        match = self._beginning(number)
        if match is None:
            return None
        opening, body = number, match["body"]
        if body is None:  # the brace is on one of the next lines
            opening, body = self._body(number + 1)
            if body is None:
                return None
        name = match["keyword"] or match["plain"]
        if _ENDS_HERE[body[0]].match(body):
            return name, opening
        last_line = self._closing_line(opening, len(match[1]), _CLOSES[body[0]])
        return None if last_line is None else (name, last_line)

    def _beginning(self, number: int) -> re.Match[str] | None:
        line = self._lines.line(number)
        if number in self._foreign or len(line) > _LONGEST_MARKUP:
            return None
        return _FUNCTION.match(line)

    def _body(self, number: int) -> tuple[int, str | None]:
        """Return the line on which a body begins, blank lines and comments passed over, and what stands there."""
        for row in range(number, min(number + _MOST_LINES_BEFORE_BODY, len(self._lines) + 1)):
            text = self._lines.line(row).strip()
            if text and not text.startswith("#"):
                return row, text if text[0] in _CLOSES and len(text) <= _LONGEST_MARKUP else None
        return number, None

    def _closing_line(self, opening: int, indentation: int, closing: re.Pattern[str]) -> int | None:
        """Return the line that closes a body. Where the next function comes first, it ends before that one."""
        last = opening
        for number in range(opening + 1, len(self._lines) + 1):
            if number in self._foreign:
                last = number
                continue
            line = self._lines.line(number)
            found = closing.match(line)
            if found and len(found[1]) <= indentation:
                return number
            match = self._beginning(number)
            if match and len(match[1]) <= indentation:
                return last
            if line and not line.isspace() and not line.lstrip().startswith("#"):
                last = number
        return None
