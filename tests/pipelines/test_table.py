"""CSV: delimiters, groups of rows, repeated headers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbsync.model import ChunkLimits, Parsed
from kbsync.pipelines import router
from kbsync.pipelines.table import MOST_CHUNKS_A_SHEET, delimiter_of
from tests.fakes.word_counter import WordCounter


def read(text: str, limits: ChunkLimits | None = None) -> Parsed:
    return router.convert(text.encode(), "csv", None, "prices.csv", limits or ChunkLimits(), WordCounter())


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a,b\n1,2\n", ","),
        ("a;b\n1,5;2\n2,5;3\n", ";"),
        ("a\tb\n1\t2\n", "\t"),
        ("a|b|c\n1|2,2|3\n", "|"),
        ('a,b\n"x;y;z",2\n', ","),
        ("only one column\nof text\n", ","),
    ],
)
def test_the_delimiter_is_the_one_that_makes_even_columns(text: str, delimiter: str) -> None:
    assert delimiter_of(text) == delimiter


def test_rows_become_lines_of_a_table() -> None:
    (piece,) = read('name,price\nApple,1\n"Pear, green\nbig",2\n').pieces
    assert piece.text == "| name | price |\n| - | - |\n| Apple | 1 |\n| Pear, green big | 2 |"
    assert (piece.kind, piece.first_line, piece.last_line) == ("table", 1, 4)


def test_each_group_repeats_the_header_and_every_row_is_in_one() -> None:
    rows = [f"item{number},{number}" for number in range(100)]
    limits = ChunkLimits(max_tokens=60)
    parsed = read("\n".join(["name,price", *rows]), limits)
    assert len(parsed.pieces) > 5
    assert all(piece.text.startswith("| name | price |\n| - | - |\n| item") for piece in parsed.pieces)
    assert [row for piece in parsed.pieces for row in piece.text.split("\n")[2:]] == [
        f"| item{number} | {number} |" for number in range(100)
    ]
    assert [piece.first_line for piece in parsed.pieces[1:]] == [
        (piece.last_line or 0) + 1 for piece in parsed.pieces[:-1]
    ]
    assert all(WordCounter().count(f"prices\n\n{piece.text}") <= 60 for piece in parsed.pieces)


def test_where_the_header_is_wide_each_value_stands_beside_its_columns_name() -> None:
    header = ",".join(f"measure{number}" for number in range(30))
    rows = [",".join(f"value{row}x{number}" if number % 3 else "" for number in range(30)) for row in range(50)]
    limits = ChunkLimits(max_tokens=100)
    parsed = read("\n".join([header, *rows]), limits)
    assert all(f"measure{number} " in parsed.pieces[0].text for number in range(30)), "each name once as it is"
    told = "\n".join(piece.text for piece in parsed.pieces).split("\n")
    wanted = [f"measure{n}: value{row}x{n}" for row in range(50) for n in range(30) if n % 3]
    assert [line for line in told if ": " in line] == wanted
    assert all(WordCounter().count(f"prices\n\n{piece.text}") <= 100 for piece in parsed.pieces)
    assert (parsed.pieces[0].first_line, parsed.pieces[-1].last_line) == (1, 51)


@pytest.mark.parametrize("columns", [2, 30])
def test_of_a_giant_table_the_first_chunks_are_kept_and_the_cut_is_said(columns: int) -> None:
    header = ",".join(f"measure{number}" for number in range(columns))
    row = ",".join(["some words of a value"] * columns)
    parsed = read("\n".join([header, *[row] * 20_000]), ChunkLimits(max_tokens=100))
    assert len(parsed.pieces) == MOST_CHUNKS_A_SHEET
    assert parsed.truncated
    assert parsed.metadata["cut_after_chunks"] == MOST_CHUNKS_A_SHEET
    assert all(piece.text.startswith("| measure0 | measure1 |") for piece in parsed.pieces) is (columns == 2)


def test_a_row_beyond_the_limit_is_cut_into_numbered_parts() -> None:
    words = [f"word{number}" for number in range(200)]
    parsed = read(f"name,text\nlong,{' '.join(words)}\n", ChunkLimits(max_tokens=80))
    parts = [piece.metadata["part"] for piece in parsed.pieces if "part" in piece.metadata]
    assert parts == [f"{number}/{len(parts)}" for number in range(1, len(parts) + 1)]
    assert len(parts) > 2
    assert [word for word in words if all(word not in piece.text.split() for piece in parsed.pieces)] == []


@pytest.mark.parametrize(
    "text",
    ["a,b\n" + '"never closed,\n' + "x,y\n" * 2000, "a,b\n1," + "z" * 200_000],
    ids=["open quote", "giant field"],
)
def test_what_is_no_table_is_read_at_its_lines(text: str) -> None:
    parsed = read(text)
    assert parsed.pieces[0].text.startswith("a,b")
    assert parsed.pieces[-1].last_line == len(text.rstrip("\n").split("\n"))


def test_every_corpus_table_is_read(corpus: Path) -> None:
    names = sorted((corpus / "data").glob("*.csv"))
    assert names
    for name in names:
        parsed = read(name.read_text(encoding="utf-8"))
        assert all(piece.text.startswith("| ") for piece in parsed.pieces)
