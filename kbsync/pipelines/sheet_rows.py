"""Shortens giant sheets of a workbook before they are read: what no chunk has room for need not be converted.

Docling keeps each cell as an object of 5 kB, and only the first chunks of a sheet are kept anyway.
"""

from __future__ import annotations

import re
import zipfile
from io import BytesIO
from typing import IO

# A filled cell is at least a bar and a word: two tokens. Of this many cells no piece of today's limits has room.
MOST_CELLS_A_SHEET = 130_000
MOST_CELLS = 260_000
_LEAST_CELLS_A_SHEET = 2_000
_BLOCK = 1 << 16
_SHEET = re.compile(r"xl/worksheets/[^/]+\.xml", re.IGNORECASE)
_FILLED = re.compile(rb"<(?:\w+:)?(?:v|is)[\s>]")
_ROW_END = re.compile(rb"</(?:\w+:)?row\s*>")
_ROWS_END = re.compile(rb"</(?:\w+:)?sheetData\s*>")


def first_rows(data: bytes, most_a_sheet: int = MOST_CELLS_A_SHEET, most: int = MOST_CELLS) -> tuple[bytes, bool]:
    """Return the workbook with no more rows than fill the limits (in filled cells), and whether any were left out.

    Sheets share `most` in the order of their files. `data` is an archive that was checked.
    """
    shortened: dict[str, bytes] = {}
    with zipfile.ZipFile(BytesIO(data)) as archive:
        left = most
        for member in archive.infolist():
            if _SHEET.fullmatch(member.filename):
                with archive.open(member) as stream:
                    sheet, cells = _first_rows(stream, max(_LEAST_CELLS_A_SHEET, min(left, most_a_sheet)))
                left -= cells
                if sheet is not None:
                    shortened[member.filename] = sheet
        return (_with(archive, shortened), True) if shortened else (data, False)


def _first_rows(stream: IO[bytes], most: int) -> tuple[bytes | None, int]:
    """Return the sheet up to the row in which the limit is reached, None where it is not, and its filled cells."""
    kept, cells, counted = bytearray(), 0, 0
    while cells <= most:
        block = stream.read(_BLOCK)
        if not block:
            return None, cells
        kept += block
        # What may go on in the next block is counted with it.
        upto = kept.rfind(b"<")
        cells += sum(1 for _ in _FILLED.finditer(kept, counted, max(counted, upto)))
        counted = max(counted, upto)
    begin = 0
    for row_end in _ROW_END.finditer(kept):
        begin = row_end.end()
    rest = _after_rows(stream, bytes(kept[counted:]))
    if begin == 0 or rest is None:
        return None, cells  # one row without end, or a damaged sheet: others judge it
    return bytes(kept[:begin]) + rest, cells


def _after_rows(stream: IO[bytes], rest: bytes) -> bytes | None:
    """Return what follows the rows, their end tag included."""
    while (end := _ROWS_END.search(rest)) is None:
        block = stream.read(_BLOCK)
        if not block:
            return None
        rest = rest[-100:] + block
    return rest[end.start() :] + stream.read()


def _with(archive: zipfile.ZipFile, replaced: dict[str, bytes]) -> bytes:
    written = BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as copy:
        for member in archive.infolist():
            copy.writestr(member.filename, replaced.get(member.filename) or archive.read(member))
    return written.getvalue()
