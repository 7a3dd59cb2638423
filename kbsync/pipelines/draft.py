"""What a pipeline knows of a text before it is cut: its title and how to cut it once the room is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kbsync.model import Metadata, Piece
from kbsync.pipelines.lines import Lines
from kbsync.pipelines.room import Room


@dataclass(frozen=True, slots=True)
class Draft:
    """`cut` yields the pieces in order and lazily, so that nobody counts the tokens of pieces past the limit."""

    cut: Callable[[Room], Iterator[Piece]]
    title: str | None = None
    language: str | None = None
    metadata: Metadata = field(default_factory=dict)
    # Something was left out before the cutting.
    truncated: bool = False
    # No more pieces than this are wanted, where the pipeline has a limit of its own.
    most_pieces: int | None = None


def piece_of(lines: Lines, start: int, end: int, kind: str, section_header: str | None = None) -> Piece:
    """Return the piece of a span, with the indentation of its first line and the numbers of its lines."""
    text = lines.text[start:end].rstrip().lstrip("\n")
    return Piece(text, kind, section_header, lines.at(start), lines.at(max(start, end - 1)))
