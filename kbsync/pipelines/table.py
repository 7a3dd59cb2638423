"""CSV: rows as lines of a Markdown table, in groups that fit, the header row repeated in each."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from kbsync.model import Piece
from kbsync.pipelines.cutting import Block, cut
from kbsync.pipelines.draft import Draft
from kbsync.pipelines.lines import Lines
from kbsync.pipelines.room import Room, Size
from kbsync.pipelines.text import cut_plain

_DELIMITERS = ",;\t|"
_ROWS_LOOKED_AT = 20


@dataclass(frozen=True, slots=True)
class _Row:
    shown: str
    first_line: int
    last_line: int


def read_table(text: str) -> Draft:
    """Return how to cut a table; what no delimiter makes a table of is cut at its lines."""
    return Draft(cut=lambda room: _pieces(text, room))


def delimiter_of(text: str) -> str:
    """Return what separates the fields: what gives the same number of columns, more than one, in most first rows."""
    sample = text[:65_536].split("\n")[: 4 * _ROWS_LOOKED_AT]

    def score(delimiter: str) -> tuple[float, int]:
        try:
            widths = [len(row) for row in islice(csv.reader(sample, delimiter=delimiter), _ROWS_LOOKED_AT) if row]
        except csv.Error:
            return 0.0, 0
        if not widths or max(widths) < 2:
            return 0.0, 0
        usual = max(set(widths), key=lambda width: (widths.count(width), width))
        return (widths.count(usual) / len(widths) if usual > 1 else 0.0), usual

    return max(_DELIMITERS, key=score)


def _pieces(text: str, room: Room) -> Iterator[Piece]:
    lines = Lines(text)
    rows = list(_rows(lines, delimiter_of(text)))
    if not _all_read(lines, rows):
        yield from cut_plain(lines, room, "table", by_line=True)
        return
    size = room.size(None)
    header = rows[0].shown
    rule = "|" + " --- |" * max(1, header.count(" | ") + 1)
    head = f"{header}\n{rule}"
    head_tokens = size.measure(head)
    if head_tokens is None or head_tokens + size.joint > size.tokens // 2:
        yield from _groups(rows, "", size.less(0))
        return
    if len(rows) == 1:
        yield Piece(head, "table", None, 1, rows[0].last_line)
        return
    for number, piece in enumerate(_groups(rows[1:], head, size.less(head_tokens + size.joint))):
        yield piece if number else replace(piece, first_line=1)


def _groups(rows: Iterable[_Row], head: str, size: Size) -> Iterator[Piece]:
    """Pack rows under the head; a row that does not fit is cut and its parts numbered."""
    group: list[_Row] = []
    used = 0
    for row in rows:
        tokens = size.measure(row.shown)
        if group and (tokens is None or not size.fits(used + size.joint + tokens, size.characters)):
            yield _group(group, head)
            group, used = [], 0
        if tokens is None or tokens > size.tokens:
            yield from _long_row(row, head, size)
            continue
        used += tokens + (size.joint if group else 0)
        group.append(row)
    if group:
        yield _group(group, head)


def _group(rows: list[_Row], head: str) -> Piece:
    shown = "\n".join([*([head] if head else []), *(row.shown for row in rows)])
    return Piece(shown, "table", None, rows[0].first_line, rows[-1].last_line)


def _long_row(row: _Row, head: str, size: Size) -> Iterator[Piece]:
    spans = list(cut(row.shown, [Block(0, len(row.shown), None)], size, by_line=True))
    for number, (start, end) in enumerate(spans, 1):
        part = row.shown[start:end].strip()
        text = f"{head}\n{part}" if head else part
        yield Piece(text, "table", None, row.first_line, row.last_line, {"part": f"{number}/{len(spans)}"})


def _rows(lines: Lines, delimiter: str) -> Iterator[_Row]:
    """Yield the rows that are not blank, each with the lines that it takes."""
    reader = csv.reader((lines.line(number) + "\n" for number in range(1, len(lines) + 1)), delimiter=delimiter)
    last_line = 0
    try:
        for fields in reader:
            first_line, last_line = last_line + 1, reader.line_num
            if any(field.strip() for field in fields):
                cells = (" ".join(field.split()).replace("|", "\\|") for field in fields)
                yield _Row(f"| {' | '.join(cells)} |", first_line, last_line)
    except csv.Error:
        return  # a field beyond the reader's limit: the caller sees that not all lines were read


def _all_read(lines: Lines, rows: list[_Row]) -> bool:
    """Say whether the rows reach the last line with text, and no quote that never closes swallowed the rest."""
    last_line = len(lines)
    while last_line > 1 and lines.is_blank(last_line):
        last_line -= 1
    return bool(rows) and rows[-1].last_line >= last_line and rows[-1].last_line - rows[-1].first_line < 1000
