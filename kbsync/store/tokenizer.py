"""How text becomes searchable words: the FTS5 tokenizer, and the same words with their places for the snippet.

Pure rules except for `register`. Words are NFKC, case folded, without accents. Unspaced scripts (Chinese, Japanese,
Korean, Thai, Lao, Khmer, Myanmar) become overlapping pairs of characters. Identifiers are kept whole at the position
of their first part, with the parts following each other. FTS5's own porter, wrapped around, does the stemming.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from functools import cache, lru_cache
from itertools import pairwise

import apsw

TOKENIZE = "porter kbsync"
_RULES = "1"
VERSION = f"{_RULES}/{unicodedata.unidata_version}"

# (start, end, token, position): characters of the original text, end excluded; equal positions mean colocated tokens.
Word = tuple[int, int, str, int]
# What FTS5 is given: (start, end, token, *colocated tokens), start and end in bytes of the UTF-8.
_Position = tuple[int, int, *tuple[str, ...]]

_MAX_TOKEN = 64  # characters; also the bytes up to which FTS5's porter stems
_MAX_FOLDED = 256  # raw characters looked at for one token: normalising a million combining marks is quadratic
_MAX_SEGMENTS = 8  # of one identifier: a chain of a thousand joined words is not one name
_MAX_MARKS = 16  # raw characters of one character with its marks in an unspaced script

_UNSPACED = (
    "\u0e01-\u0e2e\u0e30\u0e32\u0e40-\u0e46"  # Thai
    "\u0e81-\u0eae\u0eb0\u0eb2\u0ebd-\u0ec6\u0edc-\u0edf"  # Lao
    "\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e"  # Myanmar
    "\ua9e0-\ua9e4\ua9e6-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a\uaa7e\uaa7f"
    "\u1780-\u17b3\u17d7\u17dc"  # Khmer
    "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb\uffa0-\uffdc"  # Hangul
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U0003fffd"
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9d\U0001b000-\U0001b16f"  # Kana
    "\u3105-\u312f\u31a0-\u31bf"  # Bopomofo
    "\u3200-\u33ff"  # circled and squared forms of the above, such as (株) in one character
)
_EAST_ASIAN = re.compile(
    "[\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3041-\u30ff\u3105-\u318e\u31a0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003fffd]"
)
# Half-width voicing marks and the Thai and Lao AM vowels count as marks: NFKC makes marks of them.
_EXTRA_MARKS = "\uff9e\uff9f\u0e33\u0eb3"
_IGNORABLE = "\u00ad\u0640\u200c\u200d\u2060\ufeff"  # soft hyphen, tatweel, joiners: inside a word, without meaning
# Letters as a search sees them: accents of Latin, Greek, Cyrillic, Hebrew and Arabic go, vowel signs of other scripts
# and the Japanese voicing marks stay.
_ACCENTS = "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
_DROPPED = re.compile(
    f"[{_ACCENTS}{_IGNORABLE}\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff"
    "\ufe00-\ufe0f\ufe20-\ufe2f\U000e0100-\U000e01ef]+"
)
_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"})

_SUFFIX = r"(?:\+\+(?![\w+])|(?<=\b[A-Za-z])\#(?![\w\#]))?"  # C++, C#
_ASCII_WORDS = re.compile(rf"[A-Za-z0-9]+(?:(?:_+|[.\-])[A-Za-z0-9]+){{0,{_MAX_SEGMENTS - 1}}}{_SUFFIX}")
_SEGMENTS = re.compile(r"[^._\-+#]+")
_DIGIT_RUNS = re.compile(r"[0-9]+|[^0-9]+")
_CASE_RUNS = re.compile(r"[0-9]+|[A-Z]{2,}s(?![A-Za-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[A-Z]+")
_PLAIN_RUN = re.compile("[\u3041-\u3096\u30a1-\u30fa\u30fc\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]+")


@cache
def _marks() -> str:
    """Return the combining marks of Unicode as the inside of a character class. Takes some ten milliseconds once."""
    found = [c for c in range(0x300, 0x1F000) if unicodedata.category(chr(c))[0] == "M"]
    ranges: list[list[int]] = []
    for code in found:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{chr(low)}-{chr(high)}" for low, high in ranges) + "\U000e0100-\U000e01ef" + _EXTRA_MARKS


@cache
def _words_of_any_script() -> re.Pattern[str]:
    letter, mark = rf"[^\W_{_UNSPACED}{_EXTRA_MARKS}]", rf"[{_marks()}{_IGNORABLE}]"
    run = rf"{letter}(?:{letter}|{mark})*+"
    joined = rf"{run}(?:(?:_+|[.\-]){run}){{0,{_MAX_SEGMENTS - 1}}}{_SUFFIX}"
    return re.compile(rf"(?P<unspaced>[{_UNSPACED}][{_UNSPACED}{_marks()}{_IGNORABLE}]*+)|{joined}")


@cache
def _clusters() -> re.Pattern[str]:
    """Match what counts as one character in an unspaced script: a base with its marks, a syllable in Hangul letters."""
    mark = rf"[{_marks()}{_IGNORABLE}]"
    jamo = "[\u1100-\u115f\ua960-\ua97c]+[\u1160-\u11a7\ud7b0-\ud7c6]*[\u11a8-\u11ff\ud7cb-\ud7fb]*"
    return re.compile(rf"(?:{jamo}|[{_UNSPACED}]){mark}*+")


def _fold(raw: str) -> str:
    if raw.isascii():
        return raw[:_MAX_TOKEN].lower()
    folded = unicodedata.normalize("NFKC", raw[:_MAX_FOLDED]).casefold()
    bare = _DROPPED.sub("", unicodedata.normalize("NFD", folded)).translate(_LETTERS)
    return unicodedata.normalize("NFKC", bare)[:_MAX_TOKEN]


@lru_cache(maxsize=16384)
def _fold_character(raw: str) -> str:
    return "".join(c for c in _fold(raw[:_MAX_MARKS]) if c.isalnum() or unicodedata.category(c)[0] == "M")


def _shape(word: str) -> str:
    """Return a string of the same length that shows where an identifier changes: A upper, a other, 0 digit."""
    if word.isascii():
        return word
    shape: list[str] = []
    for character in word:
        if character in "._-+#":
            shape.append(character)
        elif character.isdigit():
            shape.append("0")
        elif character.isalpha() or not shape:
            shape.append("A" if character.isupper() else "a")
        else:  # a mark belongs to what it sits on
            shape.append(shape[-1])
    return "".join(shape)


def _pieces(pattern: re.Pattern[str], shape: str, start: int, end: int) -> list[tuple[int, int]]:
    """Split a stretch, or leave it whole where the pieces are so short that it is a hash or a code and no name."""
    if end - start > _MAX_TOKEN:
        return [(start, end)]
    pieces = [match.span() for match in pattern.finditer(shape, start, end)]
    count = len(pieces)
    if pattern is _DIGIT_RUNS:  # v2 and sha256 are names with a number, 3f2a9c77de is not
        noise = count >= 6 or (count >= 3 and end - start < 2 * count)
    else:  # iOS and base64
        noise = (count >= 2 and end - start < 2 * count) or (count >= 8 and end - start < 3 * count)
    return [(start, end)] if noise else pieces


def _identifier(word: str) -> tuple[Word, ...]:
    """Return the whole and its parts, larger before smaller at the same position, places relative to the word."""
    shape = _shape(word)
    spans: list[tuple[int, int, int]] = [(0, len(word), 0)]
    position = 0
    for segment in _SEGMENTS.finditer(shape):
        spans.append((*segment.span(), position))
        for run in _pieces(_DIGIT_RUNS, shape, *segment.span()):
            spans.append((*run, position))
            for part in _pieces(_CASE_RUNS, shape, *run):
                spans.append((*part, position))
                position += 1
    words: list[Word] = []
    for start, end, place in dict.fromkeys(spans):
        if token := _fold(word[start:end]):
            words.append((start, end, token, place))
    return tuple(words)


_cached_identifier = lru_cache(maxsize=8192)(_identifier)


def _unspaced(run: str, query: bool) -> list[Word]:
    """Return pairs of neighbours; when indexing each single character too, colocated with a pair it is in."""
    units: list[tuple[int, int, str]]
    if _PLAIN_RUN.fullmatch(run):
        units = [(i, i + 1, character) for i, character in enumerate(run)]
    else:
        units = [
            (*match.span(), folded) for match in _clusters().finditer(run) if (folded := _fold_character(match.group()))
        ]
    if len(units) == 1:
        return [(*units[0], 0)]
    words: list[Word] = []
    last = len(units) - 2
    for position, (left, right) in enumerate(pairwise(units)):
        words.append((left[0], right[1], left[2] + right[2], position))
        if not query:
            words.append((*left, position))
            if position == last:
                words.append((*right, position))
    return words


def _scan(text: str, query: bool) -> list[Word]:
    words: list[Word] = []
    add = words.append
    position = 0
    pattern = _ASCII_WORDS if text.isascii() else _words_of_any_script()
    unspaced_group = None if pattern is _ASCII_WORDS else "unspaced"
    for match in pattern.finditer(text):
        raw = match.group()
        start, end = match.span()
        if raw.isascii() and ((raw.isalpha() and (raw[1:].islower() or raw.isupper())) or raw.isdigit()):
            add((start, end, raw[:_MAX_TOKEN].lower(), position))
            position += 1
            continue
        parts: list[Word] | tuple[Word, ...]
        if unspaced_group and match.group(unspaced_group):
            parts = _unspaced(raw, query)
        else:
            parts = _cached_identifier(raw) if end - start <= _MAX_FOLDED else _identifier(raw)
            if query:
                parts = parts[:1]
        for part_start, part_end, token, place in parts:
            add((start + part_start, start + part_end, token, position + place))
        if parts:
            position += parts[-1][3] + 1
    return words


def words(text: str) -> list[Word]:
    """Return what is indexed of a text: (start, end, token, position), larger tokens first within a position."""
    return _scan(text, query=False)


def query_words(text: str) -> list[Word]:
    """Return what a query is made of: identifiers whole only, an unspaced run as pairs, a lone character as itself."""
    return _scan(text, query=True)


def parts(raw: str) -> list[str]:
    """Return the smallest parts of an identifier as they are written, [] for anything that has not two parts."""
    match = _words_of_any_script().fullmatch(raw)
    if match is None or match["unspaced"]:
        return []
    smallest = {position: raw[start:end] for start, end, _token, position in _identifier(raw)}
    return list(smallest.values()) if len(smallest) > 1 else []


def is_east_asian(character: str) -> bool:
    """Return whether a character is Chinese, Japanese or Korean writing."""
    return _EAST_ASIAN.match(character) is not None


def tokenize(utf8: bytes, flags: int, _locale: str | None) -> list[_Position]:
    """Return what FTS5 is given of a text: (start, end, token, *colocated tokens), places in bytes."""
    # surrogateescape turns each byte that is no UTF-8 into one character and back: offsets stay right, nothing raises
    text = utf8.decode("utf-8", "surrogateescape")
    one_byte_each = len(text) == len(utf8)
    positions: list[_Position] = []
    characters = bytes_before = 0
    current = -1
    for start, end, token, position in _scan(text, bool(flags & apsw.FTS5_TOKENIZE_QUERY)):
        if position == current:
            positions[-1] = (*positions[-1], token)
            continue
        current = position
        if one_byte_each:
            positions.append((start, end, token))
        else:
            bytes_before += len(text[characters:start].encode("utf-8", "surrogateescape"))
            characters = start
            bytes_inside = len(text[start:end].encode("utf-8", "surrogateescape"))
            positions.append((bytes_before, bytes_before + bytes_inside, token))
    return positions


def register(connection: apsw.Connection) -> None:
    """Make the tokenizer known to a connection; needed before any MATCH and any write to an indexed table."""
    connection.register_fts5_tokenizer("kbsync", lambda _connection, _arguments: tokenize)


_per_thread = threading.local()


@lru_cache(maxsize=16384)
def stem(token: str) -> str:
    """Return the token as FTS5's porter leaves it in the index."""
    porter: apsw.FTS5Tokenizer | None = getattr(_per_thread, "porter", None)
    if porter is None:
        connection = apsw.Connection(":memory:")  # one a thread: a connection serves one thread at a time
        connection.register_fts5_tokenizer("one_token", lambda _connection, _arguments: _one_token)
        porter = _per_thread.porter = connection.fts5_tokenizer("porter", ["one_token"])
    (stemmed,) = porter(
        token.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False
    )
    return str(stemmed)


def _one_token(utf8: bytes, _flags: int, _locale: str | None) -> list[_Position]:
    return [(0, len(utf8), utf8.decode())]
