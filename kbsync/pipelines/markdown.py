"""Markdown: cut at `#`, `##` and `###`, small sections merged with the next, long ones cut at paragraphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from kbsync.model import JsonValue, Piece
from kbsync.pipelines.cutting import Block, cut
from kbsync.pipelines.draft import Draft, piece_of
from kbsync.pipelines.front_matter import read_front_matter
from kbsync.pipelines.lines import Lines
from kbsync.pipelines.markdown_blocks import Header, Stretch, scan
from kbsync.pipelines.parts import Frame, parts
from kbsync.pipelines.room import Room, Size


@dataclass(frozen=True, slots=True)
class _Section:
    """Text under a header. `first_line` is that of the headers above it that have no text of their own.

    `shown_from` is where the text begins when its headers are shown: `first_line`, without the document's title.
    `homeless`: one of those headers is no ancestor, so that only the text can show it.
    """

    chain: tuple[str, ...]
    first_line: int
    shown_from: int
    homeless: bool
    stretches: tuple[Stretch, ...]

    @property
    def body_line(self) -> int:
        return self.stretches[0].first_line


@dataclass(frozen=True, slots=True)
class _Measured:
    """A section and its blocks, in step with its stretches. The blocks past the first tokens are counted when used.

    `tokens` are those of the first blocks, enough to know whether the section is small.
    """

    section: _Section
    blocks: Iterator[Block]
    tokens: int


def read_markdown(text: str) -> Draft:
    """Return the title (front matter, else the first `#`), the front matter and how to cut the rest."""
    lines = Lines(text)
    front = read_front_matter(lines)
    found = tuple(scan(lines, front.last_line + 1))
    if not found:  # nothing but front matter: then that is the text
        front = replace(front, last_line=0)
        found = (Stretch("prose", 1, len(lines)),)
    tops = [item for item in found if isinstance(item, Header) and item.level == 1]
    named = _text(front.values, "title")
    title = named or (tops[0].title if tops else None)
    front_lines = (Stretch("prose", 1, front.last_line),) if named and front.last_line else ()
    alone = tops[0] if len(tops) == 1 and tops[0].title == title else None

    def pieces(room: Room) -> Iterator[Piece]:
        # A title that had to be cut, or gave way to one set by hand, stays in the text in full.
        shown_elsewhere = alone if alone and alone.title == room.title else None
        hidden = front_lines if named and " ".join(named.split()) != room.title else ()
        return _pieces(lines, _sections((*hidden, *found), alone, shown_elsewhere), room)

    return Draft(cut=pieces, title=title, metadata=front.values)


def _text(values: Mapping[str, JsonValue], key: str) -> str | None:
    value = values.get(key)
    return value if isinstance(value, str) and value.strip() else None


def _sections(found: Iterable[Header | Stretch], alone: Header | None, hidden: Header | None) -> list[_Section]:
    """Group stretches under their headers. `alone`: the only `#`, which is in no chain; `hidden`: and in no text."""
    sections: list[_Section] = []
    waiting: list[Header] = []  # headers without text so far
    stack: list[Header] = []
    body: list[Stretch] = []

    def close() -> None:
        if body:
            sections.append(_section(stack, waiting, hidden, body, first=not sections))
            waiting.clear()
            body.clear()

    for item in found:
        if isinstance(item, Stretch):
            body.append(item)
        elif item is alone and (body or sections or item is not hidden):
            body.append(Stretch("prose", item.first_line, item.last_line))
        else:
            close()
            waiting.append(item)
            if item is not alone:
                stack = [*(header for header in stack if header.level < item.level), item]
    close()
    return _with_last_headers(sections, waiting, hidden)


def _section(
    stack: list[Header], waiting: list[Header], hidden: Header | None, body: list[Stretch], *, first: bool
) -> _Section:
    shown = [header for header in waiting if header is not hidden]
    begin = body[0].first_line
    return _Section(
        chain=tuple(header.title for header in stack),
        first_line=1 if first else min([begin, *(header.first_line for header in waiting)]),
        shown_from=min([begin, *(header.first_line for header in shown)]),
        homeless=any(header not in stack for header in shown),
        stretches=tuple(body),
    )


def _with_last_headers(sections: list[_Section], waiting: list[Header], hidden: Header | None) -> list[_Section]:
    """Give headers at the end without text to the last section, so that their words are found."""
    if not waiting:
        return sections
    shown = [header for header in waiting if header is not hidden or not sections]
    last = [Stretch("prose", header.first_line, header.last_line) for header in shown]
    if not last:
        return sections
    if sections:
        return [*sections[:-1], replace(sections[-1], stretches=(*sections[-1].stretches, *last))]
    return [_Section((), 1, last[0].first_line, False, tuple(last))]


def _pieces(lines: Lines, sections: Iterable[_Section], room: Room) -> Iterator[Piece]:
    """Merge sections below `min_tokens` with the next one; the last one stays alone."""
    size = room.size(None)
    group: list[_Measured] = []
    for section in sections:
        group.append(_measured(lines, section, size, room.limits.min_tokens))
        if sum(member.tokens for member in group) >= room.limits.min_tokens:
            yield from _group(lines, group, room)
            group = []
    if group:
        yield from _group(lines, group, room)


def _measured(lines: Lines, section: _Section, size: Size, enough: int) -> _Measured:
    rest = (_block(lines, stretch.first_line, stretch.last_line, size) for stretch in section.stretches)
    counted: list[Block] = []
    tokens = 0
    for block in rest:
        counted.append(block)
        tokens += enough if block.tokens is None else block.tokens
        if tokens >= enough:
            break
    return _Measured(section, chain(counted, rest), tokens)


def _block(lines: Lines, first_line: int, last_line: int, size: Size) -> Block:
    start, end = lines.start(first_line), lines.end(last_line)
    return Block(start, end, size.measure(lines.text[start:end]))


def _group(lines: Lines, group: list[_Measured], room: Room) -> Iterator[Piece]:
    """Yield the pieces of merged sections; the first one begins at the first header's line."""
    last = group[-1].section
    common = _common_chain([member.section.chain for member in group])
    header, last_header = room.header(common), room.header(last.chain)
    whole = header == (" > ".join(common) or None)
    with_headers = len(group) > 1 or group[0].section.homeless or not whole
    size = room.size(header, last_header)
    last_start = lines.start(last.body_line)
    items = _items(lines, group, size, with_headers=with_headers)
    for index, piece in enumerate(_cut_items(lines, items, size, header, room.limits.max_chunks + 1)):
        if index == 0:
            yield replace(piece, first_line=group[0].section.first_line)
        elif lines.start(piece.first_line or 1) >= last_start:
            yield replace(piece, section_header=last_header)
        else:
            yield piece


def _common_chain(chains: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the last section's chain where all others are its ancestors, else what all have in common."""
    last = chains[-1]
    if all(headers == last[: len(headers)] for headers in chains):
        return last
    common = 0
    while common < len(last) and all(headers[common : common + 1] == (last[common],) for headers in chains):
        common += 1
    return last[:common]


def _items(lines: Lines, group: list[_Measured], size: Size, *, with_headers: bool) -> Iterator[tuple[Stretch, Block]]:
    """Yield each stretch with its block; shown headers go together with the text that follows them."""
    for member in group:
        section = member.section
        pairs = zip(section.stretches, member.blocks, strict=True)
        if with_headers and section.shown_from < section.body_line:
            headers = _block(lines, section.shown_from, section.body_line - 1, size)
            first, block = next(pairs)
            if first.kind == "prose" and headers.tokens is not None and block.tokens is not None:
                tokens = headers.tokens + size.joint + block.tokens
                yield replace(first, first_line=section.shown_from), Block(headers.start, block.end, tokens)
            else:
                yield Stretch("prose", section.shown_from, section.body_line - 1), headers
                yield first, block
        yield from pairs


def _cut_items(
    lines: Lines, items: Iterable[tuple[Stretch, Block]], size: Size, header: str | None, most: int
) -> Iterator[Piece]:
    """Pack what fits, in order; a fence or table that does not fit becomes parts."""
    items = iter(items)
    too_long: list[Stretch] = []

    def run() -> Iterator[Block]:
        for stretch, block in items:
            if stretch.kind != "prose" and (block.tokens is None or block.tokens > size.tokens):
                too_long.append(stretch)
                return
            yield block

    while True:
        yield from _prose(lines, run(), size, header)
        if not too_long:
            return
        yield from _parts(lines, too_long.pop(), size, header, most)


def _prose(lines: Lines, run: Iterable[Block], size: Size, header: str | None) -> Iterator[Piece]:
    for start, end in cut(lines.text, run, size):
        yield piece_of(lines, start, end, "section", header)


def _parts(lines: Lines, stretch: Stretch, size: Size, header: str | None, most: int) -> Iterator[Piece]:
    first, last = stretch.first_line, stretch.last_line
    opening = lines.line(first)
    if stretch.kind == "fence":
        closing = lines.line(last) if stretch.closed else ""
        frame = Frame(before=opening, after=closing)
        body = lines.start(first + 1), lines.start(last) if closing else lines.end(last)
    else:
        frame = Frame(before=f"{opening}\n{lines.line(first + 1)}")
        body = lines.start(first + 2), lines.end(last)
    whole = lines.start(first), lines.end(last)
    kind = "code" if stretch.kind == "fence" else "table"
    for part in parts(lines.text, whole, body, frame, size, most):
        metadata = {"part": part.number} if part.number else {}
        first_line, last_line = lines.at(part.start), lines.at(max(part.start, part.end - 1))
        yield Piece(part.text, kind, header, first_line, last_line, metadata)
