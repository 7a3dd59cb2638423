"""The part of a chunk to show for a query, its matched words marked."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from kbsync.store import tokenizer

_MARK = "**"
_CUT = "…"
_MAX_TERMS = 128
_MAX_TERM_WORDS = 64
_MAX_CHARACTERS = 20_000  # of a text; a chunk is far smaller

# Colours, titles and the like of terminals; no repeat runs over the next escape, so that time stays linear.
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]?|[\]PX^_](?:[^\x07\x1b]{0,1024}(?:\x07|\x1b\\))?|[ -/]*[0-~]?)|\x9b[0-?]*[ -/]*[@-~]"
)
_KEPT_FORMATS = frozenset("\u200c\u200d")  # joiners: Persian and Indic words and emoji need them
_SENTENCE_END = re.compile(r"[.!?][\"')\]*]*(?= )|[。！？；][」』”）]*")

_Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Needle:
    """One way to find a term: stems that follow each other; of a prefix the last one is the beginning of a token."""

    term: int
    stems: tuple[str, ...]
    prefix: bool


@dataclass(frozen=True, slots=True)
class _Token:
    start: int
    end: int
    folded: str
    stem: str


@dataclass(frozen=True, slots=True)
class _Match:
    start: int
    end: int
    term: int


def snippet(text: str, terms: Sequence[str], width: int = 240) -> str:
    """Return at most `width` characters of the text (marks not counted), on one line, where most terms match.

    A term is a word, a phrase, or `word*`. It matches as in the index: folded, stemmed, an identifier also by its
    parts. Matches stand between `**`; cuts are at word or sentence ends and show `…`. Without a match it is the start.
    """
    clean = _clean(text[:_MAX_CHARACTERS])
    matches = _matches(clean, terms)
    start, end = _cut(clean, _densest(matches, width), width)
    shown = [_CUT] if start > 0 else []
    position = start
    for left, right in _merged(matches):
        left, right = max(left, start), min(right, end)
        if left < right:
            shown += [clean[position:left], _MARK, clean[left:right], _MARK]
            position = right
    shown.append(clean[position:end])
    if end < len(clean):
        shown.append(_CUT)
    return "".join(shown)


def holds(text: str, term: str) -> bool:
    """Return whether a term (a word, a phrase, or `word*`) matches anywhere in the text."""
    return bool(_matches(_clean(text[:_MAX_CHARACTERS]), (term,)))


def _clean(text: str) -> str:
    """Return the text on one line without escapes, control and direction characters, and halves of surrogate pairs."""
    spaced = " ".join(_ESCAPES.sub("", text).split())
    if spaced.isprintable():
        return spaced
    kept = (c for c in spaced if c in _KEPT_FORMATS or unicodedata.category(c) not in {"Cc", "Cf", "Cs"})
    return " ".join("".join(kept).split())


def _matches(text: str, terms: Sequence[str]) -> list[_Match]:
    """Return every place where a term matches, in order of the text."""
    needles: dict[str, list[_Needle]] = {}
    begun: list[_Needle] = []
    for needle in _needles(terms):
        if needle.prefix and len(needle.stems) == 1:
            begun.append(needle)
        else:
            needles.setdefault(needle.stems[0], []).append(needle)
    if not needles and not begun:
        return []
    positions = [
        [_Token(start, end, folded, tokenizer.stem(folded)) for start, end, folded, _position in group]
        for _place, group in groupby(tokenizer.words(text), key=itemgetter(3))
    ]
    matches: list[_Match] = []
    for index, tokens in enumerate(positions):
        for token in tokens:
            for needle in needles.get(token.stem, ()):
                end = _end_of(needle, positions, index, token)
                if end is not None:
                    matches.append(_Match(token.start, end, needle.term))
            matches += [
                _Match(token.start, token.end, needle.term)
                for needle in begun
                if token.folded.startswith(needle.stems[0])
            ]
    return sorted(matches, key=lambda match: (match.start, match.end, match.term))


def _needles(terms: Sequence[str]) -> Iterator[_Needle]:
    for index, term in enumerate(terms[:_MAX_TERMS]):
        prefix = term.endswith("*")
        words = tokenizer.query_words(term)[:_MAX_TERM_WORDS]
        whole = [token for _start, _end, token, _position in words]
        split: list[str] = []
        for start, end, token, _position in words:
            parts = tokenizer.parts(term[start:end])
            split += [word[2] for part in parts for word in tokenizer.query_words(part)] or [token]
        for tokens in dict.fromkeys((tuple(whole), tuple(split[:_MAX_TERM_WORDS]))):
            if tokens:
                last = tokens[-1] if prefix else tokenizer.stem(tokens[-1])
                yield _Needle(index, (*(tokenizer.stem(token) for token in tokens[:-1]), last), prefix)


def _end_of(needle: _Needle, positions: list[list[_Token]], index: int, first: _Token) -> int | None:
    """Return where a needle that begins with a token at a position ends in the text, None where it does not match."""
    if index + len(needle.stems) > len(positions):
        return None
    end = first.end
    last = len(needle.stems) - 1
    for offset in range(1, len(needle.stems)):
        stem = needle.stems[offset]
        for token in positions[index + offset]:
            if token.folded.startswith(stem) if needle.prefix and offset == last else token.stem == stem:
                end = token.end
                break
        else:
            return None
    return end


def _densest(matches: list[_Match], width: int) -> _Span | None:
    """Return the stretch with the most different terms, then the most matches, the first of equals."""
    best: _Span | None = None
    best_score = (0, 0)
    inside: Counter[int] = Counter()
    right = 0
    for left, match in enumerate(matches):
        while right < len(matches) and (right <= left or matches[right].end - match.start <= width):
            inside[matches[right].term] += 1
            right += 1
        score = (len(inside), right - left)
        if score > best_score:
            best_score = score
            best = (match.start, max(each.end for each in matches[left:right]))
        inside[match.term] -= 1
        if not inside[match.term]:
            del inside[match.term]
    return best


def _cut(text: str, stretch: _Span | None, width: int) -> _Span:
    """Return what to show: the stretch with what surrounds it, from and to a sentence or word end where one is near."""
    if len(text) <= width:
        return 0, len(text)
    first, last = stretch or (0, 0)
    last = min(last, first + width)
    start = 0
    if last > width:
        before = first - (width - (last - first)) // 2
        start = _start(text, max(min(before, len(text) - width), 0), first)
    end = min(start + width, len(text))
    if end < len(text):
        end = _end(text, start, max(last, start + width * 2 // 3), end)
    return start, end


def _start(text: str, earliest: int, latest: int) -> int:
    """Return the first sentence start, else word start, between two places."""
    if earliest == 0:
        return 0
    sentence = _SENTENCE_END.search(text, earliest - 1, latest)
    if sentence and sentence.end() < latest:
        return sentence.end() + (text[sentence.end()] == " ")
    space = text.find(" ", earliest - 1, latest)
    if space >= 0:
        return space + 1
    return next((place for place in range(earliest, latest) if not _continues(text[place])), latest)


def _end(text: str, start: int, earliest: int, latest: int) -> int:
    """Return the last sentence end, else word end, between two places."""
    sentences = [match.end() for match in _SENTENCE_END.finditer(text, earliest, min(latest + 1, len(text)))]
    fitting = [place for place in sentences if place <= latest]
    if fitting:
        return fitting[-1]
    space = text.rfind(" ", start + (latest - start) // 2, latest + 1)
    if space >= 0:
        return space
    return next((place for place in range(latest, earliest, -1) if not _continues(text[place])), latest)


def _continues(character: str) -> bool:
    """Return whether a character belongs to the one before it."""
    return unicodedata.category(character)[0] == "M" or character in _KEPT_FORMATS


def _merged(matches: list[_Match]) -> list[_Span]:
    """Return the stretches to mark; overlapping and touching matches become one."""
    spans: list[_Span] = []
    for match in matches:
        if spans and match.start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], match.end))
        else:
            spans.append((match.start, match.end))
    return spans
