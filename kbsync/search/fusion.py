"""Two ranked lists made one: scores brought to one scale, added with weights that evidence decides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kbsync.search.query import Script

BALANCED = 0.5
# Where the model cannot read the query its order is noise: it may break ties between words, no more.
MODEL_CANNOT_READ = 0.05

_EAST_ASIAN = frozenset({"zh", "ja", "ko"})
_LATIN_CODES = "ca cs da de en es et fi fr hr hu id it lt lv nl no pl pt ro sk sl sv tr vi"
_LATIN = frozenset(_LATIN_CODES.split())


@dataclass(frozen=True, slots=True)
class Scored:
    """A chunk and how well one arm likes it; higher is better."""

    chunk_id: int
    score: float


def fuse(lexical: Sequence[Scored], vector: Sequence[Scored], vector_weight: float = BALANCED) -> list[Scored]:
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


def vector_weight_for(script: Script, languages: frozenset[str] | None) -> float:
    """Return the vectors' share in the fusion, 0..1. `languages`: two-letter codes the model reads; None: all."""
    if languages is None:
        return BALANCED
    if script == "cjk":
        reads = bool(languages & _EAST_ASIAN)
    elif script == "latin":
        reads = bool(languages & _LATIN)
    else:
        reads = bool(languages - _EAST_ASIAN - _LATIN)
    return BALANCED if reads else MODEL_CANNOT_READ


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
