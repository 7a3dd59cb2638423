"""A snippet shows where the words are, marked, and is safe to print."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbsync.search.query import parse
from kbsync.search.snippet import snippet

LONG = (
    "Genetically identical cells share an environment. It is often unclear how much derives from chance. "
    "We watched thousands of bacteria for hundreds of generations. The circuit that governs the decision is modular. "
    "Nothing else is known about it. More research is needed, as always, before anything can be said for certain."
)


@pytest.mark.parametrize(
    ("text", "terms", "expected"),
    [
        ("Steve = 363", ("steve",), "**Steve** = 363"),
        ("The locks are open", ("locking",), "The **locks** are open"),
        ("class HTTPServer2:", ("HTTPServer2",), "class **HTTPServer2**:"),
        ("class HTTPServer2:", ("server",), "class HTTP**Server**2:"),
        ("class HTTPServer2:", ("http_server_2",), "class **HTTPServer2**:"),
        ("an HTTP server", ("HTTPServer",), "an **HTTP server**"),
        ("parse_config", ("config",), "parse_**config**"),
        ("Café au lait", ("cafe",), "**Café** au lait"),
        ("the dependency injection of it", ("dependency injection",), "the **dependency injection** of it"),
        ("injection of dependency", ("dependency injection",), "injection of dependency"),
        ("configuration, confident", ("conf*",), "**configuration**, **confident**"),
        ("quick foxes", ("quick fo*",), "**quick foxes**"),
        ("什么是依赖注入？", ("依赖", "赖注", "注入"), "什么是**依赖注入**？"),
        ("什么是依赖注入？", ("入",), "什么是依赖注**入**？"),
        ("使用node.js开发", ("node.js", "开发"), "使用**node.js开发**"),
        ("a C++ book", ("C++",), "a **C++** book"),
        ("nothing here", ("absent",), "nothing here"),
        ("nothing here", (), "nothing here"),
        ("nothing here", ("", "*", "…"), "nothing here"),
        ("", ("a",), ""),
        ("two\n\n  lines\tand\u00a0more", ("lines",), "two **lines** and more"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07word\x07\x00 \x9b1mbold", ("red",), "**red** word bold"),
        ("\x1b]unfinished", (), "unfinished"),
        ("safe\u202etxt.exe \ud800half", ("half",), "safetxt.exe **half**"),
        ("👨\u200d👩\u200d👧 family", ("family",), "👨\u200d👩\u200d👧 **family**"),
    ],
)
def test_a_short_text_is_shown_whole_with_its_matches_marked(text: str, terms: tuple[str, ...], expected: str) -> None:
    assert snippet(text, terms) == expected


@pytest.mark.parametrize(
    ("terms", "width", "expected"),
    [
        ((), 60, "Genetically identical cells share an environment.…"),
        (("absent",), 30, "Genetically identical cells…"),
        (("modular", "circuit"), 70, "…The **circuit** that governs the decision is **modular**.…"),
        (("certain",), 60, "…needed, as always, before anything can be said for **certain**."),
        (("cells", "modular", "circuit"), 70, "…The **circuit** that governs the decision is **modular**.…"),
    ],
)
def test_a_long_text_is_cut_around_most_terms_at_sentence_or_word_ends(
    terms: tuple[str, ...], width: int, expected: str
) -> None:
    assert snippet(LONG, terms, width) == expected


def test_different_terms_count_more_than_one_term_often() -> None:
    text = "lock lock lock lock lock. " + "filler words here " * 30 + "The suitcase has a lock. " + "more filler " * 30
    assert "**suitcase** has a **lock**" in snippet(text, ("suitcase", "lock"), 80)


def test_unspaced_text_is_cut_at_its_own_sentence_ends() -> None:
    text = "第一句话说的是别的事情。" * 10 + "依赖注入是一种设计模式。" + "最后一句也没有关系。" * 10
    shown = snippet(text, ("依赖", "注入"), 40)
    assert "**依赖注入**" in shown
    assert shown.startswith(("…第一句", "…**依赖"))
    assert shown.endswith("。…")


ANY = st.text(st.one_of(st.characters(), st.sampled_from('ab. \n依赖\u0301\x1b[*"')), max_size=300)


@given(ANY, ANY, st.integers(1, 120))
@settings(max_examples=200, deadline=None)
def test_any_text_and_any_query_give_one_printable_line_of_limited_width(text: str, query: str, width: int) -> None:
    shown = snippet(text, parse(query).terms, width)
    shown.encode()
    assert not any(character in shown for character in "\n\r\t\x00\x1b\x9b\u202e")
    plain = snippet(text, (), width)
    assert len(plain) <= width + 2
    assert len(shown.replace("*", "")) <= width + 2


@given(st.lists(st.sampled_from(["alpha", "beta", "gamma", "依赖", "delta.", "eps_zeta"]), min_size=1, max_size=80))
@settings(deadline=None)
def test_marks_taken_away_leave_a_part_of_the_text(words: list[str]) -> None:
    text = " ".join(words)
    shown = snippet(text, ("beta", "依赖", "zeta"), 60)
    assert shown.replace("**", "").strip("…") in text
    assert shown.count("**") % 2 == 0
    assert ("**" in shown) is any(term in text for term in ("beta", "依赖", "zeta"))


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("a b " * 50_000, " ".join(f"{letter}*" for letter in "abcdefgh")),
        ("a " * 100_000, '"' + "a " * 64 + '"'),
        ("依" * 100_000, "依依依依"),
        ("\x1b]" * 100_000, "x"),
        ("\x1b[0" * 100_000, "x"),
        ("a" * 200_000, "a"),
        ("a" + "\u0301" * 200_000, "a"),
        ("." * 200_000, "x"),
    ],
)
def test_hostile_text_takes_linear_time(text: str, query: str) -> None:
    begun = time.process_time()
    snippet(text, parse(query).terms)
    assert time.process_time() - begun < 2
