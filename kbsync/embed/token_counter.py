"""Counts tokens with the model's own tokenizer.json, without torch and without the model."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from kbsync.errors import Unready
from kbsync.reasons import Reason

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# One call over 1 MB takes twice as long as calls over parts of it, holds some 200 bytes a token, and no other thread
# runs meanwhile; parts of this many characters take 2 ms each.
_PART = 4000
# Counts of so many texts no longer than that are kept: some megabytes.
_REMEMBERED = 4096

# Where a tokenizer starts afresh whatever stood before: at a space after a letter or digit. After punctuation it does
# not hold (`.\n` is one token for some), nor at other white space (a text that begins with it gets a space for some).
_CUT = re.compile(r"[^\W_](?= )")
# BERT splits at all white space, drops the rarer control characters, and puts spaces around these ideographs.
_BERT_CUT = re.compile(r"[^\W_](?=[ \t\n])|[\u4e00-\u9fff](?=[\u4e00-\u9fff])")


def encodable(text: str) -> str:
    """Return the text with a question mark for each lone surrogate, which no tokenizer takes; as long as before."""
    return text.encode("utf-8", "replace").decode("utf-8")


class HuggingFaceCounter:
    """A `TokenCounter` from the path of a tokenizer.json. Loads it at the first call; for any number of threads."""

    def __init__(self, tokenizer_json: str) -> None:
        self._path = tokenizer_json
        self._lock = threading.Lock()
        self._loaded: tuple[Tokenizer, re.Pattern[str]] | None = None
        self._remembered = lru_cache(_REMEMBERED)(self._count)

    def count(self, text: str) -> int:
        """Return how many tokens the model makes of a text. Raises Unready(MODEL) where the file cannot be used."""
        # A class' signature is counted for each method, a chunk when it is made and again when it is embedded.
        return self._remembered(text) if len(text) <= _PART else self._count(text)

    def _count(self, text: str) -> int:
        tokenizer, cut = self._load()
        return sum(len(tokenizer.encode(part, add_special_tokens=False)) for _, part in _parts(text, cut))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return each token's (start, end) in characters. Raises Unready(MODEL) where the file cannot be used."""
        tokenizer, cut = self._load()
        found: list[tuple[int, int]] = []
        for offset, part in _parts(text, cut):
            places = tokenizer.encode(part, add_special_tokens=False).offsets
            found += [(start + offset, end + offset) for start, end in places] if offset else places
        return found

    def _load(self) -> tuple[Tokenizer, re.Pattern[str]]:
        with self._lock:
            if self._loaded is None:
                self._loaded = _open(self._path)
            return self._loaded


def _open(path: str) -> tuple[Tokenizer, re.Pattern[str]]:
    from tokenizers import Tokenizer

    try:
        with open(path, encoding="utf-8") as file:
            content = file.read()
        is_bert = bool((json.loads(content).get("normalizer") or {}).get("handle_chinese_chars"))
        tokenizer = Tokenizer.from_str(content)
    except Exception as error:  # the library raises bare Exceptions
        raise Unready(
            Reason.MODEL, f"The tokenizer {path} cannot be used: {error}.", hint="Reinstall the embedding model."
        ) from error
    # The files of MiniLM ask for 128 tokens, cut and padded.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer, _BERT_CUT if is_bert else _CUT


def _parts(text: str, cut: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Yield (offset, part); parts are cut only where the tokens stay the same."""
    text = encodable(text)
    start = 0
    while len(text) - start > _PART:
        found = cut.search(text, start + _PART - 1)
        if found is None:
            break
        yield start, text[start : found.end()]
        start = found.end()
    yield start, text[start:]
