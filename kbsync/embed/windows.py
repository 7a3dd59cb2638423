"""Cuts a text that is longer than the model reads into windows of about equal size that cover all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kbsync.embed.token_counter import encodable
from kbsync.model import TokenCounter

Span = tuple[int, int]


class Window(NamedTuple):
    """A part of a text, or all of it, and how many tokens it has."""

    text: str
    tokens: int


def readable(text: str) -> str:
    """Return what is embedded of a text: all of it that a tokenizer takes; of a blank one a space."""
    return encodable(text) if text.strip() else " "


def windows(text: str, counter: TokenCounter, max_tokens: int) -> list[Window]:
    """Return the text in parts of at most `max_tokens` tokens; joined, the parts are the text.

    The parts are about equal, so that none weighs more in their mean than it says. Only a single character that
    is more than `max_tokens` tokens stays too long.
    """
    finished: list[Window] = []
    waiting = [text]
    while waiting:
        part = waiting.pop()
        tokens = counter.count(part)
        edges = [0]
        if tokens > max_tokens:
            edges += cut_points(part, counter.spans(part), max_tokens)
        if len(edges) == 1:
            finished.append(Window(part, tokens))
            continue
        # A part that begins inside a word may have more tokens than were counted in the whole: it is looked at again.
        parts = [part[start:end] for start, end in zip(edges, [*edges[1:], len(part)], strict=True)]
        waiting.extend(reversed(parts))
    return finished


def cut_points(text: str, spans: Sequence[Span], max_tokens: int) -> list[int]:
    """Return the characters at which to cut, rising, neither end among them. Prefers the gaps between words."""
    # So far back a gap is looked for; parts are planned smaller by as much, so that they still fit.
    slack = max_tokens // 10
    count = -(-len(spans) // (max_tokens - slack))
    cuts: list[int] = []
    for number in range(1, count):
        planned = number * len(spans) // count
        near = range(planned, max(0, planned - slack), -1)
        index = next((index for index in near if _begins_word(text, spans, index)), planned)
        place = spans[index][0]
        if place > (cuts[-1] if cuts else 0):
            cuts.append(place)
    return cuts


def _begins_word(text: str, spans: Sequence[Span], index: int) -> bool:
    # Some tokenizers count the space before a word as a part of it.
    start = spans[index][0]
    return start > spans[index - 1][1] or text[start].isspace()
