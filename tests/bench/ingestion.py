"""Where the time of ingestion goes: reading, chunking, embedding and committing the same files, one after the other."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from kbsync import ingest
from kbsync.embed.batcher import Batcher
from kbsync.embed.embedder import Device
from kbsync.embed.model_files import packaged_model
from kbsync.embed.sentence_transformer import SentenceTransformerDevice
from kbsync.embed.token_counter import HuggingFaceCounter
from kbsync.filesystem import RealFileSystem, Stat
from kbsync.knowledge_base import commits
from kbsync.model import (
    ChunkLimits,
    Conversion,
    DocumentUpdate,
    IngestOptions,
    Job,
    OcrMode,
    Origin,
    Priority,
    TokenCounter,
)
from kbsync.queue import job_queue
from kbsync.sources.snapshot import Snapshot, read_snapshot
from kbsync.store import sources, vectors
from kbsync.store.connection import Connection
from kbsync.store.writer import Writer
from tests.bench.figures import Figure
from tests.bench.library import library_files, small_notes

if TYPE_CHECKING:
    from kbsync.model import Vectors

FILES, NOTES = 200, 1000
# As many files as the daemon has workers go on at once.
_WORKERS = 4
_NOW = 1_000_000_000.0

T = TypeVar("T")
R = TypeVar("R")


def measure(
    files: int = FILES, device: Device | None = None, counter: TokenCounter | None = None, notes: int = NOTES
) -> list[Figure]:
    """Return the files a second of each stage and its share of all, for library code and for small Markdown files."""
    model = packaged_model() if device is None or counter is None else None
    if model is not None:
        device, counter = SentenceTransformerDevice(model, "cpu"), HuggingFaceCounter(model.tokenizer_json)
        dimension, limits = model.dimension, ChunkLimits(max_tokens=model.max_tokens)
    else:
        dimension, limits = 16, ChunkLimits()
    assert device is not None
    assert counter is not None
    batcher = Batcher(
        [device], counter, limits.max_tokens, fingerprint="bench", model_name="bench", dimension=dimension
    )
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kbsync-bench-"))
        batcher.start()
        stack.callback(batcher.stop)
        if not batcher.wait_ready(300):
            raise SystemExit(f"The model could not be loaded: {batcher.error}")
        writer = Writer(os.path.join(folder, "kb.sqlite3"))
        writer.open()
        writer.start()
        stack.callback(writer.close)
        code = _stages("code", library_files(files), batcher, counter, limits, writer)
        return code + _stages("notes", small_notes(folder, notes), batcher, counter, limits, writer)


def _stages(
    what: str, paths: Sequence[str], batcher: Batcher, counter: TokenCounter, limits: ChunkLimits, writer: Writer
) -> list[Figure]:
    counter.count("load the tokenizer")
    embedder_id, source_id = writer.run(lambda connection: _prepared(connection, batcher))
    fs, seconds = RealFileSystem(), {}
    seconds["read"], snapshots = _timed(
        lambda: [read_snapshot(fs, os.path.realpath(path), ingest.TEXT_BYTES) for path in paths]
    )
    seconds["chunk"], updates = _timed(
        lambda: [_chunked(path, snapshot, limits, counter) for path, snapshot in zip(paths, snapshots, strict=True)]
    )
    seconds["embed"], whole = _timed(lambda: _in_parallel(lambda update: _embedded(update, batcher), updates))
    jobs = [_claimed(writer, source_id, path, snapshot.stat) for path, snapshot in zip(paths, snapshots, strict=True)]

    def commit(work: tuple[Job, Snapshot, DocumentUpdate]) -> None:
        job, snapshot, update = work
        judged = commits.Judged(snapshot.stat, "rules")
        origin = Origin("path", job.path, source_id)
        writer.run(
            lambda connection: commits.ingested(connection, job, update, embedder_id, origin, judged, None, _NOW)
        )

    seconds["commit"], _ = _timed(lambda: _in_parallel(commit, list(zip(jobs, snapshots, whole, strict=True))))
    total, chunks = sum(seconds.values()), sum(len(update.chunks) for update in updates)
    name = f"ingestion of {what}"
    return [
        *(Figure(f"{name}: {stage}", "files/s", (len(paths) / spent,)) for stage, spent in seconds.items()),
        *(Figure(f"{name}: share of {stage}", "%", (100 * spent / total,)) for stage, spent in seconds.items()),
        Figure(f"{name}: all stages", "files/s", (len(paths) / total,)),
        Figure(f"{name}: documents", "documents", (float(len(paths)),)),
        Figure(f"{name}: chunks", "chunks", (float(chunks),)),
    ]


def _prepared(connection: Connection, batcher: Batcher) -> tuple[int, int]:
    return vectors.use_embedder(connection, batcher, _NOW), sources.ensure(connection, "/library", _NOW)


def _chunked(path: str, snapshot: Snapshot, limits: ChunkLimits, counter: TokenCounter) -> DocumentUpdate:
    options, reader = IngestOptions(), _TextOnly()
    content = ingest.Content(snapshot.head, snapshot.size, snapshot.content_hash, os.path.basename(path), options)
    kind = ingest.kind_of(content.name, options, limits, reader, "auto")
    return ingest.ingest(
        content, kind, limits, counter, reader, lambda texts: np.zeros((len(texts), 1), dtype=np.float32)
    )


class _TextOnly:
    """Stands where documents are read: the library has none."""

    encodings: tuple[str, ...] = ()

    def fingerprint(self, ocr: OcrMode) -> str:
        raise ValueError(ocr)

    def read(self, content: ingest.Content, kind: ingest.Kind) -> Conversion:
        raise ValueError(content.name)


def _embedded(update: DocumentUpdate, batcher: Batcher) -> DocumentUpdate:
    texts = [chunk.enriched_text for chunk in update.chunks]
    rows: Vectors | None = batcher.embed(texts, Priority.SCAN) if texts else None
    return replace(update, vectors=rows)


def _claimed(writer: Writer, source_id: int, path: str, stat: Stat) -> Job:
    def claim(connection: Connection) -> Job | None:
        job_queue.enqueue_path(connection, source_id, path, stat.size, Priority.SCAN, _NOW)
        return job_queue.claim(connection, "text", Priority.LOW, _NOW)

    job = writer.run(claim)
    if job is None:
        raise RuntimeError("A job that was queued cannot be claimed.")
    return job


def _in_parallel(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    with ThreadPoolExecutor(_WORKERS) as workers:
        return list(workers.map(work, items))


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result
