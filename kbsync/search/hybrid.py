"""One query to hits: words and vectors looked up in one read transaction, fused, folded by document, shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from kbsync.errors import IndexDamaged, KbsyncError
from kbsync.model import Embedder, Filter, Hit, Priority, Reranker, SearchMode, SearchResult
from kbsync.search.filters import selected
from kbsync.search.fusion import Scored, fuse, vector_weight_for
from kbsync.search.hits import Found, folded, hits
from kbsync.search.lexical import by_words, lifted_by_names
from kbsync.search.query import Query, parse
from kbsync.search.vector import VectorIndex
from kbsync.store import chunks
from kbsync.store.connection import Connection
from kbsync.store.selection import Selection, all_of, matching, none_of
from kbsync.store.writer import Readers

if TYPE_CHECKING:
    from kbsync.model import Vectors

_NO_WORDS = (
    "The full-text index is damaged: nothing is found by words until it is made anew; a running daemon begins with "
    "that by itself."
)
_LOADING = "The model is not loaded yet: found by words only. It is being loaded; ask again in about 10 seconds."
# So many chunks of each arm go into the fusion: far more than anybody looks at, few enough to be fast.
CANDIDATES = 200
# So many documents a reranker reads: a second or two of a CPU.
RERANKED = 30


@dataclass(frozen=True, slots=True)
class QueryEmbedder:
    """The embedder as search needs it. `ready`: a query is answered at once; `languages`: None where it knows all.

    `problem`: why a model that is to be there cannot be used, None where it can, or where that is not known yet.
    `wake` has one loaded that is not ready, without waiting for it.
    """

    embedder: Embedder
    embedder_id: int
    ready: Callable[[], bool]
    languages: frozenset[str] | None
    problem: Callable[[], str | None] = lambda: None
    wake: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is looked for. `vector` is None where words decide alone."""

    query: Query
    mode: SearchMode
    vector: Vectors | None
    filters: tuple[Filter, ...]
    every_version: bool


class Search:
    """Answers queries. Any thread may ask; nothing here waits for ingestion."""

    def __init__(self, readers: Readers, query_embedder: QueryEmbedder, reranker: Reranker | None = None) -> None:
        self._readers = readers
        self._query_embedder = query_embedder
        self._reranker = reranker
        self._index = VectorIndex()

    def search(
        self,
        text: str,
        mode: SearchMode,
        limit: int,
        offset: int = 0,
        filters: Sequence[Filter] = (),
        *,
        every_version: bool = False,
    ) -> SearchResult:
        """Return the best documents for a query of any characters, each by its best chunk.

        Filters hold before anything ranks, those in the query's text too. `every_version`: superseded and missing ones
        as well. While the model still loads, or cannot be used, the answer is lexical and `notice` says so.
        """
        begun = time.perf_counter()
        query = parse(text)
        vector, notice = self._vector(query, mode)
        done: SearchMode = mode if vector is not None or mode == "lexical" else "lexical"
        asked = _Asked(query, done, vector, (*query.filters, *filters), every_version)
        try:
            found, failed = self._found(asked, limit, offset)
            notice = notice or failed
        except IndexDamaged:
            found, done, notice = self._found_without_words(asked, limit, offset)
        took_ms = (time.perf_counter() - begun) * 1000
        return SearchResult(text, done, took_ms, tuple(found), query.notice or notice)

    def _found(self, asked: _Asked, limit: int, offset: int) -> tuple[list[Hit], str | None]:
        reranker = self._reranker if asked.mode == "hybrid" else None
        if reranker is not None:
            return self._reranked(asked, reranker, limit, offset)
        return self._readers.read(lambda connection: self._hits(connection, asked, limit, offset)), None

    def _found_without_words(self, asked: _Asked, limit: int, offset: int) -> tuple[list[Hit], SearchMode, str]:
        """Answer by meaning alone, while the full-text index cannot be asked; nothing where words must be looked at."""
        query = asked.query
        found: list[Hit] = []
        if asked.vector is not None and query.required is None and query.excluded is None:
            try:
                found, _ = self._found(replace(asked, query=replace(query, match=None), mode="vector"), limit, offset)
            except IndexDamaged:
                found = []  # a filter asks for words too: what cannot be looked at matches nothing
        return found, "vector" if asked.vector is not None else "lexical", _NO_WORDS

    def _vector(self, query: Query, mode: SearchMode) -> tuple[Vectors | None, str | None]:
        if mode == "lexical" or not query.text.strip():
            return None, None
        if not self._query_embedder.ready():
            if (problem := self._query_embedder.problem()) is not None:
                return None, _unusable(problem)
            self._query_embedder.wake()
            return None, _LOADING
        try:
            return self._query_embedder.embedder.embed([query.text], Priority.QUERY)[0], None
        except KbsyncError as error:
            return None, _unusable(str(error))

    def _hits(self, connection: Connection, asked: _Asked, limit: int, offset: int) -> list[Hit]:
        found = self._documents(connection, asked, offset + limit)
        return hits(connection, found[offset : offset + limit], asked.query, offset + 1)

    def _reranked(self, asked: _Asked, reranker: Reranker, limit: int, offset: int) -> tuple[list[Hit], str | None]:
        """Have the best documents read again by the reranker; scores over 1 are its own. The database is not held."""

        def best(connection: Connection) -> tuple[list[Found], dict[int, str]]:
            found = self._documents(connection, asked, max(offset + limit, RERANKED))
            stored = chunks.by_ids(connection, [each.chunk_id for each in found[:RERANKED]])
            return found, {chunk.id: chunk.enriched_text for chunk in stored.values()}

        found, texts = self._readers.read(best)
        read = [each for each in found[:RERANKED] if each.chunk_id in texts]
        notice = None
        if read:
            try:
                scores = reranker.scores(asked.query.text, [texts[each.chunk_id] for each in read])
                again = [
                    Found(each.document_id, each.chunk_id, 1 + score) for each, score in zip(read, scores, strict=True)
                ]
                found = [*sorted(again, key=lambda each: -each.score), *found[RERANKED:]]
            except KbsyncError as error:
                notice = f"The reranker cannot be used: ranked without it. {error}"
        page = found[offset : offset + limit]
        return self._readers.read(lambda connection: hits(connection, page, asked.query, offset + 1)), notice

    def _documents(self, connection: Connection, asked: _Asked, wanted: int) -> list[Found]:
        """Return at least so many documents, best first, or all there are.

        The best candidates of both arms are fused; what an arm has beyond them follows in turns, so that a later page
        goes on where an earlier one ended, however far each had to look.
        """
        query = asked.query
        selection = selected(connection, asked.filters, every_version=asked.every_version)
        if query.match is None and asked.vector is None:
            if not asked.filters or query.excluded is not None:
                return []
            newest = chunks.newest(connection, wanted, selection)
            return folded(connection, [Scored(chunk, 0.0) for chunk in newest], every_version=asked.every_version)
        depth = CANDIDATES
        head: list[Scored] | None = None
        while True:
            words = [] if asked.mode == "vector" else by_words(connection, query, depth, selection)
            near = self._nearest(connection, asked, depth, selection)
            if head is None:
                lexical = [] if asked.mode == "vector" else lifted_by_names(connection, query, words, depth, selection)
                weight = vector_weight_for(query.script, self._query_embedder.languages, lexical, near)
                head = fuse(lexical, near, weight)
            ranked = [*head, *_in_turns(words[CANDIDATES:], near[CANDIDATES:], head)]
            found = folded(connection, ranked, every_version=asked.every_version)
            if len(found) >= wanted or (len(words) < depth and len(near) < depth):
                return found
            depth *= 4

    def _nearest(self, connection: Connection, asked: _Asked, limit: int, selection: Selection) -> list[Scored]:
        if asked.vector is None:
            return []
        # Phrases that must be there and words that must not hold for what is found by its meaning too.
        conditions = []
        if asked.query.required is not None:
            conditions.append(matching(asked.query.required))
        if asked.query.excluded is not None:
            conditions.append(none_of(matching(asked.query.excluded)))
        if conditions:
            selection = all_of([selection, *conditions])
        return self._index.nearest(
            connection,
            self._query_embedder.embedder_id,
            asked.vector,
            limit,
            selection,
            every_version=asked.every_version,
        )


def _unusable(problem: str) -> str:
    return f"The model cannot be used: found by words only. {problem}"


def _in_turns(words: Sequence[Scored], near: Sequence[Scored], before: Sequence[Scored]) -> list[Scored]:
    """Return what comes after the best: one of each arm in turn, none twice, scored below everything before it."""
    seen = {each.chunk_id for each in before}
    ranked = []
    for each in chain.from_iterable(zip_longest(words, near)):
        if each is not None and each.chunk_id not in seen:
            seen.add(each.chunk_id)
            ranked.append(Scored(each.chunk_id, 0.0))
    return ranked
