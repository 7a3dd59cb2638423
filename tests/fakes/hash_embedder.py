"""Embedders without a model: a text's vector is the sum of its words' hashes, so texts that share words are near."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from kbsync.embed.embedder import DeviceInfo
from kbsync.model import Priority

if TYPE_CHECKING:
    from kbsync.model import Vectors


@cache
def _word_vector(word: str, dimension: int) -> Vectors:
    digest = hashlib.shake_256(word.encode("utf-8", "replace")).digest(dimension)
    return np.frombuffer(digest, dtype=np.uint8).astype(np.float32) - np.float32(127.5)


def hash_vectors(texts: Sequence[str], dimension: int) -> Vectors:
    """Return one normalised row a text; a text without words has the vector of the empty word."""
    rows = np.zeros((len(texts), dimension), dtype=np.float32)
    for row, text in zip(rows, texts, strict=True):
        for word in re.findall(r"\w+", text.lower()) or [""]:
            row += _word_vector(word, dimension)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / lengths, dtype=np.float32)


class WordCounter:
    """A `TokenCounter` for which every run of characters without white space is a token."""

    def count(self, text: str) -> int:
        return len(text.split())

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [found.span() for found in re.finditer(r"\S+", text)]


class HashEmbedder:
    """A `model.Embedder`; `embedded` lists every text it was given, in order."""

    model_name = "hashed words"

    def __init__(self, dimension: int = 16) -> None:
        self._dimension = dimension
        self._lock = threading.Lock()
        self.embedded: list[str] = []

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def fingerprint(self) -> str:
        return f"hashed-words-{self._dimension}"

    def embed(self, texts: Sequence[str], priority: Priority) -> Vectors:
        with self._lock:
            self.embedded += texts
        return hash_vectors(texts, self._dimension)


class HashDevice:
    """A `Device` for the batcher; `batches` lists what it was given, in order, with the query flag."""

    def __init__(self, dimension: int = 16, name: str = "fake", batch_tokens: int = 64) -> None:
        self._dimension = dimension
        self._name = name
        self._batch_tokens = batch_tokens
        self.notice: str | None = None
        self.info: DeviceInfo | None = None
        self.loaded = False
        self.loads = self.unloads = 0
        self.is_ended = False
        self.batches: list[tuple[tuple[str, ...], bool]] = []

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def batch_tokens(self) -> int:
        return self._batch_tokens

    def load(self) -> None:
        self.loads += 1
        self.loaded = True

    def unload(self) -> None:
        self.unloads += self.loaded
        self.loaded = False

    def end(self) -> None:
        self.is_ended = True

    def encode(self, texts: Sequence[str], query: bool) -> Vectors:
        self.batches.append((tuple(texts), query))
        return hash_vectors(texts, self._dimension)


class GatedDevice(HashDevice):
    """Says when it has begun a batch and goes on when it is let."""

    def __init__(self, *, name: str = "fake", batch_tokens: int = 64) -> None:
        super().__init__(name=name, batch_tokens=batch_tokens)
        self.begun = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)

    def encode(self, texts: Sequence[str], query: bool) -> Vectors:
        self.begun.release()
        assert self.gate.acquire(timeout=20)
        return super().encode(texts, query)
