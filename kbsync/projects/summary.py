"""Summaries without a model: sentences taken out of the text as they stand, the most central ones.

LexRank (Erkan and Radev, "LexRank: Graph-based Lexical Centrality as Salience in Text Summarization", JAIR 22, 2004),
the continuous form: each sentence is as central as those that resemble it, by the cosine of their weighted words.
For several documents the next one taken is also unlike those before (maximal marginal relevance, Carbonell 1998).
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kbsync.file_types import ending_of
from kbsync.projects import reading
from kbsync.projects.sentences import (
    LONGEST_TEXT,
    Language,
    language_of,
    quotable,
    sentences,
    terms,
    without_front_matter,
)
from kbsync.search.query import is_little_word
from kbsync.store import tokenizer

# Of a long text the beginning, where reports and papers say what they are about; the matrix is this many squared.
_MOST_SENTENCES = 400
# Of several texts together.
_MOST_OF_ALL = 1000
# The paper's damping of the walk, and how alike two sentences may be until one of them is left out.
_DAMPING, _STEPS, _TOO_ALIKE = 0.15, 60, 0.6
# Of two equally central sentences the earlier one is the better summary.
_EARLY = 0.3
# Characters of a summary in the file index, by how dense the script is.
_LENGTH = {"zh": 110, "ja": 130, "ko": 140, "other": 240}
# So much of a row is what the text says itself; the word in front says whose choice that is.
_TABLE: dict[Language, str] = {
    "zh": "表格，{rows} 行，列：{columns}",
    "ja": "表、{rows} 行、列：{columns}",
    "ko": "표, {rows}행, 열: {columns}",
    "other": "A table of {rows} rows: {columns}",
}
_LONGEST_TABLE = 300
_DELIMITERS = ",;\t|"
_BEGINNING: dict[Language, str] = {"zh": "开头：", "ja": "冒頭：", "ko": "시작: ", "other": "Begins: "}
LABEL: dict[Language, str] = {"zh": "摘录：", "ja": "抜粋：", "ko": "발췌: ", "other": "Extract: "}


@dataclass(frozen=True, slots=True)
class Taken:
    """A sentence that was taken out of a text; `origin` is the number of the text."""

    sentence: str
    origin: int


def summarize(text: str, source: str) -> str:
    """Return one line about a parsed text; `source` is its original's name. Empty where it says nothing in words."""
    text = reading.prose(text, source)
    return _table(text, source) or extract(text) or _beginning(text)


def _beginning(text: str) -> str:
    """Return how a text without sentences begins, such as code."""
    shown = " ".join(" ".join(quotable(without_front_matter(text[:LONGEST_TEXT]))[:5]).split())
    if not shown:
        return ""
    language = language_of(shown)
    return _BEGINNING[language] + (shown if len(shown) <= _LENGTH[language] else f"{shown[: _LENGTH[language] - 1]}…")


def extract(text: str) -> str:
    """Return a summary of one text for a row: its most central sentences in their order, marked as an extract.

    Empty where the text has no sentence.
    """
    language = language_of(text)
    room = _LENGTH[language]
    found = sentences(text, _MOST_SENTENCES)
    order = np.argsort(-_with_early(_centrality(found)), kind="stable")
    chosen: list[int] = []
    for number in order:
        length = sum(len(found[one]) for one in chosen)
        if chosen and (length + len(found[number]) > room or len(chosen) == 2):
            break
        chosen.append(int(number))
    joint = "" if language in ("zh", "ja") else " "
    told = joint.join(found[number] for number in sorted(chosen))
    if not told:
        return ""
    return LABEL[language] + (told if len(told) <= room else f"{told[: room - 1].rstrip()}…")


def extracts(texts: Sequence[str], count: int, per_text: int) -> list[Taken]:
    """Return the most central sentences of several texts, no two alike, at most `per_text` of each."""
    # Of very many texts every so manieth speaks for the others: the matrix grows with the square.
    step = -(-len(texts) // _MOST_OF_ALL) or 1
    share = max(1, min(_MOST_SENTENCES, _MOST_OF_ALL * step // max(1, len(texts))))
    taken = [
        Taken(sentence, origin)
        for origin, text in list(enumerate(texts))[::step]
        for sentence in sentences(text, share)
    ]
    vectors = _vectors([one.sentence for one in taken])
    scores = _rank(vectors @ vectors.T) if taken else np.zeros(0)
    chosen: list[int] = []
    for number in np.argsort(-scores, kind="stable"):
        if len(chosen) == count:
            break
        of_this = sum(taken[one].origin == taken[number].origin for one in chosen)
        is_new = all(float(vectors[number] @ vectors[one]) < _TOO_ALIKE for one in chosen)
        if of_this < per_text and is_new:
            chosen.append(int(number))
    return [taken[number] for number in sorted(chosen)]


def key_terms(texts: Sequence[str], count: int) -> list[str]:
    """Return words that many of the texts use and few other ones explain: the most frequent stems, as first written."""
    shown: dict[str, str] = {}
    frequency: Counter[str] = Counter()
    for text in texts:
        for sentence in sentences(text, _MOST_SENTENCES):
            for word, term in zip(_words(sentence), terms(sentence), strict=False):
                if len(term) > 1 and not term.isdigit():
                    shown.setdefault(term, word)
                    frequency[term] += 1
    return [shown[term] for term, _ in frequency.most_common(count)]


def _table(text: str, source: str) -> str:
    """Say what a table of values holds: its columns and how many rows. Empty for anything else."""
    if ending_of(source) not in (".csv", ".tsv"):
        return ""
    lines = [line for line in text.strip().splitlines() if not line.startswith("```")]
    try:
        rows = list(csv.reader(lines, delimiter=max(_DELIMITERS, key=lambda mark: _width(lines[:50], mark))))
    except csv.Error:
        return ""
    if len(rows) < 2 or len(rows[0]) < 2:
        return ""
    columns = ", ".join(" ".join(cell.split()) for cell in rows[0] if cell.strip())
    return _TABLE[language_of(text)].format(rows=len(rows) - 1, columns=columns)[:_LONGEST_TABLE]


def _width(lines: Sequence[str], delimiter: str) -> int:
    """Return how many columns a table has if this separates them; 0 where most rows have another number."""
    widths = Counter(len(row) for row in csv.reader(lines, delimiter=delimiter) if row)
    width, count = widths.most_common(1)[0] if widths else (0, 0)
    return width if 2 * count > widths.total() else 0


def _words(sentence: str) -> list[str]:
    return [
        sentence[start:end] for start, end, token, _ in tokenizer.query_words(sentence) if not is_little_word(token)
    ]


def _centrality(found: Sequence[str]) -> npt.NDArray[np.float64]:
    vectors = _vectors(found)
    return _rank(vectors @ vectors.T) if len(found) else np.zeros(0)


def _with_early(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    places = np.arange(len(scores), dtype=np.float64)
    return np.asarray(scores * (1 + _EARLY / (1 + places / 3)), dtype=np.float64)


def _vectors(found: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return one row a sentence, its words' tf-idf, of length one: shape (sentences, words)."""
    counts = [Counter(terms(sentence)) for sentence in found]
    index: dict[str, int] = {}
    for count in counts:
        for term in count:
            index.setdefault(term, len(index))
    rows = np.zeros((len(found), len(index)))
    for number, count in enumerate(counts):
        for term, times in count.items():
            rows[number, index[term]] = times
    weight = np.log((1 + len(found)) / (1 + (rows > 0).sum(axis=0))) + 1
    rows = rows * weight
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), dtype=np.float64)


def _rank(alike: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the stationary distribution of a walk over sentences that alike ones attract."""
    count = len(alike)
    sums = alike.sum(axis=1, keepdims=True)
    walk = np.where(sums > 0, alike / np.where(sums > 0, sums, 1), 1 / count)
    scores = np.full(count, 1 / count)
    for _ in range(_STEPS):
        scores = _DAMPING / count + (1 - _DAMPING) * (scores @ walk)
    return scores
