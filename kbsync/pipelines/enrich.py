"""The text that is indexed and embedded: a piece under its document's title and its section."""

from __future__ import annotations

from kbsync.model import Chunk, JsonValue, Parsed, Piece, TokenCounter


def enriched_text(title: str, section_header: str | None, text: str) -> str:
    """Return `title > section header`, an empty line and the text; without a header just the title."""
    head = f"{title} > {section_header}" if section_header else title
    return f"{head}\n\n{text}"


def make_chunks(parsed: Parsed, title: str, counter: TokenCounter) -> tuple[Chunk, ...]:
    """Return the document's chunks in order, positions from 0, each enriched and counted."""
    return tuple(_chunk(position, piece, title, counter) for position, piece in enumerate(parsed.pieces))


def _chunk(position: int, piece: Piece, title: str, counter: TokenCounter) -> Chunk:
    enriched = enriched_text(title, piece.section_header, piece.text)
    return Chunk(position, piece.text, enriched, _metadata(piece), counter.count(enriched))


def _metadata(piece: Piece) -> dict[str, JsonValue]:
    lines = None if piece.first_line is None else [piece.first_line, piece.last_line or piece.first_line]
    known: dict[str, JsonValue] = {"section_header": piece.section_header, "kind": piece.kind, "lines": lines}
    return {key: value for key, value in {**known, **piece.metadata}.items() if value is not None}
