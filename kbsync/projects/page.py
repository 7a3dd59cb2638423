"""project.md: what a person and a program write side by side. Only rows and entries are touched, never their words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kbsync.projects import marks

OVERVIEW, KEY_POINTS, INDEX, RECORD = "概述", "关键信息", "文件索引", "更新记录"
# What a person may have translated the heads to.
_ALSO = {
    OVERVIEW: ("overview",),
    KEY_POINTS: ("key information", "key points"),
    INDEX: ("file index",),
    RECORD: ("update record", "change log", "changelog"),
}
_HEADS = ("文件名", "解析文件", "最新归档", "摘要")
_DIVIDER = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?")
_LINE_ENDS = re.compile("[\t\n-\r\x1c-\x1e\x85\u2028\u2029]+")


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
    lines = _lines(page)
    first, last = _section(lines, RECORD)
    if first is None:
        return _with_lines(page, len(_stripped(lines)), ["", f"## {RECORD}", "", entry])
    if entry in (line.rstrip() for line in lines[first:last]):
        return page
    place = last
    while place > first and not lines[place - 1].strip():
        place -= 1
    before = [""] if place == first else []
    after = [""] if place == last and last < len(lines) else []
    return _with_lines(page, place, [*before, entry, *after])


def rows(page: str) -> list[Row]:
    """Return the rows of the file index."""
    lines = _lines(page)
    first, last = _table(lines)
    found = [_split(line) for line in lines[first:last]]
    return [Row(*(cells + [""] * 4)[:4]) for cells in found if cells and cells[0]]


def entries(page: str) -> list[str]:
    """Return the lines of the update record, blank ones left out."""
    lines = _lines(page)
    first, last = _section(lines, RECORD)
    return [] if first is None else [line.rstrip() for line in lines[first:last] if line.strip()]


def section_text(page: str, head: str) -> str:
    """Return what stands under a head, empty where there is no such head."""
    lines = _lines(page)
    first, last = _section(lines, head)
    return "" if first is None else "\n".join(lines[first:last]).strip()


def one_line(text: str) -> str:
    """Return a text as one line."""
    return " ".join(text.split())


def unbroken(text: str) -> str:
    """Return a text without ends of lines, its spaces as they are: those of a name belong to it."""
    return _LINE_ENDS.sub(" ", text)


def _with_row(page: str, row: Row, written_before: str) -> str:
    lines = _lines(page)
    first, last = _table(lines)
    if first == 0:
        return _with_table(page, lines, row)
    parsed = _cell(row.parsed)
    for number in range(first, last):
        cells = _split(lines[number]) if parsed in lines[number] or _cell(row.name) in lines[number] else []
        if not _is_row_of(row, cells):
            continue
        name, shown = cells[0] or row.name, (cells + [""] * 4)[3]
        is_ours = not shown or shown == _shown(written_before)
        kept = Row(name, row.parsed, row.archived, row.summary if is_ours else shown)
        changed = _line([*_cells(kept), *(_escaped(cell) for cell in cells[4:])])
        return _with_lines(page, number, [changed], instead=1)
    return _with_lines(page, last, [_line(_cells(row))])


def _is_row_of(row: Row, cells: Sequence[str]) -> bool:
    """Return whether a row is a file's: by its parsed file, by its name where a person took that out."""
    parsed = cells[1] if len(cells) > 1 else ""
    if parsed == _shown(row.parsed):
        return True
    return bool(cells) and cells[0] == _shown(row.name) and not parsed.startswith("parsed/")


def _with_table(page: str, lines: Sequence[str], row: Row) -> str:
    """A page without the table: a person took it out, or its section. It comes back where it belongs."""
    table = [_line(_HEADS), "|--------|----------|----------|------|", _line(_cells(row))]
    first, last = _section(lines, INDEX)
    if first is not None:
        place = last
        while place > first and not lines[place - 1].strip():
            place -= 1
        return _with_lines(page, place, ["", *table])
    before, _last = _section(lines, RECORD)
    place = len(_stripped(lines)) if before is None else before - 1
    head = [] if place == 0 or not lines[place - 1].strip() else [""]
    return _with_lines(page, place, [*head, f"## {INDEX}", "", *table, ""])


def _lines(page: str) -> list[str]:
    """Return the lines, without their ends."""
    return [line.removesuffix("\r") for line in page.split("\n")]


def _with_lines(page: str, place: int, added: Sequence[str], instead: int = 0) -> str:
    """Return a page with lines put before that of a number, in the place of some; all others to the byte."""
    lines, end = page.split("\n"), "\r" if "\r\n" in page else ""
    if lines[-1]:
        lines[-1] += end
        lines.append("")
    lines[place : place + instead] = [f"{line}{end}" for line in added]
    return "\n".join(lines)


def _stripped(lines: Sequence[str]) -> Sequence[str]:
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return lines[:end]


def _section(lines: Sequence[str], head: str) -> tuple[int | None, int]:
    """Return (the line after a head, the line of the next head of its level or above)."""
    names = {head, *_ALSO[head]}
    heads = [(number, *found) for number in marks.shown(lines) if (found := marks.header(lines[number]))]
    wanted = [(depth, number) for number, depth, title in heads if depth > 1 and title.lower() in names]
    if not wanted:
        return None, len(lines)
    # A person's own small head of this name is none, where there is a larger one.
    level, begin = min(wanted)
    return begin + 1, next((number for number, depth, _ in heads if number > begin and depth <= level), len(lines))


def _table(lines: Sequence[str]) -> tuple[int, int]:
    """Return (first row, line after the last one) of the table in the file index; (0, 0) where there is none."""
    first, last = _section(lines, INDEX)
    if first is None:
        return 0, 0
    shown = set(marks.shown(lines))
    for number in range(first + 1, last):
        line = lines[number].strip()
        if "|" in line and "|" in lines[number - 1] and number in shown and _DIVIDER.fullmatch(line):
            end = number + 1
            while end < last and "|" in lines[end]:
                end += 1
            return number + 1, end
    return 0, 0


def _cells(row: Row) -> list[str]:
    return [_cell(value) for value in (row.name, row.parsed, row.archived, row.summary)]


def _cell(text: str) -> str:
    return _escaped(unbroken(text))


def _shown(text: str) -> str:
    """Return a text as it is read back from its cell."""
    return unbroken(text).strip()


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
