"""Windows over long texts: all of the text, no part too long, cut between words where that can be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbsync.embed.sentence_transformer import packaged_model
from kbsync.embed.token_counter import HuggingFaceCounter
from kbsync.embed.windows import cut_points, windows
from tests.fakes.hash_embedder import WordCounter

REAL = HuggingFaceCounter(packaged_model().tokenizer_json)


class CharacterCounter:
    """Every character is `weight` tokens."""

    def __init__(self, weight: int = 1) -> None:
        self._weight = weight

    def count(self, text: str) -> int:
        return len(text) * self._weight

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [(index, index + 1) for index in range(len(text)) for _ in range(self._weight)]


@pytest.mark.parametrize("text", ["", " ", "one two three", "a b c d"])
def test_a_short_text_is_one_window(text: str) -> None:
    assert windows(text, WordCounter(), 4) == [(text, len(text.split()))]


@pytest.mark.parametrize("words", [5, 8, 9, 100])
def test_windows_are_about_equal(words: int) -> None:
    found = windows(" ".join("abcdefgh"[n % 8] for n in range(words)), WordCounter(), 4)

    sizes = [window.tokens for window in found]
    assert sum(sizes) == words
    assert max(sizes) <= 4
    assert max(sizes) - min(sizes) <= 1


@given(st.text(max_size=200), st.integers(1, 12))
def test_words_cover_the_text(text: str, max_tokens: int) -> None:
    found = windows(text, WordCounter(), max_tokens)

    assert "".join(window.text for window in found) == text
    assert all(window.tokens == len(window.text.split()) <= max_tokens for window in found)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("The quick brown fox jumps over the lazy dog. " * 60, id="prose"),
        pytest.param("依赖管理很重要" * 100, id="Chinese"),
        pytest.param("supercalifragilisticexpialidocious" * 2 + " " + "antidisestablishmentarianism " * 120, id="rare"),
        pytest.param("0x3fa9," * 400, id="no white space"),
        pytest.param("🙂" * 700, id="unknown"),
        pytest.param("\n".join(f"{n}.{n}|{n}" for n in range(500)), id="numbers"),
    ],
)
def test_the_real_tokenizer_finds_no_window_too_long(text: str) -> None:
    found = windows(text, REAL, 64)

    assert "".join(window.text for window in found) == text
    assert all(window.tokens == REAL.count(window.text) <= 64 for window in found)


def test_a_cut_prefers_the_gap_between_words() -> None:
    # 26 characters in two parts: planned at 13, and the gap is not further back than a tenth of 20.
    text = "abcdefghijkl mnopqrstuvwxyz"
    spans = [span for span in CharacterCounter().spans(text) if span != (12, 13)]

    assert cut_points(text, spans, 20) == [13]


def test_a_space_counted_with_its_word_is_a_gap_too() -> None:
    text = "abcdefghijkl mnopqrstuvwxyz"

    assert cut_points(text, CharacterCounter().spans(text), 20) == [12]


def test_a_word_without_gaps_is_cut_all_the_same() -> None:
    assert [window.text for window in windows("abcdefghij", CharacterCounter(), 4)] == ["abc", "def", "ghij"]


def test_one_character_of_many_tokens_stays_whole() -> None:
    assert [window.text for window in windows("ab", CharacterCounter(3), 2)] == ["a", "b"]
