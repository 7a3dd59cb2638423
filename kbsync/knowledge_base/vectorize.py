"""Embeds what a job has made of its file, but nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kbsync.failpoints import failpoint
from kbsync.knowledge_base.embedders import Embedding
from kbsync.model import Priority
from kbsync.store import vectors
from kbsync.store.writer import Readers

if TYPE_CHECKING:
    from kbsync.model import Vectors


class Vectorize:
    """Embeds only the texts that have no vector yet, in any version of any document.

    The embedder is chosen when it is called, at the end of what may be a long conversion; `embedder_id` says which.
    """

    def __init__(self, embedding: Callable[[], Embedding], readers: Readers, priority: Priority) -> None:
        self._embedding = embedding
        self._readers = readers
        self._priority = priority
        self.embedder_id = 0

    def __call__(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        embedding = self._embedding()
        self.embedder_id = embedding.embedder_id
        found = self._readers.read(lambda connection: vectors.known(connection, embedding.embedder_id, set(texts)))
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing:
            found.update(zip(missing, embedding.embedder.embed(missing, self._priority), strict=True))
            failpoint("vectorize.embedded")
        return np.stack([found[text] for text in texts])
