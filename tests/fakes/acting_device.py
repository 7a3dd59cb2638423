"""A device in whose work a test can meddle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tests.fakes.hash_embedder import HashDevice

if TYPE_CHECKING:
    from kbsync.model import Vectors


class ActingDevice(HashDevice):
    """Does what a test says before it encodes passages."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[Sequence[str]], None] = lambda texts: None

    def encode(self, texts: Sequence[str], query: bool) -> Vectors:
        if not query:
            self.before(texts)
        return super().encode(texts, query)
