"""Ranked chunks as hits: those of one document folded, older versions behind newer ones, each shown with its place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kbsync.model import Hit
from kbsync.search.fusion import Scored
from kbsync.search.query import Query
from kbsync.search.snippet import snippet
from kbsync.store import chunks, documents, origins
from kbsync.store.connection import Connection

# How files come whose every version stays: a later one of the same place stands for the earlier ones.
_BROUGHT = ("added", "inbox")


@dataclass(frozen=True, slots=True)
class Found:
    """A document by its best chunk."""

    document_id: int
    chunk_id: int
    score: float


def folded(connection: Connection, ranked: Sequence[Scored], *, every_version: bool) -> list[Found]:
    """Return each document once, where its best chunk stands.

    What came by hand from one path is one thing in several versions: unless `every_version`, the newest that was found
    stands where the best of them does.
    """
    document_of = chunks.documents_of(connection, [each.chunk_id for each in ranked])
    best: dict[int, Found] = {}
    for each in ranked:
        document_id = document_of.get(each.chunk_id)
        if document_id is not None:
            best.setdefault(document_id, Found(document_id, each.chunk_id, each.score))
    newer = {} if every_version else _newer(connection, best)
    shown: dict[int, Found] = {}
    for document_id, found in best.items():
        newest = best[newer.get(document_id, document_id)]
        shown.setdefault(newest.document_id, Found(newest.document_id, newest.chunk_id, found.score))
    return list(shown.values())


def _newer(connection: Connection, document_ids: Iterable[int]) -> dict[int, int]:
    """Return which of the documents stands for an older one that nothing holds but paths where the newer came later."""
    holding: dict[int, list[origins.LiveOrigin]] = {}
    latest: dict[str, origins.LiveOrigin] = {}
    for origin in origins.live_of(connection, document_ids):
        holding.setdefault(origin.document_id, []).append(origin)
        if origin.kind in _BROUGHT and origin.path is not None:
            before = latest.get(origin.path)
            if before is None or (origin.since, origin.id) > (before.since, before.id):
                latest[origin.path] = origin
    newer = {}
    for document_id, held in holding.items():
        later = [latest[origin.path] for origin in held if origin.kind in _BROUGHT and origin.path is not None]
        if len(later) == len(held) and all(origin.document_id != document_id for origin in later):
            newer[document_id] = max(later, key=lambda origin: (origin.since, origin.id)).document_id
    return newer


def hits(connection: Connection, found: Sequence[Found], query: Query, first_rank: int) -> list[Hit]:
    """Return the hits, ranks from `first_rank`. Text and snippet are the raw text."""
    stored = chunks.by_ids(connection, [each.chunk_id for each in found])
    shown: list[Hit] = []
    for each in found:
        document = documents.by_id(connection, each.document_id)
        chunk = stored.get(each.chunk_id)
        if document is None or chunk is None:
            continue
        paths = tuple(origins.live_paths(connection, document.id))
        header, page = chunk.metadata.get("section_header"), chunk.metadata.get("page")
        shown.append(
            Hit(
                rank=first_rank + len(shown),
                score=round(each.score, 6),
                document_id=document.id,
                chunk_id=chunk.id,
                title=document.title,
                type=document.type,
                path=paths[0] if paths else origins.last_path(connection, document.id),
                paths=paths,
                section_header=header if isinstance(header, str) else None,
                page=page if isinstance(page, int) else None,
                state=document.state,
                snippet=snippet(chunk.text, query.terms),
                text=chunk.text,
            )
        )
    return shown
