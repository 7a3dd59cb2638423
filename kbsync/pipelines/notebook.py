"""Jupyter notebooks: Markdown and code cells as one Markdown text; outputs are left out."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kbsync.errors import SkipFile
from kbsync.model import Piece
from kbsync.pipelines.decode import paired
from kbsync.pipelines.draft import Draft
from kbsync.pipelines.markdown import read_markdown
from kbsync.pipelines.room import Room
from kbsync.pipelines.text import read_data
from kbsync.reasons import Reason

_CELLS = re.compile(r'"cells"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_BACKTICKS = re.compile(r"`{3,}")


@dataclass(frozen=True, slots=True)
class _Cell:
    kind: str
    source: str


def read_notebook(text: str, *, cut: bool) -> Draft:
    """Return the cells' text as Markdown; pieces name their cells (from 1), not the lines of the file.

    `cut`: the text ends in the middle; then the whole cells before are read. What is no notebook is read as data.
    Raises SkipFile(EMPTY) for a notebook without text.
    """
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError):
        cells = list(_whole_cells(text)) if cut else []
        language = "python"
        if not cells:
            return read_data(text)
    else:
        found = _cell_list(notebook)
        if found is None:
            return read_data(text)
        language = _language(notebook)
        cells = [cell for item in found if (cell := _cell(item)) is not None]
    if not any(cell.source.strip() for cell in cells):
        raise SkipFile(Reason.EMPTY, "No cell of this notebook has text.", hint="It is read when it is filled.")
    return _draft(cells, language)


def _draft(cells: list[_Cell], language: str) -> Draft:
    rows: list[str] = []
    starts: list[int] = []
    line = 1
    for cell in cells:
        shown = _shown(cell, language)
        starts.append(line)
        rows.append(shown)
        line += shown.count("\n") + 2
    draft = read_markdown("\n\n".join(rows))

    def pieces(room: Room) -> Iterator[Piece]:
        for piece in draft.cut(room):
            first, last = (bisect_right(starts, number or 1) for number in (piece.first_line, piece.last_line))
            yield replace(piece, first_line=None, last_line=None, metadata={**piece.metadata, "cells": [first, last]})

    return Draft(cut=pieces, title=draft.title, language=language, metadata=draft.metadata)


def _shown(cell: _Cell, language: str) -> str:
    if cell.kind != "code":
        return cell.source
    fence = "`" * max([3, *(len(run) + 1 for run in _BACKTICKS.findall(cell.source))])
    return f"{fence}{language}\n{cell.source}\n{fence}"


def _cell_list(notebook: object) -> list[object] | None:
    """Return the cells of a notebook of format 4, or of 3 and older, where they are in worksheets."""
    if not isinstance(notebook, dict):
        return None
    if isinstance(notebook.get("cells"), list):
        return list(notebook["cells"])
    sheets = notebook.get("worksheets")
    if not isinstance(sheets, list):
        return None
    lists = (sheet.get("cells") for sheet in sheets if isinstance(sheet, dict))
    return [cell for cells in lists if isinstance(cells, list) for cell in cells]


def _cell(item: object) -> _Cell | None:
    if not isinstance(item, dict):
        return None
    source = _joined(item.get("source", item.get("input", "")))
    kind = str(item.get("cell_type", "raw"))
    if kind == "heading":  # format 3
        level = item.get("level")
        source = f"{'#' * (level if isinstance(level, int) and 0 < level < 7 else 1)} {source}"
    return _Cell(kind, paired(source).replace("\x00", "").replace("\r\n", "\n")) if source.strip() else None


def _joined(source: object) -> str:
    if isinstance(source, Iterable) and not isinstance(source, str | dict):
        return "".join(part for part in source if isinstance(part, str))
    return source if isinstance(source, str) else ""


def _language(notebook: object) -> str:
    """Return the kernel's language; a notebook that names none is Python."""
    metadata = notebook.get("metadata") if isinstance(notebook, dict) else None
    for key, name in (("kernelspec", "language"), ("language_info", "name")):
        values = metadata.get(key) if isinstance(metadata, dict) else None
        language = values.get(name) if isinstance(values, dict) else None
        if isinstance(language, str) and re.fullmatch(r"[\w+#.-]{1,30}", language):
            return language.lower()
    return "python"


def _whole_cells(text: str) -> Iterator[_Cell]:
    """Yield the cells of a notebook that ends in the middle, up to the first one that is not whole."""
    begin = _CELLS.search(text)
    if begin is None:
        return
    decoder = json.JSONDecoder()
    place = begin.end()
    while True:
        between = _BETWEEN.match(text, place)
        place = between.end() if between else place
        try:
            item, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            return
        cell = _cell(item)
        if cell is not None:
            yield cell
