"""CSV: rows as lines of a Markdown table, in groups that fit, the header row repeated in each.

Where the header would fill most of a piece, each value stands beside its column's name instead. Spreadsheets use that
too, when Docling has read them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from kbsync.model import Piece
from kbsync.pipelines.cutting import Block, cut
from kbsync.pipelines.draft import Draft
from kbsync.pipelines.lines import Lines
from kbsync.pipelines.room import Room, Size, clipped
from kbsync.pipelines.text import cut_plain

# A longer table is data, not text: what is asked of it is better asked of a database.
MOST_CHUNKS_A_SHEET = 1000
# A column's name beside each of its values is no longer than this; the header's first piece has it whole.
_NAME_TOKENS = 12

_DELIMITERS = ",;\t|"
_ROWS_LOOKED_AT = 20


@dataclass(frozen=True, slots=True)
class Row:
    """A row as it is shown, its cells, and the lines that it takes; None where there are none."""

    shown: str
    cells: tuple[str, ...]
    first_line: int | None = None
    last_line: int | None = None


def read_table(text: str) -> Draft:
    """Return how to cut a table; what no delimiter makes a table of is cut at its lines."""
    return Draft(cut=lambda room: _pieces(text, room), most_pieces=MOST_CHUNKS_A_SHEET)


def row_of(cells: Iterable[str], first_line: int | None = None, last_line: int | None = None) -> Row:
    """Return a row, each cell on one line."""
    told = tuple(" ".join(cell.split()) for cell in cells)
    return Row(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in told)} |", told, first_line, last_line)


def record_pieces(header: Row, rows: Iterable[Row], size: Size) -> Iterator[Piece]:
    """Yield the header's names once, then the rows as lines `name: value`, in groups that fit, without empty cells.

    `size` is the room of a piece that repeats nothing.
    """
    yield from _groups([header], "", size)
    names = [clipped(name, _NAME_TOKENS, size.counter) for name in header.cells]
    records = (replace(row, shown=_record(row, names)) for row in rows)
    yield from _groups((record for record in records if record.shown), "", size, gap="\n\n")


def _record(row: Row, names: Sequence[str]) -> str:
    named = ((names[at] if at < len(names) else "", cell) for at, cell in enumerate(row.cells))
    return "\n".join(f"{name or f'column {at}'}: {cell}" for at, (name, cell) in enumerate(named, 1) if cell)


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
    rule = "|" + " - |" * len(rows[0].cells)  # three dashes would cost three tokens a column
    head = f"{header}\n{rule}"
    head_tokens = size.measure(head)
    if head_tokens is None or head_tokens + size.joint > size.tokens // 2:
        yield from record_pieces(rows[0], rows[1:], size.less(0))
        return
    if len(rows) == 1:
        yield Piece(head, "table", None, 1, rows[0].last_line)
        return
    for number, piece in enumerate(_groups(rows[1:], head, size.less(head_tokens + size.joint))):
        yield piece if number else replace(piece, first_line=1)


def _groups(rows: Iterable[Row], head: str, size: Size, gap: str = "\n") -> Iterator[Piece]:
    """Pack rows under the head; a row that does not fit is cut and its parts numbered."""
    group: list[Row] = []
    used = 0
    for row in rows:
        tokens = size.measure(row.shown)
        if group and (tokens is None or not size.fits(used + size.joint + tokens, size.characters)):
            yield _group(group, head, gap)
            group, used = [], 0
        if tokens is None or tokens > size.tokens:
            yield from _long_row(row, head, size)
            continue
        used += tokens + (size.joint if group else 0)
        group.append(row)
    if group:
        yield _group(group, head, gap)


def _group(rows: list[Row], head: str, gap: str) -> Piece:
    shown = gap.join([*([head] if head else []), *(row.shown for row in rows)])
    return Piece(shown, "table", None, rows[0].first_line, rows[-1].last_line)


def _long_row(row: Row, head: str, size: Size) -> Iterator[Piece]:
    spans = list(cut(row.shown, [Block(0, len(row.shown), None)], size, by_line=True))
    for number, (start, end) in enumerate(spans, 1):
        part = row.shown[start:end].strip()
        text = f"{head}\n{part}" if head else part
        yield Piece(text, "table", None, row.first_line, row.last_line, {"part": f"{number}/{len(spans)}"})


def _rows(lines: Lines, delimiter: str) -> Iterator[Row]:
    """Yield the rows that are not blank, each with the lines that it takes."""
    reader = csv.reader((lines.line(number) + "\n" for number in range(1, len(lines) + 1)), delimiter=delimiter)
    last_line = 0
    try:
        for fields in reader:
            first_line, last_line = last_line + 1, reader.line_num
            if any(field.strip() for field in fields):
                yield row_of(fields, first_line, last_line)
    except csv.Error:
        return  # a field beyond the reader's limit: the caller sees that not all lines were read


def _all_read(lines: Lines, rows: list[Row]) -> bool:
    """Say whether the rows reach the last line with text, and no quote that never closes swallowed the rest."""
    last_line = len(lines)
    while last_line > 1 and lines.is_blank(last_line):
        last_line -= 1
    if not rows or rows[-1].first_line is None or rows[-1].last_line is None:
        return False
    return rows[-1].last_line >= last_line and rows[-1].last_line - rows[-1].first_line < 1000
