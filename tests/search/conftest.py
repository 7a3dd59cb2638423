"""A real database with documents that are written as a job writes them, and a search over it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kbsync.file_types import DocumentType
from kbsync.model import Filter, Hit, Origin, OriginKind, Reranker, SearchMode
from kbsync.search.hybrid import QueryEmbedder, Search
from kbsync.store import documents, origins, vectors
from kbsync.store.connection import Connection
from kbsync.store.writer import Readers, Writer
from tests.store.made_documents import EMBEDDER, NOW, made_update


class Library:
    """Documents and a search over them. `model_ready` and `model_problem` may be set."""

    def __init__(self, path: str) -> None:
        self.writer, self.readers = Writer(path), Readers(path)
        self.writer.open()
        self._embedder_id = self.writer.run(lambda connection: vectors.use_embedder(connection, EMBEDDER, NOW))
        self.model_ready = True
        self.model_problem: str | None = None
        self.searcher = self.searching()

    def searching(self, reranker: Reranker | None = None) -> Search:
        """Return a search of its own over the documents."""
        embedder = QueryEmbedder(
            EMBEDDER, self._embedder_id, lambda: self.model_ready, None, lambda: self.model_problem
        )
        return Search(self.readers, embedder, reranker)

    def add(
        self,
        path: str,
        *texts: str,
        title: str = "Untitled",
        document_type: DocumentType = "markdown",
        language: str | None = None,
        section: str | None = None,
        page: int | None = None,
        kind: OriginKind = "path",
        now: float = NOW,
    ) -> int:
        """Write a document of these chunks and return its id."""
        update = made_update(f"{path} {now}", *texts, title=title)
        where = {"section_header": section, "page": page}
        known = {key: value for key, value in where.items() if value is not None}
        head = f"{title} > {section}" if section else title
        chunks = tuple(
            replace(chunk, enriched_text=f"{head}\n\n{chunk.text}", metadata={**chunk.metadata, **known})
            for chunk in update.chunks
        )
        update = replace(update, type=document_type, language=language, chunks=chunks)

        def write(connection: Connection) -> int:
            document_id = documents.write(connection, update, self._embedder_id, now)
            origins.add(connection, document_id, Origin(kind, path, None), now)
            return document_id

        return self.writer.run(write)

    def lose(self, path: str) -> None:
        """End the path's origin: its file is gone."""
        self.writer.run(lambda connection: origins.end_path(connection, path, "missing", NOW))

    def search(
        self,
        text: str,
        mode: SearchMode = "hybrid",
        *filters: Filter,
        limit: int = 10,
        offset: int = 0,
        every_version: bool = False,
    ) -> list[Hit]:
        return list(self.searcher.search(text, mode, limit, offset, filters, every_version=every_version).hits)

    def found(self, text: str, mode: SearchMode = "hybrid", *filters: Filter, every_version: bool = False) -> list[str]:
        """Return the titles of the hits, in order."""
        hits = self.search(text, mode, *filters, limit=1000, every_version=every_version)
        return [hit.title for hit in hits]

    def close(self) -> None:
        self.writer.close()
        self.readers.close()


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    library = Library(str(tmp_path / "kb.sqlite3"))
    yield library
    library.close()


MODES: Sequence[SearchMode] = ("hybrid", "lexical", "vector")
