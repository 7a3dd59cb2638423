"""A text's sentences in any script, and the terms by which they are compared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal

from kbsync.pipelines.front_matter import read_front_matter
from kbsync.pipelines.lines import Lines
from kbsync.projects import marks
from kbsync.search.query import is_little_word
from kbsync.store import tokenizer

Language = Literal["zh", "ja", "ko", "other"]

# Characters of a sentence that says something, and of the longest one that is looked at.
_SHORTEST, _SHORTEST_EAST_ASIAN, _LONGEST = 24, 8, 600
# Of one paragraph so much is looked at: a line of a megabyte is no prose.
_LONGEST_BLOCK = 50_000
# Of a text, for the sentences that tell what it is about: a book says that in its beginning.
LONGEST_TEXT = 500_000
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})")
_IMAGE = re.compile(r"!\[([^\[\]]*)\]\([^()]*\)")
_LINK = re.compile(r"\[([^\[\]]+)\]\([^()\s]*(?:\s+\"[^\"]*\")?\)")
_MARKS = re.compile(r"(\*\*|__|`+|~~|(?<!\w)[*_](?=\S))(.+?)\1")
_TAGS = re.compile(r"</?[A-Za-z][^<>]*>")
_ATTRIBUTES = re.compile(r"\{ ?[#.:][^{}]*\}$")
_DIVIDER = re.compile(r"^[ \t|:+-]+$")
_BULLET = re.compile(r"^[ \t]*(?:>[ \t]?)*(?:[-*+]|\d{1,9}[.)、])[ \t]+")
_RULE = re.compile(r"^[ \t]*(?:[-*_=][ \t]*){3,}$")
_ENDS = re.compile(
    r"(?<=[。！？!?…])[”’」』）)\"']*"
    r"|(?<=[.!?])[\"'”’)]*(?=\s+[\"'“‘(]?[A-Z0-9\u00c0-\u04ff])"
)
# From a head to its page, in a table of contents.
_LEADERS = re.compile(r"(?:\. ?){5}")
_KANA, _HANGUL = re.compile("[\u3041-\u30ff]"), re.compile("[\uac00-\ud7a3]")
_LONGEST_ABBREVIATION = 8
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|cf|vs|Mr|Mrs|Dr|No|Fig|Sec|St|approx|z\.B|bzw|u\.a|Nr)|\b[A-Z])\.$")


def language_of(text: str) -> Language:
    """Return which language's words stand around extracts of a text: Chinese, Japanese, Korean, else English."""
    sample = [character for character in text[:20_000] if character.isalpha()]
    if sum(map(tokenizer.is_east_asian, sample)) < 0.2 * max(1, len(sample)):
        return "other"
    kana, hangul = (len(pattern.findall("".join(sample))) for pattern in (_KANA, _HANGUL))
    if hangul > 0.3 * len(sample):
        return "ko"
    return "ja" if kana > 0.1 * len(sample) else "zh"


def blocks(text: str) -> Iterator[str]:
    """Yield the paragraphs and items of a Markdown text as plain text; headers, tables, code and rules are left out."""
    text = without_front_matter(text)
    paragraph: list[str] = []
    fence = ""
    for line in marks.without_comments(text).splitlines():
        marker = _FENCE.match(line)
        if marker is not None:
            fence = "" if fence and marker[1].startswith(fence) else fence or marker[1]
            line = ""
        elif fence:
            continue
        is_item = _BULLET.match(line) is not None
        is_apart = not line.strip() or is_item or line.lstrip().startswith("|") or marks.header(line) is not None
        if is_apart or _RULE.match(line):
            if paragraph:
                yield _joined(paragraph)
            paragraph = [] if not is_item else [line]
        else:
            paragraph.append(line)
    if paragraph:
        yield _joined(paragraph)


def without_front_matter(text: str) -> str:
    """Return a text without the settings at its beginning: they are for programs."""
    lines = Lines(text)
    return text[lines.start(read_front_matter(lines).last_line + 1) :]


def sentences(text: str, most: int = 10_000) -> list[str]:
    """Return the first sentences of a Markdown text that say something, in order, each once."""
    found: dict[str, None] = {}
    for block in blocks(text[:LONGEST_TEXT]):
        for sentence in split(block[:_LONGEST_BLOCK]):
            if len(sentence) <= _LONGEST and says_something(sentence):
                found.setdefault(sentence)
        if len(found) >= most:
            break
    return list(found)[:most]


def split(block: str) -> list[str]:
    """Return the sentences of a paragraph."""
    parts: list[str] = []
    start = 0
    for end in _ENDS.finditer(block):
        sentence = block[start : end.end()].strip()
        if _ABBREVIATION.search(sentence[-_LONGEST_ABBREVIATION:]):
            continue
        if sentence:
            parts.append(sentence)
        start = end.end()
    rest = block[start:].strip()
    return [*parts, rest] if rest else parts


def says_something(sentence: str) -> bool:
    """Return whether a sentence is long enough, and made of words."""
    if _LEADERS.search(sentence):
        return False
    letters = sum(character.isalpha() for character in sentence)
    is_east_asian = any(map(tokenizer.is_east_asian, sentence))
    shortest = _SHORTEST_EAST_ASIAN if is_east_asian else _SHORTEST
    return len(sentence) >= shortest and sentence[-1] not in ":：" and letters >= 0.5 * len(sentence.replace(" ", ""))


@lru_cache(maxsize=8192)
def terms(text: str) -> tuple[str, ...]:
    """Return the stemmed words of a text that mean something, pairs of characters where words are not spaced."""
    found = (token for _start, _end, token, _position in tokenizer.query_words(text))
    return tuple(tokenizer.stem(token) if token.isascii() else token for token in found if not is_little_word(token))


@lru_cache(maxsize=4096)
def held_terms(text: str) -> tuple[str, ...]:
    """Return every term that a text can be found by: as `terms`, single characters and parts of identifiers too."""
    found = (token for _start, _end, token, _position in tokenizer.words(text))
    return tuple(tokenizer.stem(token) if token.isascii() else token for token in found)


def plain(line: str) -> str:
    """Return a line of Markdown without its marks."""
    line = _BULLET.sub("", _ATTRIBUTES.sub("", line.strip()).rstrip())
    line = _LINK.sub(r"\1", _IMAGE.sub(r"\1", line))
    return _TAGS.sub("", _MARKS.sub(r"\2", line)).lstrip("> ").strip()


def quotable(text: str, *, code: bool = False) -> list[str]:
    """Return the lines of a passage without marks, rows of tables as lists; code only if wished, or if all is code."""
    shown: list[str] = []
    inside: list[str] = []
    fence = ""
    for line in text.splitlines():
        marker = _FENCE.match(line)
        if marker is not None:
            fence = "" if fence and marker[1].startswith(fence) else fence or marker[1]
        elif fence:
            (shown if code else inside).append(line.strip())
        elif line.lstrip().startswith("|"):
            cells = [plain(cell) for cell in line.strip().strip("|").split("|")]
            shown += [] if _DIVIDER.match(line) else [", ".join(cell for cell in cells if cell)]
        elif line.strip() and not _RULE.match(line):
            shown.append(plain(line))
    return [line for line in shown if line] or [line for line in inside if line]


def _joined(lines: Sequence[str]) -> str:
    """Join the lines of a paragraph: with a space, but none between characters of unspaced scripts."""
    parts: list[str] = []
    for line in filter(None, map(plain, lines)):
        if parts and not (tokenizer.is_east_asian(parts[-1][-1]) and tokenizer.is_east_asian(line[0])):
            parts.append(" ")
        parts.append(line)
    return "".join(parts)
