"""Go, by its brackets: functions, methods with their receiver, types; strings and comments are read over."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kbsync.pipelines.code_units import Unit
from kbsync.pipelines.lines import Lines

# What is never closed ends with the line or the file: each alternative matches, so the whole is read once.
_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|`[^`]*(?:`|\Z)|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?|[{}()\[\]]|\n", re.DOTALL
)
_DECLARATION = re.compile(
    r"func[ \t]*(?:\([ \t]*(?:\w+[ \t]+)?\*?[ \t]*(?P<receiver>\w+)[^)]*\)[ \t]*)?(?P<function>\w+)?"
    r"|type[ \t]+(?P<type>\w+|\()"
)


@dataclass(frozen=True, slots=True)
class _Row:
    """What a line is in the syntax. `whole`: no bracket, string or comment goes on after it.

    `opens`: a body begins at its end.
    """

    top: bool
    comment: bool
    whole: bool
    opens: bool = False


def go_units(lines: Lines) -> list[Unit]:
    """Return the functions, methods and types in order, with the comments above them."""
    return list(_units(lines, _rows(lines)))


def _rows(lines: Lines) -> list[_Row]:
    """Return the syntax of each line; index 0 is line 1."""
    rows: list[_Row] = []
    depth = 0
    top, comment, line_start, last = True, False, 0, ""
    for match in _TOKEN.finditer(lines.text):
        token = match.group()
        if token == "\n":
            rows.append(_Row(top, comment, depth == 0, depth == 1 and last == "{"))
            top, comment, line_start = depth == 0, False, match.end()
            continue
        if token.startswith(("//", "/*")) and not lines.text[line_start : match.start()].strip():
            comment = True
        for _ in range(token.count("\n")):  # a raw string or a comment over several lines
            rows.append(_Row(top, comment, whole=False))
            top = False
        if "\n" in token:
            line_start = match.start() + token.rfind("\n") + 1
        if not token.startswith("//"):
            last = token
        if token in "{([":
            depth += 1
        elif token in "})]":
            depth = max(0, depth - 1)
    if len(rows) < len(lines):
        rows.append(_Row(top, comment, depth == 0))
    return rows


def _units(lines: Lines, rows: list[_Row]) -> Iterator[Unit]:
    number, after_line = 1, 0
    while number <= len(lines):
        line = lines.line(number)
        match = _DECLARATION.match(line[:1000]) if rows[number - 1].top and not rows[number - 1].comment else None
        if match is None:
            number += 1
            continue
        last_line = number
        while last_line < len(lines) and not rows[last_line - 1].whole:
            last_line += 1
        first_line = number
        while first_line - 1 > after_line and rows[first_line - 2].comment:
            first_line -= 1
        opening = next((row for row in range(number, last_line + 1) if rows[row - 1].opens), number)
        signature = lines.text[lines.start(number) : lines.end(opening)]
        yield _unit(match, first_line, last_line, signature)
        after_line = last_line
        number = last_line + 1


def _unit(match: re.Match[str], first_line: int, last_line: int, signature: str) -> Unit:
    if match["type"]:
        group = match["type"] == "("
        return Unit(first_line, last_line, "class", "types" if group else match["type"], signature=signature)
    name = match["function"] or "func"
    if match["receiver"]:
        return Unit(first_line, last_line, "method", f"{match['receiver']}.{name}", signature=signature)
    return Unit(first_line, last_line, "function", name, signature=signature)
