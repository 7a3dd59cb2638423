"""Words of any script are findable, and no text makes the tokenizer raise or crawl."""

from __future__ import annotations

import base64
import random
import threading
import time
import unicodedata
from typing import cast

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbsync.store import tokenizer


def tokens(text: str) -> list[str]:
    return [token for _start, _end, token, _position in tokenizer.words(text)]


def given_to_fts5(utf8: bytes) -> list[tuple[int, int, str]]:
    connection = apsw.Connection(":memory:")
    tokenizer.register(connection)
    entries = connection.fts5_tokenizer("kbsync", [])(utf8, apsw.FTS5_TOKENIZE_DOCUMENT, None)
    return [cast("tuple[int, int, str]", tuple(entry)[:3]) for entry in entries]


@pytest.fixture
def connection() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    tokenizer.register(connection)
    connection.execute(f"CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = '{tokenizer.TOKENIZE}')")
    return connection


def found(connection: apsw.Connection, text: str, match: str) -> bool:
    connection.execute("DELETE FROM texts")
    connection.execute("INSERT INTO texts(text) VALUES (?)", (text,))
    return bool(connection.execute("SELECT rowid FROM texts WHERE texts MATCH ?", (match,)).fetchall())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Steve = 363", ["steve", "363"]),
        ("snake_case", ["snake_case", "snake", "case"]),
        ("camelCase", ["camelcase", "camel", "case"]),
        ("HTTPServer2", ["httpserver2", "httpserver", "http", "server", "2"]),
        ("kb.HTTPServer", ["kb.httpserver", "kb", "httpserver", "http", "server"]),
        ("state-of-the-art", ["state-of-the-art", "state", "of", "the", "art"]),
        ("node.js", ["node.js", "node", "js"]),
        ("v1.2.3", ["v1.2.3", "v1", "v", "1", "2", "3"]),
        ("192.168.1.10", ["192.168.1.10", "192", "168", "1", "10"]),
        ("sha256 3.14", ["sha256", "sha", "256", "3.14", "3", "14"]),
        ("C++ and C#, x++", ["c++", "c", "and", "c#", "c", "x++", "x"]),
        ("a+b #tag 1+1", ["a", "b", "tag", "1", "1"]),
        ("URLs PDFs iOS i18n H2SO4", ["urls", "pdfs", "ios", "i18n", "h2so4"]),
        ("__init__ end.", ["init", "end"]),
        ("us-er@example.com", ["us-er", "us", "er", "example.com", "example", "com"]),
        ("don't", ["don", "t"]),
        ("naïve Ångström Łódź Straße", ["naive", "angstrom", "lodz", "strasse"]),
        ("cafe\u0301 ÉcoleNormale", ["cafe", "ecolenormale", "ecole", "normale"]),
        ("ﬁle ＡＢＣ１２３ ①", ["file", "abc123", "abc", "123", "1"]),
        ("Ёлка ΆΛΦΑ", ["елка", "αλφα"]),
        ("so\u00adft می\u200cخواهم", ["soft", "میخواهم"]),
        ("हिन्दी", ["हिन्दी"]),
        ("依赖注入", ["依赖", "依", "赖注", "赖", "注入", "注", "入"]),
        ("锁", ["锁"]),
        ("使用Python3开发", ["使用", "使", "用", "python3", "python", "3", "开发", "开", "发"]),
        ("カ\u3099ギ ｶﾞ", ["ガギ", "ガ", "ギ", "ガ"]),
        ("が", ["が"]),
        ("한국", ["한국", "한", "국"]),
        ("สดี", ["สดี", "ส", "ดี"]),
        ("㈱", ["株"]),
        ("👨\u200d👩\u200d👧 …!? \x00\x07", []),
        ("\u0301\u0301", []),
    ],
)
def test_a_text_is_indexed_under_these_words(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HTTPServer2 snake_case", ["httpserver2", "snake_case"]),
        ("依赖注入", ["依赖", "赖注", "注入"]),
        ("锁", ["锁"]),
        ("C++ node.js", ["c++", "node.js"]),
    ],
)
def test_a_query_keeps_identifiers_whole_and_unspaced_runs_as_pairs(text: str, expected: list[str]) -> None:
    assert [word[2] for word in tokenizer.query_words(text)] == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("HTTPServer2", ["HTTP", "Server", "2"]),
        ("parse_config", ["parse", "config"]),
        ("ÉcoleNormale", ["École", "Normale"]),
        ("word", []),
        ("C++", []),
        ("依赖注入", []),
        ("two words", []),
        ("", []),
    ],
)
def test_an_identifier_has_parts_as_written(raw: str, expected: list[str]) -> None:
    assert tokenizer.parts(raw) == expected


@pytest.mark.parametrize(
    ("text", "match", "expected"),
    [
        ("running quickly", '"run"', True),
        ("Suitcase Locks", '"suitcase lock"', True),
        ("class HTTPServer2:", '"httpserver2"', True),
        ("class HTTPServer2:", '"httpserver"', True),
        ("class HTTPServer2:", '"server"', True),
        ("class HTTPServer2:", '"http server 2"', True),
        ("call parse_config now", '"call parse config now"', True),
        ("依赖注入是什么", '"依赖"', True),
        ("依赖注入是什么", '"依"', True),
        ("依赖注入是什么", '"么"', True),
        ("依赖注入是什么", '"注入是"', True),
        ("依赖注入是什么", '"依注"', False),
        ("依赖 注入", '"赖注"', False),
        ("使用node开发", '"使用 node 开发"', True),
        ("使用node开发", '"用 node"', True),
        (unicodedata.normalize("NFD", "한국어 が é"), '"한국어" AND "が" AND "é"', True),
        ("written in C++", '"C++"', True),
        ("written in C", '"C++"', False),
        ("release v1.2.3", '"1 2 3"', True),
        ("café", '"cafe"', True),
        ("cafe", '"café"', True),
    ],
)
def test_fts5_finds(connection: apsw.Connection, text: str, match: str, expected: bool) -> None:
    assert found(connection, text, match) is expected


ANY_TEXT = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from("aZ9_.-+# é依赖ガｶﾞ\u0301\u200d한\u1112\u1161\u11abกำㄅ㈱ﬁ\x00"),
    ),
    max_size=60,
)


@given(ANY_TEXT)
@settings(max_examples=200, deadline=None)
def test_places_are_inside_the_text_and_in_order(text: str) -> None:
    found_words = tokenizer.words(text)
    starts = [start for start, _end, _token, _position in found_words]
    positions = [position for _start, _end, _token, position in found_words]
    assert all(0 <= start < end <= len(text) and token for start, end, token, _position in found_words)
    assert positions == sorted(positions)
    assert set(positions) == set(range(len(set(positions))))
    first_starts = [start for i, start in enumerate(starts) if i == 0 or positions[i] != positions[i - 1]]
    assert first_starts == sorted(first_starts)


@given(ANY_TEXT)
@settings(max_examples=150, deadline=None)
def test_every_word_of_a_query_is_indexed_for_the_same_text(text: str) -> None:
    assert {word[2] for word in tokenizer.query_words(text)} <= set(tokens(text))


@given(st.text(st.characters(max_codepoint=127), max_size=80))
@settings(max_examples=200, deadline=None)
def test_the_fast_path_for_ascii_gives_what_the_general_one_gives(text: str) -> None:
    assert tokenizer.words(text + "\n¿") == tokenizer.words(text + "\n?")


@given(ANY_TEXT)
@settings(max_examples=150, deadline=None)
def test_fts5_gets_byte_offsets_of_the_original_text(text: str) -> None:
    firsts = {position: text[start:end] for start, end, _token, position in reversed(tokenizer.words(text))}
    utf8 = text.encode()
    assert [utf8[start:end].decode() for start, end, _token in given_to_fts5(utf8)] == [
        firsts[i] for i in sorted(firsts)
    ]


@pytest.mark.parametrize(
    ("utf8", "expected"),
    [
        (b"good \xff\xfe word", 2),
        (b"\xed\xa0\x80 lone surrogate", 2),
        (b"cut \xe4\xbe", 1),
        (b"nul \x00 inside", 2),
        (b"", 0),
    ],
)
def test_bytes_that_are_no_text_do_not_move_offsets(utf8: bytes, expected: int) -> None:
    assert all(utf8[start:end].decode() == token for start, end, token in given_to_fts5(utf8))
    assert len(given_to_fts5(utf8)) == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a" + "\u0301\u0323" * 500_000, id="a million marks"),
        pytest.param("\u0301" * 1_000_000, id="marks without a letter"),
        pytest.param("aà\u0301" * 100_000, id="letters and marks in turn"),
        pytest.param("👨\u200d👩\u200d👧" * 550_000, id="10 MB of emoji"),
        pytest.param("a" * 3_000_000, id="one word"),
        pytest.param("ก" + "\u0e31" * 1_000_000, id="one Thai letter with a million vowels"),
        pytest.param("\u1100" * 300_000, id="Hangul letters"),
        pytest.param("a_" * 100_000, id="one identifier"),
        pytest.param("_" * 1_000_000, id="underscores"),
        pytest.param("aA1" * 100_000, id="changing case"),
        pytest.param(base64.b64encode(random.Random(1).randbytes(300_000)).decode(), id="base64"),
        pytest.param("依" * 100_000, id="one Chinese run"),
    ],
)
def test_hostile_text_is_indexed_in_linear_time_with_short_tokens(connection: apsw.Connection, text: str) -> None:
    begun = time.process_time()
    connection.execute("INSERT INTO texts(text) VALUES (?)", (text,))
    assert time.process_time() - begun < 5
    longest = max((len(token) for token in tokens(text[:200_000])), default=0)
    assert longest <= 64


def test_a_word_longer_than_the_cap_is_found_by_itself(connection: apsw.Connection) -> None:
    word = "x" * 300
    assert found(connection, f"before {word} after", f'"{word}"')


def test_english_text_takes_about_a_second_a_megabyte() -> None:
    text = "The quick brown fox, as of 2024, jumps over the lazy dog's `snake_case` house. " * 6_000
    begun = time.process_time()
    tokenizer.words(text)
    assert time.process_time() - begun < 2.5  # half a megabyte; five times slack for a busy machine


@pytest.mark.parametrize(
    ("token", "expected"),
    [("running", "run"), ("configuration", "configur"), ("node.js", "node.j"), ("依赖", "依赖"), ("a", "a")],
)
def test_a_stem_is_what_porter_leaves(token: str, expected: str) -> None:
    assert tokenizer.stem(token) == expected


def test_stems_can_be_asked_for_from_several_threads() -> None:
    stems: list[str] = []
    threads = [threading.Thread(target=lambda n=n: stems.append(tokenizer.stem(f"walking{'s' * n}"))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stems) == 4


def test_the_version_names_the_unicode_tables() -> None:
    assert tokenizer.VERSION.endswith(unicodedata.unidata_version)
