"""How answers are printed: JSON as it is, tables and sentences with control characters made visible."""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from kbsync.interfaces.cli.exits import one_line, printable

Record = dict[str, Any]

# JSON lets these stand as they are, but a terminal acts on them: C1 controls and marks that turn the writing direction.
_STEERING = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")

# A word that a snippet marks; stars of the text itself (`**kwargs`) stand otherwise.
_MARKED = re.compile(r"\*\*([^\s*](?:[^*]*[^\s*])?)\*\*")


def print_json(record: Record) -> None:
    """Print a record as JSON, harmless on a terminal too."""
    text = json.dumps(record, ensure_ascii=False, indent=2)
    print(_STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def line(text: str = "") -> None:
    """Print a line for people; what is in it cannot make it two."""
    print(one_line(text))


def block(text: str) -> None:
    """Print lines for people."""
    print(printable(text))


def marked_line(text: str) -> None:
    """Print a line whose `**words**` are bold on a terminal and plain everywhere else."""
    terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    print(_MARKED.sub("\x1b[1m\\1\x1b[0m" if terminal else r"\1", one_line(text)))


def table(rows: Sequence[Sequence[object]], heads: Sequence[str]) -> None:
    """Print rows under their heads, columns aligned, the last one as long as it is."""
    cells = [list(heads), *([one_line(str(cell)) for cell in row] for row in rows)]
    widths = [max(_width(row[column]) for row in cells) for column in range(len(heads))]
    for row in cells:
        print("  ".join([*(row[i] + " " * (widths[i] - _width(row[i])) for i in range(len(row) - 1)), row[-1]]))


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes: Chinese characters take two, marks above others none."""
    return sum(
        0
        if unicodedata.category(character) in ("Mn", "Me", "Cf")
        else 2
        if unicodedata.east_asian_width(character) in ("W", "F")
        else 1
        for character in text
    )


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 chunk`, `2 chunks`."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def local(told: str, form: str = "%Y-%m-%d %H:%M") -> str:
    """Return a moment of an answer, which is in UTC, by the machine's own time."""
    return datetime.fromisoformat(told).astimezone().strftime(form)


def size(count: float) -> str:
    """Return a number of bytes for people."""
    units = ("B", "kB", "MB", "GB", "TB")
    power = 0
    while count >= 1000 and power < len(units) - 1:
        count, power = count / 1000, power + 1
    return f"{count:.0f} {units[power]}" if power == 0 else f"{count:.1f} {units[power]}"
