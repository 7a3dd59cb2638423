"""Puts the words of a table region into rows and columns: by a model's HTML structure, else by where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import median

# left, top, right, bottom; y grows downwards.
Box = tuple[float, float, float, float]
# A word off its row is more likely misplaced by one that is off its column: rows are as high as the text in them.
_ROW_WEIGHT = 4.0


@dataclass(frozen=True, slots=True)
class Word:
    """A stretch of text on one line, and where it stands."""

    text: str
    box: Box


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table. Rows and columns count from 0, both ends included."""

    text: str
    box: Box
    first_row: int
    last_row: int
    first_column: int
    last_column: int
    header: bool


@dataclass(frozen=True, slots=True)
class Grid:
    """A table. `misfit` is the share of words that share a cell with another line, and of cells without a word.

    In a table that was understood both are few: of two answers for one table that with the smaller misfit is right.
    """

    cells: tuple[Cell, ...]
    rows: int
    columns: int
    misfit: float = 0.0


@dataclass(frozen=True, slots=True)
class _Place:
    first_row: int
    last_row: int
    first_column: int
    last_column: int
    header: bool


def grid_of_structure(tags: Sequence[str], boxes: Sequence[Box], words: Sequence[Word]) -> Grid | None:
    """Return the table of a structure model's tags, a box for each cell in their order. None where they say nothing.

    The boxes drift, cell by cell; the middle of all boxes of a row or column is where it really is.
    """
    places = _places(tags)[: len(boxes)]
    if len(places) < 2:
        return None
    covered = {
        (row, column): number
        for number, place in enumerate(places)
        for row in range(place.first_row, place.last_row + 1)
        for column in range(place.first_column, place.last_column + 1)
    }
    rows = _bands([(place.first_row, place.last_row, box[1], box[3]) for place, box in _pairs(places, boxes)])
    columns = _bands([(place.first_column, place.last_column, box[0], box[2]) for place, box in _pairs(places, boxes)])
    held: list[list[Word]] = [[] for _ in places]
    for word in words:
        for part in _split(word, columns):
            x, y = _middle(part.box)
            number = covered.get((_nearest(y, rows), _nearest(x, columns)))
            if number is None:  # the structure has a hole there
                number = _nearest_box(part.box, boxes[: len(places)])
            held[number].append(part)
    cells = tuple(
        Cell(
            _text(inside),
            box,
            place.first_row,
            place.last_row,
            place.first_column,
            place.last_column,
            place.header,
        )
        for (place, box), inside in zip(_pairs(places, boxes), held, strict=True)
    )
    misfit = (sum(len(inside) for inside in held if len(_rows_of(inside)) > 1) + held.count([])) / max(1, len(words))
    return Grid(cells, max(cell.last_row for cell in cells) + 1, max(cell.last_column for cell in cells) + 1, misfit)


def grid_of_lines(words: Sequence[Word]) -> Grid:
    """Return a table of lines: stretches at one height are a row, their left edges in all rows are the columns."""
    rows = _rows_of(words)
    columns = max((len(row) for row in rows), default=0)
    widest = next((sorted(row, key=lambda word: word.box[0]) for row in rows if len(row) == columns), [])
    cells = []
    for number, row in enumerate(rows):
        held: list[list[Word]] = [[] for _ in range(columns)]
        for word in row:
            edges = [abs(word.box[0] - column.box[0]) for column in widest]
            held[edges.index(min(edges))].append(word)
        for column, inside in enumerate(held):
            if inside:
                cells.append(Cell(_text(inside), _around(inside), number, number, column, column, number == 0))
    return Grid(tuple(cells), len(rows), columns)


def _places(tags: Sequence[str]) -> list[_Place]:
    """Return where each cell stands, in the order of the tags; spans push later cells aside."""
    places: list[_Place] = []
    taken: set[tuple[int, int]] = set()
    row, in_head = -1, False
    spans = {"rowspan": 1, "colspan": 1}
    for tag in tags:
        name, _, value = tag.strip().partition("=")
        if name in ("<thead>", "</thead>"):
            in_head = name == "<thead>"
        elif name == "<tr>":
            row += 1
        elif name == "<td":
            spans = {"rowspan": 1, "colspan": 1}
        elif name in spans:
            spans[name] = int(value.strip("\"'"))
        elif name in ("<td></td>", ">") and row >= 0:
            if name != ">":
                spans = {"rowspan": 1, "colspan": 1}
            column = next(number for number in range(len(tags) * 20 + 1) if (row, number) not in taken)
            last_row, last_column = row + spans["rowspan"] - 1, column + spans["colspan"] - 1
            taken.update((y, x) for y in range(row, last_row + 1) for x in range(column, last_column + 1))
            places.append(_Place(row, last_row, column, last_column, in_head))
    return places


def _pairs(places: Sequence[_Place], boxes: Sequence[Box]) -> list[tuple[_Place, Box]]:
    return list(zip(places, boxes, strict=False))


def _bands(edges: Sequence[tuple[int, int, float, float]]) -> list[tuple[float, float]]:
    """Return where each row or column begins and ends, from the edges of its cells: (first, last, begin, end)."""
    count = max(last for _, last, _, _ in edges) + 1
    bands: list[tuple[float, float]] = []
    for number in range(count):
        own = [(begin, end) for first, last, begin, end in edges if first == last == number]
        if not own:  # only cells that span several
            own = [
                (
                    begin + (end - begin) * (number - first) / (last - first + 1),
                    begin + (end - begin) * (number - first + 1) / (last - first + 1),
                )
                for first, last, begin, end in edges
                if first <= number <= last
            ]
        if own:
            bands.append((median(begin for begin, _ in own), median(end for _, end in own)))
        else:
            bands.append((inf, inf))
    return bands


def _split(word: Word, columns: Sequence[tuple[float, float]]) -> list[Word]:
    """Return the stretch whole where it lies over one column, else its words, each as wide as its share of letters."""
    left, top, right, bottom = word.box
    under = sum(left <= (begin + end) / 2 <= right for begin, end in columns)
    if under < 2 or " " not in word.text:
        return [word]
    step = (right - left) / len(word.text)
    parts, start = [], 0
    for text in word.text.split(" "):
        parts.append(Word(text, (left + start * step, top, left + (start + len(text)) * step, bottom)))
        start += len(text) + 1
    return parts


def _nearest(place: float, bands: Sequence[tuple[float, float]]) -> int:
    distances = [
        (max(begin - place, 0.0, place - end), abs((begin + end) / 2 - place)) if begin < inf else (inf, inf)
        for begin, end in bands
    ]
    return distances.index(min(distances))


def _nearest_box(box: Box, boxes: Sequence[Box]) -> int:
    x, y = _middle(box)
    distances = [abs(_middle(other)[0] - x) + _ROW_WEIGHT * abs(_middle(other)[1] - y) for other in boxes]
    return distances.index(min(distances))


def _share_inside(box: Box, other: Box) -> float:
    width = min(box[2], other[2]) - max(box[0], other[0])
    height = min(box[3], other[3]) - max(box[1], other[1])
    area = (box[2] - box[0]) * (box[3] - box[1])
    return width * height / area if width > 0 and height > 0 and area > 0 else 0.0


def _middle(box: Box) -> tuple[float, float]:
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def _around(words: Sequence[Word]) -> Box:
    boxes = [word.box for word in words]
    return (
        min(box[0] for box in boxes),
        min(box[1] for box in boxes),
        max(box[2] for box in boxes),
        max(box[3] for box in boxes),
    )


def _text(words: Sequence[Word]) -> str:
    """Return the words of a cell in reading order: line by line, from left to right."""
    return " ".join(word.text for line in _rows_of(words) for word in sorted(line, key=lambda word: word.box[0]))


def _rows_of(words: Sequence[Word]) -> list[list[Word]]:
    """Return the words that stand at one height together, from top to bottom."""
    rows: list[list[Word]] = []
    for word in sorted(words, key=lambda word: (_middle(word.box)[1], word.box[0])):
        if rows and _middle(word.box)[1] < rows[-1][0].box[3]:
            rows[-1].append(word)
        else:
            rows.append([word])
    return rows
