"""Workbooks with real Docling: sheets by name, headers repeated, wide tables, and the cap on a sheet's chunks."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import openpyxl  # type: ignore[import-untyped] # its stubs are not worth a package
import pytest

from kbsync.pipelines.sheet_rows import first_rows
from kbsync.pipelines.table import MOST_CHUNKS_A_SHEET
from tests.fakes.conversions import Conversions

pytestmark = pytest.mark.timeout(300)


def workbook(path: Path, sheets: dict[str, list[list[object]]]) -> Path:
    book = openpyxl.Workbook(write_only=True)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_every_piece_has_its_sheets_name_and_its_header(conversions: Conversions, tmp_path: Path) -> None:
    rows: list[list[object]] = [["fruit", "harvest"], *([f"quince {n}", n] for n in range(200))]
    path = workbook(tmp_path / "fruit.xlsx", {"Pome fruit": rows, "Stone fruit": [["fruit"], ["plum"]]})
    parsed = conversions.of(path).parsed
    assert [piece.section_header for piece in parsed.pieces] == ["Pome fruit"] * (len(parsed.pieces) - 1) + [
        "Stone fruit"
    ]
    assert len(parsed.pieces) > 5
    assert all(piece.text.startswith("| fruit | harvest |\n| - | - |\n| quince") for piece in parsed.pieces[:-1])
    told = "\n".join(piece.text for piece in parsed.pieces)
    assert [n for n in range(200) if f"| quince {n} | {n} |" not in told] == []
    assert not parsed.truncated


def test_of_a_wide_table_each_value_stands_beside_its_columns_name(conversions: Conversions, tmp_path: Path) -> None:
    header: list[object] = [f"Average rainfall measured at station {n}" for n in range(40)]
    rows: list[list[object]] = [[f"value{row}x{column}" for column in range(40)] for row in range(3)]
    parsed = conversions.of(workbook(tmp_path / "wide.xlsx", {"Rain": [header, *rows]})).parsed
    told = "\n".join(piece.text for piece in parsed.pieces)
    for row in range(3):
        for column in range(40):
            assert f"station {column}: value{row}x{column}" in told
    assert {piece.kind for piece in parsed.pieces} == {"table"}


def test_of_a_giant_sheet_the_first_chunks_are_kept_and_the_cut_is_said(
    conversions: Conversions, tmp_path: Path
) -> None:
    rows: list[list[object]] = [["number", "text"], *([n, f"a row about quince number {n} " * 8] for n in range(4000))]
    path = workbook(tmp_path / "giant.xlsx", {"Giant": rows, "Small": [["fruit"], ["medlar"]]})
    parsed = conversions.of(path).parsed
    assert [piece.section_header for piece in parsed.pieces] == ["Giant"] * MOST_CHUNKS_A_SHEET + ["Small"]
    assert parsed.truncated
    assert parsed.metadata == {"sheets_cut": ["Giant"], "chunks_a_sheet": MOST_CHUNKS_A_SHEET}


def test_rows_that_no_chunk_has_room_for_are_left_out_before_the_conversion(tmp_path: Path) -> None:
    rows: list[list[object]] = [[f"r{row}", *range(99)] for row in range(150)]
    small: list[list[object]] = [["fruit", "harvest"]] * 3
    path = workbook(tmp_path / "giant.xlsx", {"A": rows, "B": small, "C": rows, "D": rows, "E": small})
    data, shortened = first_rows(path.read_bytes(), most_a_sheet=6_000, most=10_000)
    assert shortened
    book = openpyxl.load_workbook(BytesIO(data))
    kept = {sheet.title: sheet.max_row for sheet in book}
    assert (kept["B"], kept["E"]) == (3, 3)
    assert 60 <= kept["A"] < 90, "60 rows hold the cells of a sheet"
    assert 20 <= kept["C"] < 60, "the sheets before it took room of the workbook"
    assert 20 <= kept["D"] < 50, "each has a little"
    assert [cell.value for cell in book["A"][kept["A"]]] == rows[kept["A"] - 1], "the last row is whole"
    assert first_rows(workbook(tmp_path / "small.xlsx", {"B": small}).read_bytes())[1] is False


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("xlsx_01.xlsx", ""),
        ("xlsx_05_table_with_title.xlsx", "Number of freshwater ducks per year"),
        ("xlsx_09_section_label_header.xlsx", ""),
    ],
)
def test_every_workbook_of_the_corpus_is_read_whole(
    corpus: Path, conversions: Conversions, name: str, words: str
) -> None:
    path = corpus / "office" / name
    parsed = conversions.of(path).parsed
    told = " ".join(piece.text for piece in parsed.pieces)
    assert words in told
    values = [
        str(value)
        for sheet in openpyxl.load_workbook(path, data_only=True)
        for row in sheet.iter_rows(values_only=True)
        for value in row
        if isinstance(value, str) and value.strip()
    ]
    assert values
    assert [value for value in values if " ".join(value.split()) not in " ".join(told.split())] == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("powerpoint_sample.pptx", "Maybe a list?"),
        ("powerpoint_with_image.pptx", "Image linked to file"),
        ("pptx_chart.pptx", ""),
    ],
)
def test_every_presentation_of_the_corpus_is_read(
    corpus: Path, conversions: Conversions, name: str, words: str
) -> None:
    conversion = conversions.of(corpus / "office" / name)
    assert words in " ".join(piece.text for piece in conversion.parsed.pieces)
    assert conversion.parsed.pieces
    assert conversion.page_count
