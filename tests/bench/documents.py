"""Conversion through the cage against bare Docling with the same options in the same kind of child process.

Ours is what the daemon waits for: the checks before it, conversion, chunks, the kept JSON, and the way to the child and
back. Bare is `DocumentConverter.convert` alone, timed inside its child. Both children are warm and take turns.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from io import BytesIO
from typing import Protocol

from kbsync.clock import SystemClock
from kbsync.compose import conversion_cage
from kbsync.embed.embedder import Device
from kbsync.embed.model_files import packaged_model
from kbsync.embed.sentence_transformer import SentenceTransformerDevice
from kbsync.model import ChunkLimits, Conversion, ConversionRequest
from kbsync.pipelines import docling_converter
from kbsync.pipelines.isolation import Cage, SlotStatus
from kbsync.pipelines.isolation_plan import Slots
from tests.bench.figures import Figure, ratio

FILES = ("pdf/2305.03393v1-pg9.pdf", "pdf/normal_4pages.pdf", "pdf/multi_page.pdf")
ROUNDS = 3
_LIMIT_S = 900.0
_GIGABYTE = 1 << 30


class Ours(Protocol):
    """The cage as the daemon uses it."""

    def run(self, request: ConversionRequest, time_limit_s: float) -> Conversion: ...
    def status(self) -> Sequence[SlotStatus]: ...


class Bare(Protocol):
    """A child that answers with the seconds that Docling took."""

    def run(self, request: ConversionRequest, time_limit_s: float) -> float: ...
    def status(self) -> Sequence[SlotStatus]: ...


def measure(rounds: int = ROUNDS) -> list[Figure]:
    """Return the figures for three PDFs of the corpus; none where KBSYNC_TEST_CORPUS names no folder."""
    corpus = os.environ.get("KBSYNC_TEST_CORPUS") or os.devnull
    if not os.path.isdir(corpus):
        print("documents: left out, KBSYNC_TEST_CORPUS names no folder")
        return []
    model, threads = packaged_model(), os.cpu_count() or 1
    slots = Slots(1, threads)
    device = SentenceTransformerDevice(model, "cpu")
    requests = [request_of(os.path.join(corpus, name), model.tokenizer_json, threads) for name in FILES]
    prepare = partial(docling_converter.warm_up, "auto", (), threads)
    with tempfile.TemporaryDirectory(prefix="kbsync-bench-") as folder:
        ours = conversion_cage(slots, os.path.join(folder, "ours"), (), None)
        bare = Cage(convert_bare, slots, os.path.join(folder, "bare"), SystemClock(), prepare=prepare)
        with closing(ours), closing(bare):
            return measured(ours, bare, requests, rounds, device)


def measured(
    ours: Ours, bare: Bare, requests: Sequence[ConversionRequest], rounds: int, device: Device
) -> list[Figure]:
    """Return seconds of both and their ratio for each file and for all, embedding apart, and the most memory held."""
    conversions = [ours.run(request, _LIMIT_S) for request in requests]
    for request in requests:
        bare.run(request, _LIMIT_S)
    own: list[list[float]] = [[] for _ in requests]
    theirs: list[list[float]] = [[] for _ in requests]
    for number in range(rounds):
        for place, request in enumerate(requests):
            for turn in (0, 1) if number % 2 else (1, 0):
                if turn:
                    own[place].append(_seconds(ours, request))
                else:
                    theirs[place].append(bare.run(request, _LIMIT_S))
    names = [request.name for request in requests] + ["all"]
    own.append([sum(values) for values in zip(*own, strict=True)])
    theirs.append([sum(values) for values in zip(*theirs, strict=True)])
    figures = []
    for name, mine, docling in zip(names, own, theirs, strict=True):
        figures.append(Figure(f"documents: cage, {name}", "s", tuple(mine)))
        figures.append(Figure(f"documents: bare, {name}", "s", tuple(docling)))
        figures.append(ratio(f"documents: cage against bare, {name}", mine, docling))
    figures += _embedding(device, conversions)
    for name, cage in (("cage", ours), ("bare", bare)):
        peak = max(status.peak_bytes for status in cage.status()) / _GIGABYTE
        figures.append(Figure(f"documents: peak memory, {name}", "GB a worker", (peak,)))
    return figures


def request_of(path: str, tokenizer_json: str, threads: int) -> ConversionRequest:
    """Return what the daemon would ask of its cage for a PDF."""
    return ConversionRequest(
        path=path,
        name=os.path.basename(path),
        type="pdf",
        content_hash="",
        ocr="auto",
        languages=(),
        password=None,
        limits=ChunkLimits(),
        tokenizer_json=tokenizer_json,
        threads=threads,
        kept=None,
    )


def convert_bare(request: ConversionRequest) -> float:
    """Convert with Docling alone, in a child; return the seconds that it took."""
    from docling.datamodel.base_models import DocumentStream

    converter = docling_converter.ready_converter("auto", (), request.threads, None, "pdf")
    with open(request.path, "rb") as file:
        stream = DocumentStream(name=request.name, stream=BytesIO(file.read()))
    started = time.perf_counter()
    converter.convert(stream)
    return time.perf_counter() - started


def _seconds(ours: Ours, request: ConversionRequest) -> float:
    started = time.perf_counter()
    ours.run(request, _LIMIT_S)
    return time.perf_counter() - started


def _embedding(device: Device, conversions: Sequence[Conversion]) -> list[Figure]:
    texts = [piece.text for conversion in conversions for piece in conversion.parsed.pieces]
    device.load()
    started = time.perf_counter()
    for first in range(0, len(texts), 16):
        device.encode(texts[first : first + 16], False)
    seconds = time.perf_counter() - started
    return [
        Figure("documents: embedding, all", "s", (seconds,)),
        Figure("documents: chunks embedded", "chunks", (len(texts),)),
    ]
