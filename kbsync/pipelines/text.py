"""Plain text, logs and data files: fixed size, cut at paragraphs, sentences and lines, with overlap."""

from __future__ import annotations

from collections.abc import Iterator

from kbsync.model import Piece
from kbsync.pipelines.cutting import cut, measured, paragraphs
from kbsync.pipelines.draft import Draft, piece_of
from kbsync.pipelines.lines import Lines
from kbsync.pipelines.room import Room


def read_text(text: str) -> Draft:
    """Return how to cut a text without structure. It names no title."""
    return Draft(cut=lambda room: cut_plain(Lines(text), room, "text"))


def read_data(text: str) -> Draft:
    """Return how to cut JSON, XML or YAML: at lines only, a sentence means nothing there."""
    return Draft(cut=lambda room: cut_plain(Lines(text), room, "data", by_line=True))


def cut_plain(lines: Lines, room: Room, kind: str, *, by_line: bool = False) -> Iterator[Piece]:
    """Yield the pieces of a whole text in order."""
    size = room.size(None)
    blocks = measured(lines.text, paragraphs(lines.text, 0, len(lines.text)), size)
    for start, end in cut(lines.text, blocks, size, by_line=by_line):
        yield piece_of(lines, start, end, kind)
