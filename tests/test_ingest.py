"""One file to one update: what a title that somebody gave does to the chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kbsync.ingest import Content, Kind, ingest, kind_of
from kbsync.model import ChunkLimits, Conversion, DocumentUpdate, IngestOptions, OcrMode
from tests.fakes.word_counter import WordCounter

if TYPE_CHECKING:
    from kbsync.model import Vectors

LIMITS = ChunkLimits(min_tokens=5, max_tokens=64)


class NoReader:
    """Text needs no converter."""

    encodings: tuple[str, ...] = ()

    def fingerprint(self, ocr: OcrMode) -> str:
        raise AssertionError(ocr)

    def read(self, content: Content, kind: Kind) -> Conversion:
        raise AssertionError(content, kind)


def ingested(name: str, text: str, title: str | None) -> DocumentUpdate:
    options = IngestOptions(title=title)
    content = Content(head=text.encode(), size=len(text.encode()), content_hash="0" * 64, name=name, options=options)
    kind = kind_of(name, options, LIMITS, NoReader(), "auto")
    return ingest(content, kind, LIMITS, WordCounter(), NoReader(), vectorize)


def vectorize(texts: Sequence[str]) -> Vectors:
    return np.ones((len(texts), 4), dtype=np.float32)


@pytest.mark.parametrize("title", ["Mine", "A title that leaves no room for any text in a chunk " * 10])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "# Own title\n\n" + "Some words of text. " * 100),
        ("a.md", "---\ntitle: Own title\n---\n\n" + "Some words of text. " * 100),
        ("a.log", "Own title\n" + "some words\n" * 200),
        ("a.py", "# Own title\n" + "def f(x):\n    return x\n" * 40),
    ],
)
def test_a_title_by_hand_heads_every_chunk_within_the_limit_and_the_own_one_is_still_found(
    name: str, text: str, title: str
) -> None:
    update = ingested(name, text, title)
    assert (update.title, update.title_source) == (title, "hand")
    assert all(chunk.enriched_text.startswith(title[:4]) for chunk in update.chunks)
    assert max(WordCounter().count(chunk.enriched_text) for chunk in update.chunks) <= LIMITS.max_tokens
    assert any("Own title" in chunk.enriched_text for chunk in update.chunks)
