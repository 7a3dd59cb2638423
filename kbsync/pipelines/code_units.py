"""The parts that a programming language gives a file, and the pieces made of them; every line is in one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kbsync.model import Piece
from kbsync.pipelines.cutting import cut, measured, paragraphs
from kbsync.pipelines.draft import piece_of
from kbsync.pipelines.lines import Lines
from kbsync.pipelines.parts import Frame, parts
from kbsync.pipelines.room import Room, Size


@dataclass(frozen=True, slots=True)
class Unit:
    """A function, method or what is left of a class, with its decorators and the comments above it.

    `contexts` are texts to put in front (the class' signature and docstring), the best first, shorter ones after it.
    `signature` is repeated where the unit has to be cut.
    """

    first_line: int
    last_line: int
    kind: str
    name: str
    contexts: tuple[str, ...] = ()
    signature: str = ""


def with_comments(lines: Lines, first_line: int, after_line: int, comment: str) -> int:
    """Return the first line of the comment block right above a line, at the earliest the one after `after_line`."""
    while first_line - 1 > after_line and lines.line(first_line - 1).lstrip().startswith(comment):
        if lines.line(first_line - 1).startswith("#!"):
            break
        first_line -= 1
    return first_line


def covering(lines: Lines, pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield the pieces, blank lines between them counted to the piece above, so that every line is in one."""
    held: Piece | None = None
    for piece in pieces:
        if held is None:
            held = replace(piece, first_line=1)
            continue
        yield replace(held, last_line=max(held.last_line or 1, (piece.first_line or 1) - 1))
        held = piece
    if held is not None:
        yield replace(held, last_line=len(lines))


def unit_pieces(lines: Lines, units: Iterable[Unit], room: Room) -> Iterator[Piece]:
    """Yield the pieces of all units and of the lines between them."""
    next_line = 1
    for unit in units:
        yield from _rest(lines, next_line, unit.first_line - 1, room)
        yield from _unit(lines, unit, room)
        next_line = unit.last_line + 1
    yield from _rest(lines, next_line, len(lines), room)


def _rest(lines: Lines, first_line: int, last_line: int, room: Room) -> Iterator[Piece]:
    """Yield the lines of the module itself, which belong to no unit."""
    if first_line > last_line:
        return
    size = replace(room.size(None), overlap=0)
    start, end = lines.start(first_line), lines.end(last_line)
    blocks = measured(lines.text, paragraphs(lines.text, start, end), size)
    for first, last in cut(lines.text, blocks, size, by_line=True):
        yield piece_of(lines, first, last, "module")


def _unit(lines: Lines, unit: Unit, room: Room) -> Iterator[Piece]:
    header = room.header((unit.name,))
    size = room.size(header)
    whole = lines.start(unit.first_line), lines.end(unit.last_line)
    text = lines.text[slice(*whole)].rstrip()
    contexts = unit.contexts if room.limits.include_context else ()
    tokens = size.measure(text)
    if tokens is not None and tokens <= size.tokens:
        context = _context(contexts, size, tokens)
        if context is not None:
            shown = f"{context}\n{text}" if context else text
            yield Piece(shown, unit.kind, header, unit.first_line, unit.last_line)
            return
    frame = _frame(contexts, unit.signature, size)
    for part in parts(lines.text, whole, whole, frame, size, room.limits.max_chunks + 1):
        metadata = {"part": part.number} if part.number else {}
        first_line, last_line = lines.at(part.start), lines.at(max(part.start, part.end - 1))
        yield Piece(part.text, unit.kind, header, first_line, last_line, metadata)


def _context(contexts: tuple[str, ...], size: Size, tokens: int) -> str | None:
    """Return the fullest context that fits beside a text of so many tokens, None where there are some and none fits."""
    for context in contexts:
        cost = size.measure(context)
        if cost is not None and cost + size.joint + tokens <= size.tokens:
            return context
    return None if contexts else ""


def _frame(contexts: tuple[str, ...], signature: str, size: Size) -> Frame:
    """Return the fullest frame that leaves each part half of its room; of a long signature it has the first line."""
    for shown in dict.fromkeys((signature, signature.partition("\n")[0])):
        for context in (*contexts, ""):
            before = "\n".join(text for text in (context, shown) if text)
            frame = Frame(before=before, first=context)
            if frame.tokens(size) is not None:
                return frame
    return Frame()
