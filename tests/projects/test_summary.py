"""Extracts: sentences as they stand in the text, the central ones, in its own language."""

from __future__ import annotations

import tracemalloc

import pytest

from kbsync.projects.parsed import ParsedFile
from kbsync.projects.passages import passages
from kbsync.projects.sentences import language_of, quotable, sentences
from kbsync.projects.summary import extract, extracts, summarize

ENGLISH = (
    "---\ntitle: x\n---\n# Rockets\n\nThe weather was fine. "
    "A rocket engine burns fuel with an oxidizer to make thrust. "
    "The thrust of a rocket engine depends on how much fuel it burns. Somebody had brought sandwiches, e.g. with ham. "
    "Engineers test every rocket engine on a stand before its fuel tanks are filled.\n\n```\nx = 1\n```\n"
)


def test_a_summary_holds_sentences_of_the_text_that_resemble_the_others() -> None:
    found = extract(ENGLISH)
    assert found.startswith("Extract: ")
    assert "rocket engine" in found
    assert "sandwiches" not in found
    assert "title" not in found


@pytest.mark.parametrize(
    ("text", "language", "label"),
    [
        ("会议讨论了明年的预算。预算比今年增加百分之十。大家同意新的预算方案。", "zh", "摘录："),
        ("自転車の手入れは月に一度します。チェーンに油を差してから走ります。", "ja", "抜粋："),
        ("회의에서 내년 예산을 논의했습니다. 예산은 올해보다 십 퍼센트 늘었습니다.", "ko", "발췌: "),
        (
            "Die Sitzung besprach den Haushalt des nächsten Jahres. Der Haushalt wächst um zehn Prozent.",
            "other",
            "Extract: ",
        ),
    ],
)
def test_a_summary_speaks_the_documents_language(text: str, language: str, label: str) -> None:
    assert language_of(text) == language
    found = extract(text)
    assert found.startswith(label)
    body = found.removeprefix(label)
    assert all(part.strip() in text for part in sentences(body))


def test_markup_code_tables_and_abbreviations_are_no_sentences() -> None:
    found = sentences(
        "# Head\n\n| a | b |\n|---|---|\n| one cell of a table that is long | x |\n\n"
        "```\ncode that is long enough here\n```\n\n"
        "* See [the guide](http://x) by Dr. Smith, e.g. **chapter two** of it.\n\n"
        "<!-- a comment that nobody reads here -->\n"
    )
    assert found == ["See the guide by Dr. Smith, e.g. chapter two of it."]


def test_a_table_is_told_by_its_columns_and_code_by_its_beginning() -> None:
    assert summarize("```csv\nname,age\nann,3\nbob,4\n```\n", "x.csv") == "A table of 2 rows: name, age"
    assert summarize("```python\nimport os\nprint(1)\n```\n", "x.py") == "Begins: import os print(1)"
    assert summarize("", "x.md") == ""


def test_of_several_texts_no_two_sentences_are_alike_and_none_has_more_than_its_share() -> None:
    texts = [
        "The budget grows by ten percent next year. " * 3,
        "The budget grows by ten percent next year. It rains in May.",
    ]
    found = extracts(texts, 5, 1)
    assert len({one.sentence for one in found}) == len(found)
    assert len({one.origin for one in found}) == len(found)


def test_a_huge_text_is_summarized_in_no_time() -> None:
    assert extract("\n\n".join(f"Sentence number {n} of this text says very little." for n in range(20_000)))
    assert extract("x" * 2_000_000) == ""


@pytest.mark.parametrize(
    "text",
    [
        *("# a" + " " * 50_000 + "b", "a" + " " * 50_000 + "b", "[" * 50_000, "![" * 50_000, "![](" * 50_000),
        *("<!--" * 200_000, "A. " * 30_000, "# " + "#" * 50_000 + "x", "\n" * 200_000, '{"a":[' * 20_000),
        *("`" * 50_000 + "x", '"a"b' * 50_000, "{ ." * 50_000, "a line of words.\n" * 50_000),
    ],
    ids=lambda text: text[:8].strip(),
)
def test_no_text_keeps_a_summary_or_a_passage_waiting(text: str) -> None:
    for name in ("x.md", "x.csv"):
        summarize(text, name)
    for passage in passages(ParsedFile("x", "x.md", "", "", text)):
        quotable(passage.text)


def test_extracts_of_very_many_texts_need_little_room() -> None:
    texts = [f"Text {n} speaks of the word w{n}. It speaks of v{n} and of u{n} as well." for n in range(3_000)]
    tracemalloc.start()
    found = extracts(texts, 12, 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) == 12
    assert peak < 200_000_000


def test_a_line_of_a_table_of_contents_is_no_sentence() -> None:
    assert sentences("Securing and protecting data . . . . . . . . . 12\n\nA security policy says what is secure.") == [
        "A security policy says what is secure."
    ]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("a,b,c\n1,2\n3,4,5\n6,7,8\n", "3 rows: a, b, c"),
        ("a;b\n1,5;2\n", "1 rows: a, b"),
        ('"a, x";"c"\n1;3\n', "1 rows: a, x, c"),
        ("a\tb\n1\t2\n", "1 rows: a, b"),
    ],
)
def test_the_columns_of_a_table_are_told_whatever_separates_them(table: str, said: str) -> None:
    assert summarize(f"```csv\n{table}```\n", "x.csv").endswith(said)
