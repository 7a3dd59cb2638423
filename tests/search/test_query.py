"""A query of any characters becomes a valid FTS5 expression that finds what was meant."""

from __future__ import annotations

import time

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbsync.search.query import Query, parse
from kbsync.store import tokenizer


def table(*texts: str) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    tokenizer.register(connection)
    connection.execute(f"CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = '{tokenizer.TOKENIZE}')")
    connection.executemany("INSERT INTO texts(text) VALUES (?)", ((text,) for text in texts))
    return connection


def run(connection: apsw.Connection, query: str) -> list[str]:
    match = parse(query).match
    if match is None:
        return []
    sql = "SELECT text FROM texts WHERE texts MATCH ? ORDER BY bm25(texts), rowid"
    return [str(row[0]) for row in connection.execute(sql, (match,))]


@pytest.mark.parametrize(
    ("query", "match", "terms"),
    [
        ("suitcase locks", '("suitcase" OR "locks")', ("suitcase", "locks")),
        ("what is the lock?", '("lock")', ("lock",)),
        ("the who", '("the" OR "who")', ("the", "who")),
        ("Lock lock LOCK", '("Lock")', ("Lock",)),
        ("依赖注入", '("依赖" OR "赖注" OR "注入")', ("依赖", "赖注", "注入")),
        ("锁", '("锁")', ("锁",)),
        (
            "parseConfig",
            '("parseConfig" OR "parse Config" OR "parse" OR "Config")',
            ("parseConfig", "parse", "Config"),
        ),
        (
            "state-of-the-art",
            '("state-of-the-art" OR "state of the art" OR "state" OR "art")',
            ("state-of-the-art", "state", "art"),
        ),
        ("-parseConfig x", '(("x")) NOT ("parseConfig" OR "parse Config")', ("x",)),
        ('"parseConfig"', '("parseConfig" OR "parse Config") AND ("parseConfig" OR "parse Config")', ("parseConfig",)),
        ('"dependency injection"', '("dependency injection") AND ("dependency injection")', ("dependency injection",)),
        (
            '"parse_config now" fast',
            '("parse config now") AND ("parse config now" OR "fast")',
            ("parse_config now", "fast"),
        ),
        ('"the who" is', '("the who") AND ("the who")', ("the who",)),
        ("fox -dog", '(("fox")) NOT ("dog")', ("fox",)),
        ('fox -"lazy dog" -依赖注入', '(("fox")) NOT ("lazy dog" OR "依赖注入")', ("fox",)),
        ("git commit --amend", '("git" OR "commit" OR "amend")', ("git", "commit", "amend")),
        (
            "well-known a - b",
            '("well-known" OR "well known" OR "well" OR "known" OR "b")',
            ("well-known", "well", "known", "b"),
        ),
        ("lock*", '("lock" *)', ("lock*",)),
        ("**bold**", '("bold")', ("bold",)),
        ('3.5" disk and 5" tape', '("3.5" OR "3 5" OR "disk" OR "5" OR "tape")', ("3.5", "disk", "5", "tape")),
        ('say "unfinished business', '("say" OR "unfinished" OR "business")', ("say", "unfinished", "business")),
    ],
)
def test_a_query_reads_as(query: str, match: str, terms: tuple[str, ...]) -> None:
    parsed = parse(query)
    assert parsed.match == match
    assert parsed.terms == terms


@pytest.mark.parametrize(
    "query", ["", "  ", '""', '"', "-", "-word", "?!…", "*", "👍", "\x00", "\ud800", '-"a b"', "()"]
)
def test_nothing_to_search_for_is_no_expression(query: str) -> None:
    parsed = parse(query)
    assert parsed.match is None
    assert parsed.terms == ()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('  what is "dependency\n injection" -spring conf*? ', "what is dependency injection conf*?"),
        ("conf* 依赖", "conf 依赖"),
        ("a\ud800b", "a b"),
        ("-spring", ""),
        ("a -b", "a"),
    ],
)
def test_the_embedder_gets_plain_text_without_operators_and_exclusions(query: str, expected: str) -> None:
    assert parse(query).text == expected


@pytest.mark.parametrize(
    ("query", "script"),
    [
        ("where is the key", "latin"),
        ("Où est la clé", "latin"),
        ("依赖注入是什么", "cjk"),
        ("鍵はどこですか", "cjk"),
        ("한국어 문서", "cjk"),
        ("FastAPI 的依赖注入怎么用", "cjk"),
        ("explain 依赖 in the FastAPI documentation", "latin"),
        ("где ключ", "other"),
        ("สวัสดี", "other"),
        ("2024 363", "latin"),
        ("", "latin"),
    ],
)
def test_the_script_is_that_of_most_words(query: str, script: str) -> None:
    assert parse(query).script == script


TEXTS = (
    "The quick brown fox jumps over the lazy dog",
    "class HTTPServer2 calls parse_config now",
    "依赖注入是一种设计模式",
    "the configuration of node.js and C++ builds",
    "a fox and its configured den",
)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("foxes", {0, 4}),
        ("fox -dog", {4}),
        ("fox -lazy-dog", {4}),
        ('"quick brown" den', {0}),
        ('"quick fox"', set()),
        ("“quick brown” den", {0}),
        ("„quick fox“", set()),
        ("fox -“lazy dog”", {4}),
        ("3.5” fox", {0, 4}),
        ("httpserver2", {1}),
        ("HTTPServer", {1}),
        ("http_server_2", {1}),
        ('"calls parse_config now"', {1}),
        ('"calls parse config"', {1}),
        ("parseConfig", {1}),
        ("node.js", {3}),
        ("c++", {3}),
        ("依赖注入是什么意思", {2}),
        ("模", {2}),
        ("设计*", {2}),
        ('"设计模式"', {2}),
        ('"依赖模式"', set()),
        ("conf*", {1, 3, 4}),
        ("configurati*", {3, 4}),
        ("configuration*", {3, 4}),
        ("httpser*", {1}),
        ("parse_con*", {1}),
        ("NEAR(fox dog)", {0, 4}),
        ("text: fox AND dog OR NOT {x}", {0, 4}),
        ("^fox", {0, 4}),
    ],
)
def test_a_query_finds(query: str, expected: set[int]) -> None:
    assert set(run(table(*TEXTS), query)) == {TEXTS[i] for i in expected}


def test_optional_words_rank_what_a_phrase_requires() -> None:
    filler = " with other words about nothing much"
    connection = table("quick brown fox" + filler, "quick brown fox near the den" + filler, "den" + filler)
    assert run(connection, '"quick brown" den') == [
        "quick brown fox near the den" + filler,
        "quick brown fox" + filler,
    ]


_SHARED = table(*TEXTS)

HOSTILE = st.lists(
    st.one_of(
        st.text(max_size=12),
        st.sampled_from(
            [
                '"',
                '""',
                "*",
                "-",
                "(",
                ")",
                ":",
                "^",
                "+",
                "NEAR(",
                "AND",
                "OR",
                "NOT",
                "text:",
                "{",
                "}",
                "\x00",
                "'",
                " ",
            ]
        ),
        st.sampled_from(["a*", "依赖", "-依", '"依赖 a"', "parseConfig", "C++", "\ud800", "\u0301", "한", "🏴\u200d☠"]),
    ),
    max_size=20,
).map("".join)


@given(HOSTILE)
@settings(max_examples=400, deadline=None)
def test_a_query_of_any_characters_never_errors(query: str) -> None:
    parsed = parse(query)
    parsed.text.encode()
    if parsed.match is not None:
        _SHARED.execute("SELECT rowid FROM texts WHERE texts MATCH ?", (parsed.match,)).fetchall()
        assert parsed.terms


@given(st.text(st.characters(codec="utf-8"), max_size=40))
@settings(max_examples=150, deadline=None)
def test_a_text_is_found_by_its_own_words(text: str) -> None:
    plain = " ".join(word for word in text.replace("-", " ").replace('"', " ").split())
    if parse(plain).match is not None:
        assert run(table(plain), plain) == [plain]


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("word " * 2_000_000, id="10 MB"),
        pytest.param(" ".join(f"w{n}" for n in range(1_000_000)), id="a million terms"),
        pytest.param(" OR ".join("ab"[n % 2] + str(n) for n in range(10_000)), id="10,000 OR"),
        pytest.param('"' * 8_000, id="quotes"),
        pytest.param('" ' * 4_000, id="quotes and spaces"),
        pytest.param("-" * 8_000, id="minus"),
        pytest.param(" ".join(f"-w{n}" for n in range(2_000)) + " x", id="exclusions"),
        pytest.param('"' + "a b " * 1_900 + '"', id="a long phrase"),
        pytest.param("依赖注入" * 2_000, id="a long Chinese text"),
        pytest.param("a_B" * 2_600, id="an endless identifier"),
        pytest.param("ration* " * 1_000, id="prefixes"),
        pytest.param("(" * 8_000, id="parentheses"),
    ],
)
def test_a_huge_query_is_cut_to_what_can_be_answered(query: str) -> None:
    begun = time.process_time()
    parsed = parse(query)
    run(_SHARED, query)
    assert time.process_time() - begun < 2
    assert len(parsed.terms) <= 64
    assert len(parsed.text) <= 8_000


def test_the_same_query_reads_the_same() -> None:
    assert (
        parse("fox -dog")
        == parse("fox -dog")
        == Query('(("fox")) NOT ("dog")', ("fox",), "fox", "latin", excluded='"dog"')
    )
