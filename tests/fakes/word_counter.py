"""A token counter without a model: words, single East Asian characters and punctuation marks are tokens."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|[^\w\s]")


class WordCounter:
    """Implements TokenCounter. Deterministic; a word is one token however long."""

    def count(self, text: str) -> int:
        return len(self.spans(text))

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in _TOKEN.finditer(text)]
