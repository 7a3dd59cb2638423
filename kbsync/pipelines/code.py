"""Source code: by the parts of its language where they are known, else at lines."""

from __future__ import annotations

from collections.abc import Iterator

from kbsync.model import Piece
from kbsync.pipelines.code_units import Unit, covering, unit_pieces
from kbsync.pipelines.draft import Draft
from kbsync.pipelines.go_code import go_units
from kbsync.pipelines.lines import Lines
from kbsync.pipelines.python_code import python_units
from kbsync.pipelines.room import Room
from kbsync.pipelines.shell_code import shell_units
from kbsync.pipelines.text import cut_plain


def read_code(text: str, language: str | None) -> Draft:
    """Return how to cut a source file. It names no title."""

    def pieces(room: Room) -> Iterator[Piece]:
        lines = Lines(text)
        units = _units(lines, language)
        found = unit_pieces(lines, units, room) if units else cut_plain(lines, room, "module", by_line=True)
        return covering(lines, found)

    return Draft(cut=pieces, language=language)


def _units(lines: Lines, language: str | None) -> list[Unit]:
    """Return the definitions of a file, none where the language is not known or the file does not parse."""
    if language == "python":
        return python_units(lines) or []
    if language == "bash":
        return shell_units(lines)
    if language == "go":
        return go_units(lines)
    return []
