"""Two ranked lists become one, and the weaker arm does not drag the better one down."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbsync.search.fusion import Scored, fuse, vector_weight_for
from kbsync.search.query import Script


def scored(**scores: float) -> list[Scored]:
    return [Scored(int(name[1:]), score) for name, score in scores.items()]


@pytest.mark.parametrize(
    ("lexical", "vector", "weight", "expected"),
    [
        pytest.param([], [], 0.5, [], id="nothing"),
        pytest.param(scored(c1=9, c2=5, c3=1), [], 0.5, [(1, 1.0), (2, 0.5), (3, 0.0)], id="words alone"),
        pytest.param([], scored(c1=0.2, c2=0.6), 0.05, [(2, 1.0), (1, 0.0)], id="vectors alone, whatever the weight"),
        pytest.param(
            scored(c1=10, c2=6, c3=2), scored(c2=0.9, c4=0.5), 0.5, [(2, 0.75), (1, 0.5), (3, 0.0), (4, 0.0)], id="both"
        ),
        pytest.param(scored(c1=7), scored(c2=0.1), 0.4, [(1, 0.6), (2, 0.4)], id="single elements count full"),
        pytest.param(
            scored(c3=2, c1=2), scored(c2=1, c1=1), 0.5, [(1, 1.0), (2, 0.5), (3, 0.5)], id="all equal, ties by id"
        ),
        pytest.param(scored(c1=-1, c2=-3), scored(c2=0), 0.25, [(1, 0.75), (2, 0.25)], id="negative scores"),
        pytest.param(
            scored(c1=math.nan, c2=3, c3=math.inf, c4=1), [], 0.5, [(2, 1.0), (4, 0.0)], id="no numbers do not count"
        ),
        pytest.param(scored(c1=math.nan), scored(c2=math.nan), 0.5, [], id="no numbers only"),
        pytest.param(scored(c1=1.7e308, c2=-1.7e308), [], 0.5, [(1, 1.0), (2, 0.0)], id="huge scores"),
        pytest.param([Scored(1, 1), Scored(1, 3), Scored(2, 2)], [], 0.5, [(1, 1.0), (2, 0.0)], id="named twice"),
    ],
)
def test_lists_fuse_to(
    lexical: list[Scored], vector: list[Scored], weight: float, expected: list[tuple[int, float]]
) -> None:
    fused = fuse(lexical, vector, weight)
    assert [each.chunk_id for each in fused] == [chunk_id for chunk_id, _score in expected]
    assert [each.score for each in fused] == pytest.approx([score for _chunk_id, score in expected])


LISTS = st.lists(st.builds(Scored, st.integers(1, 30), st.floats()), max_size=30)


@given(LISTS, LISTS, st.floats(0, 1), st.randoms())
def test_the_result_is_sorted_finite_and_does_not_depend_on_the_order_given(
    lexical: list[Scored], vector: list[Scored], weight: float, random: object
) -> None:
    fused = fuse(lexical, vector, weight)
    assert fused == sorted(fused, key=lambda each: (-each.score, each.chunk_id))
    assert all(0 <= each.score <= 1 + 1e-9 for each in fused)
    assert fused == fuse(lexical[::-1], vector[::-1], weight)
    assert {each.chunk_id for each in fused} == {e.chunk_id for e in lexical + vector if math.isfinite(e.score)}


@pytest.mark.parametrize(
    ("script", "languages", "leans_on_words"),
    [
        ("latin", frozenset({"en"}), False),
        ("cjk", frozenset({"en"}), True),
        ("other", frozenset({"en"}), True),
        ("cjk", frozenset({"en", "zh"}), False),
        ("latin", frozenset({"zh"}), True),
        ("other", frozenset({"en", "ru"}), False),
        ("cjk", None, False),
        ("other", None, False),
        ("latin", frozenset(), True),
    ],
)
def test_a_model_that_cannot_read_the_query_hardly_counts(
    script: Script, languages: frozenset[str] | None, leans_on_words: bool
) -> None:
    level = [Scored(number, 5.0) for number in range(10)]
    weight = vector_weight_for(script, languages, level, level)
    assert (0 < weight <= 0.1) is leans_on_words
    assert leans_on_words or weight > 0.5


def test_with_the_gate_the_best_by_words_stays_first_against_noise() -> None:
    words = scored(c1=12, c2=8, c3=7, c4=2)
    noise = scored(c9=0.31, c3=0.30, c8=0.28)
    fused = fuse(words, noise, vector_weight_for("cjk", frozenset({"en"}), words, noise))
    assert [each.chunk_id for each in fused][:3] == [1, 2, 3]


NEAR = [Scored(number, 1 - number / 100) for number in range(100, 200)]


@pytest.mark.parametrize(
    ("words", "leads"),
    [
        pytest.param([Scored(1, 20.0)], "words", id="one hit, such as an identifier"),
        pytest.param([Scored(n, 20.0 / n) for n in range(1, 50)], "words", id="a steep fall"),
        pytest.param([Scored(n, 20.0 - n / 10) for n in range(1, 50)], "vectors", id="no fall: any of them will do"),
        pytest.param([Scored(n, 20.0 / (n - 99)) for n in range(100, 150)], "vectors", id="a fall, but they agree"),
        pytest.param([], "vectors", id="no word matches"),
    ],
)
def test_the_arm_leads_that_has_something_to_say(words: list[Scored], leads: str) -> None:
    weight = vector_weight_for("latin", None, words, NEAR)
    assert (weight > 0.5) is (leads == "vectors")
    assert weight == vector_weight_for("latin", None, words[::-1], NEAR[::-1])


def test_what_words_alone_single_out_stays_first_though_the_model_prefers_others() -> None:
    words = [Scored(1, 20.0)]
    assert fuse(words, NEAR, vector_weight_for("latin", None, words, NEAR))[0].chunk_id == 1


@given(LISTS, LISTS)
def test_the_weight_is_a_share_whatever_the_scores(lexical: list[Scored], vector: list[Scored]) -> None:
    assert 0 < vector_weight_for("latin", None, lexical, vector) < 1
