"""How much text a chunk may hold under its title and section header, in tokens and characters."""

from __future__ import annotations

from dataclasses import dataclass

from kbsync.model import ChunkLimits, TokenCounter
from kbsync.pipelines.enrich import enriched_text

# A word that the tokenizer does not know is one token however long it is; without this a line of 10 MB is one chunk.
MOST_CHARACTERS_PER_TOKEN = 32
# The text gets about half of a chunk at least.
TITLE_SHARE = 4
HEADER_SHARE = 4
ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class Size:
    """The limits of one piece's text. `joint` is what a line break between two texts costs beyond their own tokens."""

    tokens: int
    characters: int
    overlap: int
    joint: int
    counter: TokenCounter

    def fits(self, tokens: int, characters: int) -> bool:
        return tokens <= self.tokens and characters <= self.characters

    def measure(self, text: str) -> int | None:
        """Return a text's tokens, None where it is too long to be worth counting."""
        return self.counter.count(text) if len(text) <= self.characters else None

    def less(self, tokens: int) -> Size:
        """Return what is left beside something repeated of so many tokens, without overlap."""
        left = max(1, self.tokens - tokens - self.joint)
        return Size(left, self.characters, 0, self.joint, self.counter)


class Room:
    """The limits of one document: knows its title, which is part of every chunk, cut where it would fill it."""

    def __init__(self, title: str, limits: ChunkLimits, counter: TokenCounter) -> None:
        self.title = clipped_title(title, limits, counter)
        self.limits = limits
        self.counter = counter
        self._word = counter.count("a")
        self._joint = max(0, *(counter.count(f"a{gap}a") - 2 * self._word for gap in ("\n", "\n\n", "\n    ")))
        self._heads: dict[str | None, int] = {}

    def size(self, *section_headers: str | None) -> Size:
        """Return how long a text may be under any of these headers."""
        head = max(self._head(header) for header in section_headers)
        tokens = max(1, self.limits.max_tokens - head)
        overlap = min(self.limits.overlap_tokens, tokens // 3)
        return Size(tokens, self.limits.max_tokens * MOST_CHARACTERS_PER_TOKEN, overlap, self._joint, self.counter)

    def header(self, chain: tuple[str, ...]) -> str | None:
        """Return the chain `A > B`; one that would leave no room for text is cut down to the end of its last part."""
        if not chain:
            return None
        whole = " > ".join(chain)
        most = self.limits.max_tokens // HEADER_SHARE
        if len(whole) <= most * MOST_CHARACTERS_PER_TOKEN and self.counter.count(whole) <= most:
            return whole
        return clipped(chain[-1], most, self.counter)

    def _head(self, section_header: str | None) -> int:
        if section_header not in self._heads:
            self._heads[section_header] = (
                self.counter.count(enriched_text(self.title, section_header, "a")) - self._word
            )
        return self._heads[section_header]


def clipped_title(title: str, limits: ChunkLimits, counter: TokenCounter) -> str:
    """Return a title on one line that leaves room for text in every chunk."""
    return clipped(" ".join(title.split()), limits.max_tokens // TITLE_SHARE, counter)


def clipped(text: str, tokens: int, counter: TokenCounter) -> str:
    """Return a text of at most so many tokens, an ellipsis in place of what is left out."""
    head = text[: tokens * MOST_CHARACTERS_PER_TOKEN]
    spans = counter.spans(head)
    if len(spans) <= tokens and len(head) == len(text):
        return text
    keep = max(1, tokens - 2)
    while keep > 0:
        end = spans[keep - 1][1] if keep <= len(spans) else len(head)
        short = head[:end].rstrip() + ELLIPSIS
        if counter.count(short) <= tokens:
            return short
        keep -= max(1, keep // 4)
    return ELLIPSIS
