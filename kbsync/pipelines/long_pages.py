"""Pages and pictures much longer than wide: a web page in one screenshot, a till roll.

OCR shrinks what it looks at to a fixed size. Of a picture ten times as long as wide no letter is left then, and of one
a thousand times as wide as high the memory does not suffice. So long ones are read in strips, cut between their lines.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

# A page is read in one piece up to so many times its width; a sheet of paper has 1.4.
_LONGEST = 2.5
# A strip ends in the quietest place between so many times its width.
_EARLIEST, _LATEST = 1.0, 2.0
_LINE = 8  # rows of pixels; the place must be quiet over so many to lie between two lines and not inside one
# In pixels. Nothing that is less high or wide can be read, and a line is all that is a hundred times as long as wide.
_SMALLEST_SIDE = 8
_MOST_TIMES = 100


def has_room_for_text(width: float, height: float) -> bool:
    """Say whether there may be text in so many pixels, and not a ruled line only."""
    shorter, longer = sorted((width, height))
    return shorter >= _SMALLEST_SIDE and longer <= _MOST_TIMES * shorter


def is_long(width: float, height: float) -> bool:
    """Say whether it is read in strips."""
    return height > _LONGEST * width


def pages_worth(width: int, height: int) -> int:
    """Return as how many pages it counts where time is allowed for reading it."""
    return ceil(height / (_EARLIEST * width)) if has_room_for_text(width, height) and is_long(width, height) else 1


def strips(picture: Image) -> list[tuple[int, int]]:
    """Return (first row, row after the last) of the strips of a picture, from top to bottom, without overlap."""
    width, height = picture.size
    if not is_long(width, height):
        return [(0, height)]
    ink = np.asarray(picture.convert("L"), dtype=np.float32).std(axis=1)
    restless = np.convolve(ink, np.ones(_LINE) / _LINE, "same")
    found, top = [], 0
    while is_long(width, height - top):
        first, last = top + int(_EARLIEST * width), top + int(_LATEST * width)
        cut = first + int(restless[first:last].argmin())
        found.append((top, cut))
        top = cut
    return [*found, (top, height)]


def middle(width: float, height: float) -> tuple[float, float, float, float]:
    """Return (left, top, right, bottom) of the part by which a whole is judged, for a long or wide one its middle."""
    part_width, part_height = min(width, _LONGEST * height), min(height, _LONGEST * width)
    left, top = (width - part_width) / 2, (height - part_height) / 2
    return left, top, left + part_width, top + part_height
