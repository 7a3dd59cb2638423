"""Very large and very odd texts: flat memory, linear work, nothing that cannot be stored."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from kbsync import ingest
from kbsync.file_types import DocumentType
from kbsync.model import ChunkLimits
from kbsync.pipelines import router
from kbsync.pipelines.enrich import make_chunks
from kbsync.reasons import Reason
from kbsync.store import tokenizer
from tests.fakes.word_counter import WordCounter

_MEGABYTE = 1_000_000
LIMITS = ChunkLimits()


def measured(kind: str, megabytes: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.pipelines.reading_memory", kind, str(megabytes)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(answer.stdout)
    return result


@pytest.mark.parametrize("kind", ["gb18030", "log", "notebook"])
def test_memory_does_not_follow_the_size_of_a_file(kind: str) -> None:
    small, large = measured(kind, 21), measured(kind, 84)
    added = [round(row["added_bytes"] / _MEGABYTE) for row in (small, large)]
    sys.stdout.write(f"\n{kind}: {added[0]} MB more for 21 MB, {added[1]} MB more for 84 MB\n")
    assert (small["reason"], large["reason"]) == (Reason.TRUNCATED, Reason.TRUNCATED)
    assert large["size"] == 84 * _MEGABYTE
    assert large["added_bytes"] < small["added_bytes"] + 20 * _MEGABYTE
    # Bytes and text of what is read, each twice for a moment; a character of such text may take four bytes.
    assert large["added_bytes"] < 9 * ingest.TEXT_BYTES


class WorkCounter(WordCounter):
    """Counts how many characters it was given."""

    def __init__(self) -> None:
        self.characters = 0

    def spans(self, text: str) -> list[tuple[int, int]]:
        self.characters += len(text)
        return super().spans(text)


ODD: dict[str, bytes] = {
    "one line of words": b"word " * 40_000,
    "one line without spaces": b"QUJDREVGR0hJSktMTU5PUFFSU1RVVldY" * 6_000,
    "one line of JSON": b'{"key":[1,2,3]},' * 12_000,
    "combining marks": ("e" + "\u0301" * 200_000).encode(),
    "a text of zalgo": (("e" + "\u0301" * 30) * 10 + " ").encode() * 300,
    "emoji joined": "👩\u200d👩\u200d👧\u200d👦".encode() * 8_000,
    "line separators": "A sentence.\u2028".encode() * 12_000,
    "lone returns": b"A line of words here\r" * 10_000,
    "nul bytes": (b"A line of words with a hole\x00 in it\n" * 100) * 60,
    "control characters": b"A line of words \x07\x1b[31m in red\n" * 6_000,
    "halves of pairs": "word \ud83d\n".encode("utf-8", "surrogatepass") * 20_000,
    "directions": "\u202eabc\u202c \u2066def\u2069 ".encode() * 10_000,
    "blank lines": b"\n" * 200_000 + b"the end",
    "full stops": b". " * 100_000,
    "brackets": b"[" * 200_000,
    "quotes": b'"' * 200_000,
    "headers": b"# a\n" * 20_000,
}


@pytest.mark.parametrize("document_type", ["markdown", "text", "csv"])
@pytest.mark.parametrize("data", ODD.values(), ids=ODD.keys())
def test_odd_texts_are_cut_and_indexed_with_work_that_follows_their_length(
    data: bytes, document_type: DocumentType
) -> None:
    counter = WorkCounter()
    parsed = router.convert(data, document_type, None, "odd", LIMITS, counter)
    text = data.decode("utf-8", "replace")
    assert counter.characters < 8 * len(text) + 100_000
    chunks = make_chunks(parsed, router.title_of(parsed, "odd"), WordCounter())
    assert chunks
    for chunk in chunks[:: max(1, len(chunks) // 50)]:
        assert chunk.token_count <= LIMITS.max_tokens
        assert "\x00" not in chunk.enriched_text
        chunk.enriched_text.encode("utf-8")
        for start, end, token, _ in tokenizer.words(chunk.enriched_text):
            assert token
            assert start < end


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"one\rtwo\rthree", 3),
        (b"one\r\ntwo\r\nthree", 3),
        ("one\u2028two\u2029three".encode(), 1),
        ("one\u0085two\x0cthree".encode(), 1),
        ("one\ntwo\u2028two\nthree".encode("utf-16"), 3),
        ("\ufeffone\r\n\r\nthree".encode("utf-16-le"), 3),
    ],
)
def test_only_real_line_ends_count_as_lines(data: bytes, lines: int) -> None:
    parsed = router.convert(data, "text", None, "odd", LIMITS, WordCounter())
    assert [(piece.first_line, piece.last_line) for piece in parsed.pieces] == [(1, lines)]


def test_a_notebook_that_writes_half_a_pair_as_an_escape_can_be_stored() -> None:
    data = (
        rb'{"cells": [{"cell_type": "markdown", "source": ["# Half \ud83d\n", "quince \ud83d\ude00"]}], "nbformat": 4}'
    )
    parsed = router.convert(data, "code", "notebook", "odd.ipynb", LIMITS, WordCounter())
    assert (parsed.title, parsed.pieces[0].text) == ("Half \ufffd", "quince 😀")
