"""One query to hits: words and vectors looked up in one read transaction, fused, folded by document, shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbsync.errors import KbsyncError
from kbsync.model import Embedder, Hit, Priority, SearchMode, SearchResult
from kbsync.search.fusion import Scored, fuse, vector_weight_for
from kbsync.search.query import Query, parse
from kbsync.search.snippet import snippet
from kbsync.search.vector import VectorIndex
from kbsync.store import chunks, documents, origins
from kbsync.store.connection import Connection
from kbsync.store.writer import Readers

if TYPE_CHECKING:
    from kbsync.model import Vectors

# So many chunks of each arm go into the fusion: far more than anybody looks at, few enough to be fast.
CANDIDATES = 200
# A file's name says less about its content than its words do.
NAME_WEIGHT = 0.3


@dataclass(frozen=True, slots=True)
class QueryEmbedder:
    """The embedder as search needs it. `ready`: a query is answered at once; `languages`: None where it knows all."""

    embedder: Embedder
    embedder_id: int
    ready: Callable[[], bool]
    languages: frozenset[str] | None


class Search:
    """Answers queries. Any thread may ask; nothing here waits for ingestion."""

    def __init__(self, readers: Readers, query_embedder: QueryEmbedder) -> None:
        self._readers = readers
        self._query_embedder = query_embedder
        self._index = VectorIndex()

    def search(self, text: str, mode: SearchMode, limit: int, offset: int = 0) -> SearchResult:
        """Return the best documents for a query of any characters, each by its best chunk.

        While the model still loads, or cannot be used, the answer is lexical and `notice` says so.
        """
        begun = time.perf_counter()
        query = parse(text)
        vector, notice = self._vector(query, mode)
        done: SearchMode = mode if vector is not None or mode == "lexical" else "lexical"
        hits = self._readers.read(lambda connection: self._hits(connection, query, done, vector, limit, offset))
        return SearchResult(text, done, (time.perf_counter() - begun) * 1000, tuple(hits), notice)

    def _vector(self, query: Query, mode: SearchMode) -> tuple[Vectors | None, str | None]:
        if mode == "lexical" or not query.text.strip():
            return None, None
        if not self._query_embedder.ready():
            return None, "The model is not loaded yet: found by words only."
        try:
            return self._query_embedder.embedder.embed([query.text], Priority.QUERY)[0], None
        except KbsyncError as error:
            return None, f"The model cannot be used: found by words only. {error}"

    def _hits(
        self,
        connection: Connection,
        query: Query,
        mode: SearchMode,
        vector: Vectors | None,
        limit: int,
        offset: int,
    ) -> list[Hit]:
        lexical = [] if mode == "vector" else _lexical(connection, query)
        nearest = []
        if vector is not None:
            embedder_id = self._query_embedder.embedder_id
            nearest = self._index.nearest(connection, embedder_id, vector, CANDIDATES)
        weight = vector_weight_for(query.script, self._query_embedder.languages)
        ranked = fuse(lexical, nearest, weight)
        return _shown(connection, ranked, query, limit, offset)


def _lexical(connection: Connection, query: Query) -> list[Scored]:
    """Return chunks by their words, scaled to the best one, those of a file with a matching name lifted."""
    if query.match is None:
        return []
    found = chunks.matching(connection, query.match, CANDIDATES)
    named = chunks.matching_names(connection, query.match, CANDIDATES)
    scores: dict[int, float] = {}
    for rows, weight in ((found, 1.0), (named, NAME_WEIGHT)):
        best = max((score for _chunk, _document, score in rows), default=0.0)
        for chunk_id, _document, score in rows:
            scores[chunk_id] = scores.get(chunk_id, 0.0) + weight * (score / best if best > 0 else 1.0)
    return [Scored(chunk_id, score) for chunk_id, score in scores.items()]


def _shown(connection: Connection, ranked: Sequence[Scored], query: Query, limit: int, offset: int) -> list[Hit]:
    """Fold chunks of one document into its best one and make hits of those that are asked for."""
    stored = chunks.by_ids(connection, [scored.chunk_id for scored in ranked])
    best: dict[int, Scored] = {}
    for scored in ranked:
        chunk = stored.get(scored.chunk_id)
        if chunk is not None:
            best.setdefault(chunk.document_id, scored)
    hits: list[Hit] = []
    for document_id, scored in list(best.items())[offset : offset + limit]:
        document = documents.by_id(connection, document_id)
        if document is None or document.state != "current":
            continue
        chunk = stored[scored.chunk_id]
        paths = tuple(origins.live_paths(connection, document_id))
        header, page = chunk.metadata.get("section_header"), chunk.metadata.get("page")
        hits.append(
            Hit(
                rank=offset + len(hits) + 1,
                score=round(scored.score, 6),
                document_id=document_id,
                chunk_id=chunk.id,
                title=document.title,
                type=document.type,
                path=paths[0] if paths else None,
                paths=paths,
                section_header=header if isinstance(header, str) else None,
                page=page if isinstance(page, int) else None,
                snippet=snippet(chunk.text, query.terms),
                text=chunk.text,
            )
        )
    return hits
