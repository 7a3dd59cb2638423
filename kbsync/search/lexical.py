"""Chunks by their words, those of a file or folder with a matching name lifted."""

from __future__ import annotations

from kbsync.search.fusion import Scored
from kbsync.search.query import Query
from kbsync.store import chunks
from kbsync.store.connection import Connection
from kbsync.store.selection import Selection, all_of, matching, none_of

# A file's name says less about its content than its words do.
NAME_WEIGHT = 0.3


def by_words(connection: Connection, query: Query, limit: int, selection: Selection) -> list[Scored]:
    """Return the selected chunks that match, best first by BM25."""
    if query.match is None:
        return []
    found = chunks.matching(connection, query.match, limit, selection)
    return [Scored(chunk_id, score) for chunk_id, _document, score in found]


def lifted_by_names(
    connection: Connection, query: Query, by_text: list[Scored], limit: int, selection: Selection
) -> list[Scored]:
    """Return the chunks of a list, scaled to its best one, with what a matching name adds; not sorted.

    A document that is found by its name alone comes with its first chunk.
    """
    if query.match is None:
        return []
    if query.excluded is not None:  # a name without the word is no leave to show a text with it
        selection = all_of([selection, none_of(matching(query.excluded))])
    named = chunks.matching_names(connection, query.match, limit, selection)
    scores: dict[int, float] = {}
    for found, weight in (
        (by_text, 1.0),
        ([Scored(chunk_id, score) for chunk_id, _document, score in named], NAME_WEIGHT),
    ):
        best = max((each.score for each in found), default=0.0)
        for each in found:
            scores[each.chunk_id] = scores.get(each.chunk_id, 0.0) + weight * (each.score / best if best > 0 else 1.0)
    return [Scored(chunk_id, score) for chunk_id, score in scores.items()]
