"""How long a search takes over many chunks, idle and beside ingestion, against a plain FTS query and a numpy scan.

The vectors are drawn near those of texts that were really embedded; the time to embed the query is not counted in, but
told.
"""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kbsync.file_types import DocumentType
from kbsync.model import Chunk, DocumentUpdate, Embedder, Filter, Origin, Priority, SearchMode
from kbsync.pipelines.enrich import enriched_text
from kbsync.search.hybrid import QueryEmbedder, Search
from kbsync.search.query import parse
from kbsync.store import documents, origins, vectors
from kbsync.store.connection import Connection
from kbsync.store.writer import Readers, Writer
from tests.bench.figures import Figure, ratio
from tests.bench.judged import described_functions
from tests.bench.retrieval import RememberingEmbedder, packaged_embedder

if TYPE_CHECKING:
    from kbsync.model import Vectors

CHUNKS = 100_000
EMBEDDED = 2_000
QUERIES = 60
_CHUNKS_A_DOCUMENT = 20
_DOCUMENTS_A_COMMIT = 25
# A document in fifty is a PDF, every second one lies in this folder.
_RARE: DocumentType = "pdf"
_HALF = "/library/even"


@dataclass(frozen=True, slots=True)
class Material:
    """Texts with their vectors, of shape (n, d), to draw chunks from; and questions."""

    texts: list[tuple[str, str]]
    rows: Vectors
    questions: list[str]


def material(embedder: Embedder, embedded: int, queries: int) -> Material:
    """Embed so many texts, made of the standard library's functions, and return them with questions."""
    collection = described_functions()
    draw = random.Random(1)
    texts = [(text.title, text.text) for text in collection.texts][:embedded]
    while len(texts) < embedded:
        (title, one), (_title, other) = draw.sample(texts[: len(collection.texts)], 2)
        lines = one.splitlines()[:12] + other.splitlines()[:12]
        texts.append((title, "\n".join(draw.sample(lines, len(lines)))))
    rows = embedder.embed([enriched_text(title, None, text) for title, text in texts], Priority.SCAN)
    return Material(texts, rows, list(collection.questions.values())[:queries])


class Filled:
    """A database of many chunks, its search, and a hand that goes on adding documents."""

    def __init__(self, folder: str, embedder: Embedder, found: Material) -> None:
        path = os.path.join(folder, "kb.sqlite3")
        self._writer, self.readers = Writer(path), Readers(path)
        self._embedder = embedder
        self._material = found
        self._draw = np.random.default_rng(2)
        self._documents = 0

    def open(self) -> None:
        self._writer.open()
        self._writer.start()
        self.embedder_id = self._writer.run(lambda connection: vectors.use_embedder(connection, self._embedder, 0.0))
        self.search = Search(self.readers, QueryEmbedder(self._embedder, self.embedder_id, lambda: True, None))

    def fill(self, chunks: int) -> None:
        for _ in range(0, chunks, _CHUNKS_A_DOCUMENT * _DOCUMENTS_A_COMMIT):
            self._writer.run(self._add_documents)

    def add_document(self) -> None:
        """Commit one more document."""
        self._writer.run(self._add_document)

    def close(self) -> None:
        self._writer.close()
        self.readers.close()

    def _add_documents(self, connection: Connection) -> None:
        for _ in range(_DOCUMENTS_A_COMMIT):
            self._add_document(connection)

    def _add_document(self, connection: Connection) -> None:
        number = self._documents
        self._documents += 1
        picked = self._draw.integers(len(self._material.texts), size=_CHUNKS_A_DOCUMENT)
        rows = self._material.rows[picked]
        noise = self._draw.standard_normal(rows.shape, dtype=np.float32) * (0.5 / rows.shape[1] ** 0.5)
        rows = rows + noise
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        title = f"Document {number}"
        chunks = tuple(self._chunk(title, position, int(which)) for position, which in enumerate(picked))
        update = DocumentUpdate(
            content_hash=f"document {number}",
            title=title,
            title_source="content",
            type=_RARE if number % 50 == 0 else "code",
            type_by_hand=False,
            language=None,
            original_filename=None,
            size_bytes=1,
            page_count=None,
            converter_fingerprint="",
            chunker_fingerprint="",
            metadata={},
            chunks=chunks,
            vectors=rows,
            reason=None,
        )
        document_id = documents.write(connection, update, self.embedder_id, 0.0)
        folder = _HALF if number % 2 == 0 else "/library/odd"
        origins.add(connection, document_id, Origin("path", f"{folder}/{number}.py", None), 0.0)

    def _chunk(self, title: str, position: int, which: int) -> Chunk:
        header, text = self._material.texts[which]
        return Chunk(position, text, enriched_text(title, header, text), {"section_header": header}, len(text.split()))


def timed(ask: Callable[[str], object], questions: Sequence[str]) -> tuple[float, ...]:
    """Return how many milliseconds each question takes, after one that is not counted."""
    ask(questions[0])
    times = []
    for question in questions:
        begun = time.perf_counter()
        ask(question)
        times.append((time.perf_counter() - begun) * 1000)
    return tuple(times)


def measure(
    chunks: int = CHUNKS, embedded: int = EMBEDDED, queries: int = QUERIES, embedder: Embedder | None = None
) -> list[Figure]:
    """Return the times of every kind of search, in milliseconds."""
    remembering = RememberingEmbedder(embedder or packaged_embedder()[0], None)
    found = material(remembering, embedded, queries)
    embedding = timed(lambda question: remembering.embed([question], Priority.QUERY), found.questions)
    with tempfile.TemporaryDirectory() as folder:
        filled = Filled(folder, remembering, found)
        filled.open()
        try:
            begun = time.perf_counter()
            filled.fill(chunks)
            figures = [
                Figure("search: chunks written", "chunks/s", (chunks / (time.perf_counter() - begun),)),
                Figure("search: embedding the query (not counted in)", "ms", embedding),
            ]
            bare = _bare(filled, found, remembering)
            figures += [Figure(f"search: {name}", "ms", times) for name, times in bare.items()]
            idle = _searches(filled, found.questions)
            figures += [Figure(f"search: {name}", "ms", times) for name, times in idle.items()]
            figures.append(ratio("search: lexical against plain FTS", idle["lexical"], bare["plain FTS query"]))
            figures.append(ratio("search: vector against a numpy scan", idle["vector"], bare["numpy scan"]))
            beside, commits = _beside_ingestion(filled, found.questions)
            figures += [Figure(f"search beside ingestion: {name}", "ms", times) for name, times in beside.items()]
            figures.append(Figure("search beside ingestion: commits", "documents", (float(commits),)))
        finally:
            filled.close()
    return figures


def _searches(filled: Filled, questions: Sequence[str]) -> dict[str, tuple[float, ...]]:
    def asking(mode: SearchMode, *filters: Filter) -> Callable[[str], object]:
        return lambda question: filled.search.search(question, mode, 10, 0, filters)

    asking("vector")(questions[0])  # the matrix is made at the second question, which is not counted
    rare, half = Filter("type", (_RARE,)), Filter("place", (_HALF,))
    kinds = {
        "lexical": asking("lexical"),
        "vector": asking("vector"),
        "hybrid": asking("hybrid"),
        "hybrid, 2 % by type": asking("hybrid", rare),
        "hybrid, half by folder": asking("hybrid", half),
    }
    return {name: timed(ask, questions) for name, ask in kinds.items()}


def _bare(filled: Filled, found: Material, embedder: Embedder) -> dict[str, tuple[float, ...]]:
    """Return the times of the least that can be done: one FTS query, one product with the matrix."""

    def plain(question: str) -> object:
        match = parse(question).match
        sql = "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ? ORDER BY rank LIMIT 200"
        return filled.readers.read(lambda connection: connection.execute(sql, (match,)).fetchall())

    def matrix(connection: Connection) -> Vectors:
        return vectors.load(connection, filled.embedder_id, vectors.current_chunks(connection).tolist())

    rows = filled.readers.read(matrix)

    def scan(question: str) -> object:
        scores = rows @ embedder.embed([question], Priority.QUERY)[0]
        return np.argpartition(-scores, min(200, len(scores) - 1))[:200]

    return {"plain FTS query": timed(plain, found.questions), "numpy scan": timed(scan, found.questions)}


def _beside_ingestion(filled: Filled, questions: Sequence[str]) -> tuple[dict[str, tuple[float, ...]], int]:
    """Return the times while documents come in as fast as they can be written, and how many came."""
    stop, commits = threading.Event(), 0

    def add() -> None:
        nonlocal commits
        while not stop.is_set():
            filled.add_document()
            commits += 1

    thread = threading.Thread(target=add)
    thread.start()
    try:
        return _searches(filled, questions), commits
    finally:
        stop.set()
        thread.join()
