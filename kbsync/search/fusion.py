"""Two ranked lists made one: scores brought to one scale, added with weights that evidence decides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kbsync.search.query import Script

# Where the model cannot read the query its order is noise: it may break ties between words, no more.
MODEL_CANNOT_READ = 0.05

# Chosen with `tests/bench/retrieval` on one half of the questions of three collections. The vectors lead: they find
# more than words wherever they understand the question. Two signs say how far. A steep fall from the first to the
# fifth score by words means that words alone single something out: a name, a rare term, a language that the model does
# not know. Hits in common among the first ten mean that both arms understood.
_LEAD = 0.75
_FOR_A_FALL = -0.75
_FOR_AGREEMENT = 0.9
_LEAST, _MOST = 0.25, 0.8
_FALL_TO = 5
_AGREE_AMONG = 10

_EAST_ASIAN = frozenset({"zh", "ja", "ko"})
_LATIN_CODES = "ca cs da de en es et fi fr hr hu id it lt lv nl no pl pt ro sk sl sv tr vi"
_LATIN = frozenset(_LATIN_CODES.split())


@dataclass(frozen=True, slots=True)
class Scored:
    """A chunk and how well one arm likes it; higher is better."""

    chunk_id: int
    score: float


def fuse(lexical: Sequence[Scored], vector: Sequence[Scored], vector_weight: float) -> list[Scored]:
    """Return the chunks of both lists, best first, equal scores by chunk id.

    Each list is brought to 0..1 by its lowest and highest score and weighted; a chunk that a list lacks gets 0 from it.
    With one list empty the other decides alone. Scores that are no finite numbers do not count.
    """
    arms = [(_scaled(lexical), 1 - vector_weight), (_scaled(vector), vector_weight)]
    arms = [(scores, weight) for scores, weight in arms if scores]
    if len(arms) == 1:
        arms = [(arms[0][0], 1.0)]
    total: dict[int, float] = {}
    for scores, weight in arms:
        for chunk_id, score in scores.items():
            total[chunk_id] = total.get(chunk_id, 0.0) + weight * score
    ranked = sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))
    return [Scored(chunk_id, score) for chunk_id, score in ranked]


def vector_weight_for(
    script: Script, languages: frozenset[str] | None, lexical: Sequence[Scored], vector: Sequence[Scored]
) -> float:
    """Return the vectors' share in the fusion, 0..1, for a query in a script and what both arms found.

    `languages`: two-letter codes that the model reads; None: not known, or all.
    """
    if languages is not None and not _reads(script, languages):
        return MODEL_CANNOT_READ
    words, near = _best_first(lexical), _best_first(vector)
    if not words or not near:
        return _LEAD
    fifth = words[_FALL_TO - 1].score if len(words) >= _FALL_TO else 0.0
    fall = min(1.0, 1 - fifth / words[0].score) if words[0].score > 0 else 0.0
    common = {each.chunk_id for each in words[:_AGREE_AMONG]} & {each.chunk_id for each in near[:_AGREE_AMONG]}
    weight = _LEAD + _FOR_A_FALL * fall + _FOR_AGREEMENT * len(common) / _AGREE_AMONG
    return min(_MOST, max(_LEAST, weight))


def _reads(script: Script, languages: frozenset[str]) -> bool:
    if script == "cjk":
        return bool(languages & _EAST_ASIAN)
    if script == "latin":
        return bool(languages & _LATIN)
    return bool(languages - _EAST_ASIAN - _LATIN)


def _best_first(scored: Sequence[Scored]) -> list[Scored]:
    finite = (each for each in scored if math.isfinite(each.score))
    return sorted(finite, key=lambda each: (-each.score, each.chunk_id))


def _scaled(scored: Sequence[Scored]) -> dict[int, float]:
    best: dict[int, float] = {}
    for each in scored:
        if math.isfinite(each.score):
            best[each.chunk_id] = max(each.score, best.get(each.chunk_id, -math.inf))
    if not best:
        return {}
    low, high = min(best.values()), max(best.values())
    if high == low:
        return dict.fromkeys(best, 1.0)
    # halves first: the span of two huge numbers is not finite
    return {chunk_id: (score / 2 - low / 2) / (high / 2 - low / 2) for chunk_id, score in best.items()}
