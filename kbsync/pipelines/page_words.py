"""The words of a region of a page and where they stand, letter by letter from the PDF: Docling's lines join columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import radians, sin
from typing import Any

import pypdfium2
from docling.backend.pypdfium2_backend import PyPdfiumPageBackend, _rect_to_display_frame
from docling.datamodel.base_models import Cluster, Page
from docling.utils.locks import pypdfium2_lock

from kbsync.pipelines.table_grid import Box, Word

# Shares of the height of a line. A gap so wide is between two columns, not between two words.
_COLUMN_GAP = 0.8
_WORD_GAP = 0.15
_LINE_SHIFT = 0.5
_TILTED = 0.5  # the sine of an angle from which a line counts as upright-standing
_raw: Any = pypdfium2.raw  # generated, without types


@dataclass(frozen=True, slots=True)
class _Letter:
    """A letter and where it stands; `upright` unless its line runs up or down the page, as in narrow headers."""

    text: str
    box: Box
    upright: bool


def words_in(page: Page, cluster: Cluster) -> list[Word]:
    """Return the stretches of text in a region, each on one line and in one column as far as gaps tell."""
    words: list[Word] = []
    if isinstance(page._backend, PyPdfiumPageBackend) and not any(cell.from_ocr for cell in cluster.cells):
        region = cluster.bbox
        inside = [
            letter
            for letter in _letters(page._backend)
            if region.l <= (letter.box[0] + letter.box[2]) / 2 <= region.r
            and region.t <= (letter.box[1] + letter.box[3]) / 2 <= region.b
        ]
        words = _joined(inside)
    if words:
        return words
    for cell in cluster.cells:
        if cell.text.strip():
            around = cell.rect.to_bounding_box()
            top, bottom = min(around.t, around.b), max(around.t, around.b)
            words.append(Word(" ".join(cell.text.split()), (around.l, top, around.r, bottom)))
    return words


def _letters(backend: PyPdfiumPageBackend) -> list[_Letter]:
    """Return the letters of a page in the order of the file, from its upper left corner, without white space."""
    size = backend.get_size()
    letters: list[_Letter] = []
    with pypdfium2_lock:
        page = backend._require_page()
        text_page = page.get_textpage()
        rotation, origin = page.get_rotation(), page.get_bbox()[:2]
        for number in range(text_page.count_chars()):
            # Loose boxes are as high as the line, so that a comma is on the line of its word.
            rect = text_page.get_charbox(number, loose=True)
            letter = text_page.get_text_range(number, 1)
            if rect[2] > rect[0] and rect[3] > rect[1] and letter.strip():
                left, bottom, right, top = _rect_to_display_frame(rect, rotation, size, origin)
                angle = _raw.FPDFText_GetCharAngle(text_page.raw, number)
                box = (left, size.height - top, right, size.height - bottom)
                letters.append(_Letter(letter, box, upright=abs(sin(angle + radians(rotation))) < _TILTED))
        text_page.close()
    return letters


def _joined(letters: Iterable[_Letter]) -> list[Word]:
    words: list[Word] = []
    upright = True
    for letter in letters:
        box = letter.box
        if words and letter.upright == upright:
            last = words[-1].box
            gap, shift, height = _between(last, box) if upright else _between(_on_its_side(last), _on_its_side(box))
            if shift < _LINE_SHIFT * height and -height < gap < _COLUMN_GAP * height:
                between = " " if gap > _WORD_GAP * height else ""
                around = (min(last[0], box[0]), min(last[1], box[1]), max(last[2], box[2]), max(last[3], box[3]))
                words[-1] = Word(words[-1].text + between + letter.text, around)
                continue
        words.append(Word(letter.text, box))
        upright = letter.upright
    return words


def _between(last: Box, box: Box) -> tuple[float, float, float]:
    """Return how far a letter is behind the last one and above or below it, and how high that one is."""
    ahead = max(box[0] - last[2], last[0] - box[2])
    return ahead, abs(box[1] + box[3] - last[1] - last[3]) / 2, max(last[3] - last[1], 0.1)


def _on_its_side(box: Box) -> Box:
    return box[1], box[0], box[3], box[2]
