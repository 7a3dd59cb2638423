"""Plain text and data: fixed size, good places to cut, overlap."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from kbsync.file_types import DocumentType
from kbsync.model import ChunkLimits, Parsed
from kbsync.pipelines import router
from tests.fakes.word_counter import WordCounter

LIMITS = ChunkLimits(max_tokens=40, overlap_tokens=8)


def read(text: str, document_type: DocumentType = "text", limits: ChunkLimits = LIMITS) -> Parsed:
    return router.convert(text.encode(), document_type, None, "file", limits, WordCounter())


def counted(parsed: Parsed) -> list[int]:
    return [WordCounter().count(f"file\n\n{piece.text}") for piece in parsed.pieces]


def test_paragraphs_are_packed_whole() -> None:
    paragraphs = [f"Paragraph {number} has these nine words in all." for number in range(12)]
    parsed = read("\n\n".join(paragraphs))
    assert max(counted(parsed)) <= 40
    assert all(piece.text.endswith("in all.") for piece in parsed.pieces)
    assert all(any(paragraph in piece.text for piece in parsed.pieces) for paragraph in paragraphs)


def test_a_long_paragraph_is_cut_at_sentences_with_overlap() -> None:
    sentences = [f"Sentence {number} is here." for number in range(60)]
    parsed = read(" ".join(sentences))
    assert max(counted(parsed)) <= 40
    assert all(piece.text.startswith("Sentence") and piece.text.endswith("here.") for piece in parsed.pieces)
    for before, after in pairwise(parsed.pieces):
        assert before.text.split(". ")[-1] in after.text


@pytest.mark.parametrize("stop", "。！？｡．")
def test_chinese_is_cut_at_its_full_stops(stop: str) -> None:
    parsed = read(f"索引总是正确的{stop}" * 40, limits=ChunkLimits(max_tokens=40, overlap_tokens=0))
    assert len(parsed.pieces) > 5
    assert all(piece.text.endswith(f"正确的{stop}") and piece.text.startswith("索引") for piece in parsed.pieces)


def test_chinese_without_any_stop_is_cut_to_size_and_nothing_is_lost() -> None:
    text = "".join(chr(0x4E00 + number) for number in range(1000))
    parsed = read(text, limits=ChunkLimits(max_tokens=40, overlap_tokens=0))
    assert "".join(piece.text for piece in parsed.pieces) == text
    assert max(counted(parsed)) <= 40
    assert len(parsed.pieces) < 35


def test_a_closing_quote_stays_with_its_sentence_and_a_wide_decimal_is_no_end() -> None:
    for sentence in ("他说：「索引总是正确的。」", "値は３．１４である。"):
        parsed = read(sentence * 30, limits=ChunkLimits(max_tokens=40, overlap_tokens=0))
        assert {piece.text.replace(sentence, "") for piece in parsed.pieces} == {""}


def test_a_log_is_cut_between_its_lines() -> None:
    rows = [f"2024-01-01 12:00:{number:02} INFO worker. done: {number}" for number in range(50)]
    parsed = read("\n".join(rows))
    assert max(counted(parsed)) <= 40
    assert all(row in rows for piece in parsed.pieces for row in piece.text.split("\n"))


def test_without_overlap_nothing_comes_twice_and_nothing_is_lost() -> None:
    words = [f"w{number}" for number in range(1000)]
    parsed = read(" ".join(words), limits=ChunkLimits(max_tokens=40, overlap_tokens=0))
    assert [word for piece in parsed.pieces for word in piece.text.split()] == words


def test_words_without_any_stop_overlap_by_tokens() -> None:
    words = [f"w{number}" for number in range(300)]
    parsed = read(" ".join(words))
    assert max(counted(parsed)) <= 40
    for before, after in pairwise(parsed.pieces):
        shared = set(before.text.split()) & set(after.text.split())
        assert 1 <= len(shared) <= 8


def test_a_word_without_end_is_cut_by_characters() -> None:
    parsed = read("x" * 100_000)
    assert "".join(piece.text for piece in parsed.pieces) == "x" * 100_000
    assert max(len(piece.text) for piece in parsed.pieces) <= 40 * 32


def test_data_are_cut_between_lines_and_keep_their_indentation() -> None:
    text = json.dumps([{"name": f"item {number}", "note": "Yes. No."} for number in range(30)], indent=2)
    parsed = read(text, "data", ChunkLimits(max_tokens=60, overlap_tokens=0))
    assert "\n".join(piece.text for piece in parsed.pieces) == text
    assert {piece.kind for piece in parsed.pieces} == {"data"}


def test_lines_are_counted_by_line_feeds_only() -> None:
    parsed = read("one\u2028still one\x0cstill\n\n\ntwo\n" + "end " * 60)
    assert (parsed.pieces[0].first_line, parsed.pieces[-1].last_line) == (1, 5)
