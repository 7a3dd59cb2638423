"""Cuts a stretch of text into spans that fit: at paragraphs, then sentences or lines, then tokens; with overlap.

Spans are (start, end) in characters of the whole text, so nothing is lost or reworded and lines stay known.
Every stretch is counted once on each level that it reaches, never a growing text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from kbsync.pipelines.room import Size

Span = tuple[int, int]
Splitter = Callable[[str, int, int], Iterator[Span]]

# Each alternative is anchored by what stands before it, so that long runs of one character stay linear.
_SENTENCE_END = re.compile(
    r"(?<=[.!?…])\s+|(?<=[.!?…][\"'”’)\]])\s+"
    r"|(?<=[。！？｡])(?![。！？｡」』”’）])|(?<=[。！？｡][」』”’）])|(?<=．)(?![\d．」』”’）])"
)
_VISIBLE = re.compile(r"\S")
_LINES_LOOKED_AT = 50
_FLOWING_SHARE = 0.3  # of hard-wrapped prose about two thirds of the lines begin in lower case
_WINDOW = 65_536  # characters tokenized at once where only tokens are left to cut at


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch that is better not cut. `tokens` is None where it is too long to be counted."""

    start: int
    end: int
    tokens: int | None


@dataclass(frozen=True, slots=True)
class _Atom:
    """A stretch that fits. `loose` ones may share a piece with their neighbours; `line`: overlap is of whole lines."""

    start: int
    end: int
    tokens: int
    loose: bool
    line: bool = False


def measured(text: str, spans: Iterable[Span], size: Size) -> Iterator[Block]:
    """Count each span, once."""
    for start, end in spans:
        yield Block(start, end, size.measure(text[start:end]))


def paragraphs(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the stretches between blank lines, each from the beginning of its first line."""
    first: int | None = None
    last = start
    for line_start, line_end in lines(text, start, end, blank=True):
        if _VISIBLE.search(text, line_start, line_end):
            first = line_start if first is None else first
            last = line_end
        elif first is not None:
            yield first, last
            first = None
    if first is not None:
        yield first, last


def lines(text: str, start: int, end: int, *, blank: bool = False) -> Iterator[Span]:
    """Yield each line without its line break; blank ones only when asked."""
    while start < end:
        stop = text.find("\n", start, end)
        stop = end if stop == -1 else stop
        if blank or _VISIBLE.search(text, start, stop):
            yield start, stop
        start = stop + 1


def sentences(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield each sentence; full stops of Chinese and Japanese need no space behind them."""
    for match in _SENTENCE_END.finditer(text, start, end):
        if match.start() > start and _VISIBLE.search(text, start, match.start()):
            yield start, match.start()
            start = match.end()
    if start < end and _VISIBLE.search(text, start, end):
        yield start, end


def flows(text: str, start: int, end: int) -> bool:
    """Say whether the line breaks of a paragraph mean nothing: it is one line, or prose wrapped by hand."""
    begun = [text[line : line + 1] for line, _ in islice(lines(text, start, end), 1, _LINES_LOOKED_AT)]
    return not begun or sum(char.islower() for char in begun) >= _FLOWING_SHARE * len(begun)


def cut(text: str, blocks: Iterable[Block], size: Size, *, by_line: bool = False) -> Iterator[Span]:
    """Yield spans of whole blocks, and of parts of those that do not fit; each within the size, overlap included.

    `by_line`: line breaks mean something everywhere (code, data); sentences are no place to cut.
    """
    start = end = used = 0
    loose = False
    for atom in _atoms(text, blocks, size, by_line=by_line):
        together = used + size.joint + atom.tokens
        if loose and atom.loose and size.fits(together, atom.end - start):
            end, used = atom.end, together
            continue
        if used or end:
            yield start, end
        start, used = _begin(text, (start, end, used), atom, size)
        end, loose = atom.end, atom.loose
    if end:
        yield start, end


def _begin(text: str, before: tuple[int, int, int], atom: _Atom, size: Size) -> tuple[int, int]:
    """Return where the piece that begins with this atom starts, in the end of the one before it, and its tokens."""
    previous_start, previous_end, previous_tokens = before
    most = min(size.overlap, size.tokens - atom.tokens - size.joint, previous_tokens // 2)
    if most <= 0:
        return atom.start, atom.tokens
    start = _tail(text, previous_start, previous_end, most, size, by_line=atom.line)
    if start is None or atom.end - start > size.characters:
        return atom.start, atom.tokens
    # Only here do two counted stretches share a word or a joint that nobody counted.
    tokens = size.counter.count(text[start : atom.end])
    return (start, tokens) if tokens <= size.tokens else (atom.start, atom.tokens)


def _tail(text: str, start: int, end: int, tokens: int, size: Size, *, by_line: bool) -> int | None:
    """Return where the last sentences, lines or words of a stretch begin that have at most so many tokens."""
    window = max(start, end - 12 * tokens)
    spans = size.counter.spans(text[window:end])
    first = window if len(spans) <= tokens else window + spans[len(spans) - tokens][0]
    if by_line:
        line_break = text.find("\n", max(start, first - 1), end)
        return line_break + 1 if start <= line_break < end - 1 else None
    ends = (match.end() for match in _SENTENCE_END.finditer(text, max(start, first - 2), end))
    sentence = next((place for place in ends if first <= place < end), None)
    if sentence is not None:
        return sentence
    word = next((place for place in range(first, end) if _is_word_start(text, place)), None)
    return word if word is not None and word > start else None


def _is_word_start(text: str, place: int) -> bool:
    return not text[place].isspace() and (text[place - 1].isspace() or "\u3000" <= text[place] <= "\u9fff")


def _atoms(text: str, blocks: Iterable[Block], size: Size, *, by_line: bool) -> Iterator[_Atom]:
    for block in blocks:
        if block.tokens is not None and block.tokens <= size.tokens:
            yield _Atom(block.start, block.end, block.tokens, loose=True, line=by_line)
            continue
        splitters: tuple[Splitter, ...] = (lines,)
        if not by_line:
            splitters = (sentences, lines) if flows(text, block.start, block.end) else (lines, sentences)
        yield from _finer(text, block.start, block.end, size, splitters, line=splitters[0] is lines)


def _finer(
    text: str, start: int, end: int, size: Size, splitters: tuple[Splitter, ...], *, line: bool
) -> Iterator[_Atom]:
    if not splitters:
        yield from _by_tokens(text, start, end, size)
        return
    for first, last in splitters[0](text, start, end):
        tokens = size.measure(text[first:last])
        if tokens is not None and tokens <= size.tokens:
            yield _Atom(first, last, tokens, loose=True, line=line)
        else:
            yield from _finer(text, first, last, size, splitters[1:], line=False)


def _by_tokens(text: str, start: int, end: int, size: Size) -> Iterator[_Atom]:
    """Cut what has no better place to cut at. Each atom leaves room for the overlap and is counted by itself."""
    step = max(1, size.tokens - size.overlap)
    place = start
    while place < end:
        base = place
        window_end = min(end, base + max(_WINDOW, 2 * size.characters))
        begins = [first for first, _ in size.counter.spans(text[base:window_end])]
        while place < window_end:
            after = bisect_left(begins, place - base) + step
            stop = min(base + begins[after] if after < len(begins) else window_end, place + size.characters)
            if stop >= window_end and window_end < end and place > base:
                break  # the next window begins here, to see what follows
            stop = max(place + 1, stop)
            if stop < end:
                stop = _good_end(text, place, stop)
            stop, tokens = _fitting(text, place, stop, size)
            if _VISIBLE.search(text, place, stop):
                yield _Atom(place, stop, tokens, loose=False)
            place = stop


def _good_end(text: str, start: int, stop: int) -> int:
    """Return the place behind the last white space of the second half, else behind a mark of the last quarter."""
    if text[stop : stop + 1].isspace():
        return stop
    for marks, share in ((" \t\n", 2), (",;}])>、，；", 4)):
        best = max(text.rfind(mark, stop - (stop - start) // share, stop) for mark in marks)
        if best > start:
            return best + 1
    return stop


def _fitting(text: str, start: int, stop: int, size: Size) -> tuple[int, int]:
    """Shrink until it fits: a word cut in two may have more tokens than its part of the whole had."""
    tokens = size.counter.count(text[start:stop])
    while tokens > size.tokens and stop - start > 1:
        stop = start + max(1, (stop - start) * 3 // 4)
        tokens = size.counter.count(text[start:stop])
    return stop, tokens
