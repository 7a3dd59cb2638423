"""project.md: what a person and a program write side by side. Only rows and entries are touched, never their words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

OVERVIEW, KEY_POINTS, INDEX, RECORD = "概述", "关键信息", "文件索引", "更新记录"
# What a person may have translated the heads to.
_ALSO = {
    OVERVIEW: ("overview",),
    KEY_POINTS: ("key information", "key points"),
    INDEX: ("file index",),
    RECORD: ("update record", "change log", "changelog"),
}
_HEADS = ("文件名", "解析文件", "最新归档", "摘要")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADER = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_DIVIDER = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the file index: a file's name, its parsed file, its latest archived one, and what it says."""

    name: str
    parsed: str
    archived: str
    summary: str


def new_page(name: str) -> str:
    """Return the page of a project that holds nothing yet."""
    return composed(name, "", "", (), ())


def composed(name: str, overview: str, key_points: str, rows: Iterable[Row], record: Iterable[str]) -> str:
    """Return a whole page."""
    table = [_line(_HEADS), "|--------|----------|----------|------|", *(_line(_cells(row)) for row in rows)]
    sections = [
        f"# {one_line(name)}\n",
        f"## {OVERVIEW}\n\n{overview.strip()}".rstrip() + "\n",
        f"## {KEY_POINTS}\n\n{key_points.strip()}".rstrip() + "\n",
        f"## {INDEX}\n\n" + "\n".join(table) + "\n",
        f"## {RECORD}\n\n{chr(10).join(record)}".rstrip() + "\n",
    ]
    return "\n".join(sections)


def with_file(page: str, row: Row, entry: str, written_before: str) -> str:
    """Return a page with a file's row brought up to date, or added, and an entry in the update record.

    A summary that is not `written_before` is a person's, and stays. Everything else stays as it is, to the byte.
    """
    return with_entry(_with_row(page, row, written_before), entry)


def with_entry(page: str, entry: str) -> str:
    """Return a page with an entry at the end of the update record, unless it stands there."""
    lines, ending = _lines(page)
    first, last = _section(lines, RECORD)
    if first is None:
        return _joined([*_stripped(lines), "", f"## {RECORD}", "", entry], ending)
    if entry in (line.rstrip() for line in lines[first:last]):
        return page
    place = last
    while place > first and not lines[place - 1].strip():
        place -= 1
    before = [""] if place == first else []
    after = [""] if place == last and last < len(lines) else []
    return _joined([*lines[:place], *before, entry, *after, *lines[place:]], ending)


def rows(page: str) -> list[Row]:
    """Return the rows of the file index."""
    lines, _ending = _lines(page)
    first, last = _table(lines)
    found = [_split(line) for line in lines[first:last]]
    return [Row(*(cells + [""] * 4)[:4]) for cells in found if cells and cells[0]]


def entries(page: str) -> list[str]:
    """Return the lines of the update record, blank ones left out."""
    lines, _ending = _lines(page)
    first, last = _section(lines, RECORD)
    return [] if first is None else [line.rstrip() for line in lines[first:last] if line.strip()]


def section_text(page: str, head: str) -> str:
    """Return what stands under a head, empty where there is no such head."""
    lines, _ending = _lines(page)
    first, last = _section(lines, head)
    return "" if first is None else "\n".join(lines[first:last]).strip()


def one_line(text: str) -> str:
    """Return a text as one line."""
    return " ".join(text.split())


def _with_row(page: str, row: Row, written_before: str) -> str:
    lines, ending = _lines(page)
    first, last = _table(lines)
    if first == 0:
        return _with_table(lines, ending, row)
    for number in range(first, last):
        cells = _split(lines[number])
        if cells and cells[0] == one_line(row.name):
            shown = (cells + [""] * 4)[3]
            is_ours = not shown or shown == one_line(written_before)
            kept = Row(row.name, row.parsed, row.archived, row.summary if is_ours else shown)
            lines[number] = _line([*_cells(kept), *(_escaped(cell) for cell in cells[4:])])
            return _joined(lines, ending)
    return _joined([*lines[:last], _line(_cells(row)), *lines[last:]], ending)


def _with_table(lines: list[str], ending: str, row: Row) -> str:
    """A page without the table: a person took it out, or its section. It comes back where it belongs."""
    table = [_line(_HEADS), "|--------|----------|----------|------|", _line(_cells(row))]
    first, last = _section(lines, INDEX)
    if first is not None:
        place = last
        while place > first and not lines[place - 1].strip():
            place -= 1
        rest = lines[place:] or [""]
        return _joined([*lines[:place], "", *table, *rest], ending)
    before, _last = _section(lines, RECORD)
    place = len(_stripped(lines)) if before is None else before - 1
    head = [] if place == 0 or not lines[place - 1].strip() else [""]
    return _joined([*lines[:place], *head, f"## {INDEX}", "", *table, "", *lines[place:]], ending)


def _lines(page: str) -> tuple[list[str], str]:
    """Return the lines, without their ends, and how they end."""
    ending = "\r\n" if "\r\n" in page else "\n"
    return page.replace("\r\n", "\n").split("\n"), ending


def _joined(lines: Sequence[str], ending: str) -> str:
    text = ending.join(lines)
    return text if text.endswith(ending) else text + ending


def _stripped(lines: list[str]) -> list[str]:
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return lines[:end]


def _section(lines: Sequence[str], head: str) -> tuple[int | None, int]:
    """Return (the line after a head, the line of the next head of its level or above)."""
    names = {head, *_ALSO[head]}
    first, level = None, 0
    fence = ""
    for number, line in enumerate(lines):
        marker = _FENCE.match(line)
        if marker:
            fence = "" if fence and marker[1].startswith(fence) else fence or marker[1]
            continue
        found = None if fence else _HEADER.match(line)
        if found is None:
            continue
        if first is None and found[2].strip().lower() in names and len(found[1]) > 1:
            first, level = number + 1, len(found[1])
        elif first is not None and len(found[1]) <= level:
            return first, number
    return first, len(lines)


def _table(lines: Sequence[str]) -> tuple[int, int]:
    """Return (first row, line after the last one) of the table in the file index; (0, 0) where there is none."""
    first, last = _section(lines, INDEX)
    for number in range((first or 0) + 1, last if first is not None else 0):
        if _DIVIDER.match(lines[number]) and "|" in lines[number] and "|" in lines[number - 1]:
            end = number + 1
            while end < last and lines[end].lstrip().startswith("|"):
                end += 1
            return number + 1, end
    return 0, 0


def _cells(row: Row) -> list[str]:
    return [_escaped(one_line(value)) for value in (row.name, row.parsed, row.archived, row.summary)]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _split(line: str) -> list[str]:
    """Return the cells of a row, as they were before they were escaped."""
    cells, cell, escaped = [], "", False
    for character in line.strip().removeprefix("|"):
        if escaped:
            cell += character if character in "\\|" else f"\\{character}"
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == "|":
            cells.append(cell.strip())
            cell = ""
        else:
            cell += character
    if cell.strip():
        cells.append(cell.strip())
    return cells
