"""What is refused before Docling sees it, each with its reason, and what is just allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kbsync.errors import FailFile, SkipFile
from kbsync.pipelines import document_limits as limits
from kbsync.reasons import Reason
from tests.faults import made_files as files
from tests.faults import made_pdf as pdfs

NAME = "the file"


def refused(check: Callable[[], object]) -> Reason | None:
    """Return why a check refuses, None where it lets pass; the message names the file."""
    try:
        check()
    except FailFile as error:
        return error.reason if NAME in error.message else None
    return None


def pdf(folder: Path, content: bytes, password: str | None = None) -> Reason | None:
    path = folder / "file.pdf"
    path.write_bytes(content)
    return refused(lambda: limits.check_pdf(str(path), NAME, password))


def image(folder: Path, content: bytes) -> Reason | None:
    path = folder / "image"
    path.write_bytes(content)
    return refused(lambda: limits.check_image(str(path), NAME))


def office(content: bytes) -> Reason | None:
    return refused(lambda: limits.check_office(content, NAME))


def sheet(rows: str) -> Reason | None:
    return refused(lambda: limits.check_sheets(files.sheet(rows), NAME))


def page(html: str, *, cut: bool = False) -> Reason | None:
    return refused(lambda: limits.check_web_page(html, NAME, cut=cut))


# ---- PDF ----


def test_a_pdf_may_have_so_many_pages_and_no_more(tmp_path: Path) -> None:
    assert pdf(tmp_path, pdfs.many_pages(limits.MOST_PAGES)) is None
    assert pdf(tmp_path, pdfs.many_pages(limits.MOST_PAGES + 1)) is Reason.TOO_COMPLEX


@pytest.mark.parametrize("count", [10, 1_000_000, 2_000_000_000])
def test_a_pdf_that_claims_pages_and_has_none_is_not_searched_for_them(tmp_path: Path, count: int) -> None:
    assert pdf(tmp_path, pdfs.with_a_loop_of_kids(count)) in (Reason.CORRUPT, Reason.TOO_COMPLEX)


def test_a_locked_pdf_is_told_from_one_that_is_only_restricted(tmp_path: Path) -> None:
    assert pdf(tmp_path, pdfs.locked("text", b"1234", b"5678")) is Reason.PASSWORD_REQUIRED
    assert pdf(tmp_path, pdfs.locked("text", b"1234", b"5678"), "4321") is Reason.PASSWORD_REQUIRED
    assert pdf(tmp_path, pdfs.locked("text", b"1234", b"5678"), "1234") is None
    assert pdf(tmp_path, pdfs.locked("text", b"", b"5678")) is None


def test_a_damaged_pdf_is_damaged_also_after_a_locked_one(tmp_path: Path) -> None:
    for damaged in (b"no PDF", b"%PDF-1.4\n", pdfs.with_a_loop_of_kids(2_000_000_000)):
        assert pdf(tmp_path, pdfs.locked("text", b"1234", b"5678")) is Reason.PASSWORD_REQUIRED
        assert pdf(tmp_path, damaged) is Reason.CORRUPT


def test_a_page_larger_than_any_paper_is_refused(tmp_path: Path) -> None:
    content = pdfs.one_page(pdfs.lines("text"))
    assert pdf(tmp_path, content.replace(b"612 792", b"6e3 5e3")) is None
    assert pdf(tmp_path, content.replace(b"0 0 612 792", b"0 0 6000 9999")) is Reason.TOO_COMPLEX


# ---- pictures ----


@pytest.mark.filterwarnings("ignore")  # Pillow warns of pictures that are smaller than our limit
def test_a_picture_may_have_so_many_pixels_and_no_more(tmp_path: Path) -> None:
    assert image(tmp_path, files.png(10_000, 10_000)) is None
    assert image(tmp_path, files.png(10_001, 10_000)) is Reason.TOO_COMPLEX
    assert image(tmp_path, files.png(50_000, 50_000)) is Reason.TOO_COMPLEX


def test_a_picture_may_have_so_many_pages_and_no_more(tmp_path: Path) -> None:
    assert image(tmp_path, files.tiff(limits.MOST_FRAMES)) is None
    assert image(tmp_path, files.tiff(limits.MOST_FRAMES + 1)) is Reason.TOO_COMPLEX
    assert image(tmp_path, files.tiff(100_000)) is Reason.TOO_COMPLEX
    assert image(tmp_path, files.gif(limits.MOST_FRAMES + 1)) is Reason.TOO_COMPLEX


def test_each_page_of_a_picture_is_looked_at(tmp_path: Path) -> None:
    assert image(tmp_path, files.tiff(3, last_side=9_000)) is None
    assert image(tmp_path, files.tiff(3, last_side=50_000)) is Reason.TOO_COMPLEX


@pytest.mark.filterwarnings("ignore")  # Pillow says what it misses
@pytest.mark.parametrize("content", [b"", b"no picture", b"II*\x00", files.tiff(3)[:30], b"GIF89a"])
def test_what_is_no_picture_is_damaged(tmp_path: Path, content: bytes) -> None:
    assert image(tmp_path, content) is Reason.CORRUPT


# ---- Office ----


def test_archives_are_bombs_by_their_members_their_size_or_their_ratio() -> None:
    assert office(files.word(files.paragraph(b"text"))) is None
    assert office(files.archive((str(number), b"") for number in range(limits.MOST_MEMBERS))) is None
    assert office(files.archive((str(number), b"") for number in range(limits.MOST_MEMBERS + 1))) is Reason.TOO_COMPLEX
    assert office(files.archive([("a", b" " * 49_000_000)])) is None
    assert office(files.archive([("a", b" " * 51_000_000)])) is Reason.TOO_COMPLEX


def test_locked_and_damaged_archives_are_told_apart() -> None:
    assert office(files.with_locked_members()) is Reason.PASSWORD_REQUIRED
    assert office(files.word(b"")[:-100]) is Reason.CORRUPT
    assert office(b"") is Reason.CORRUPT
    assert office(files.with_wild_names()) is None


@pytest.mark.parametrize(
    "rows",
    [
        '<row r="1"><c r="A1"/></row><row r="1048576"><c r="XFD1048576"/></row>',
        '<row r="1"><c r="A1"/><c r="XFD200"/></row>',
        "<row r='1'><c r='A1'/></row><row r='1048576'><c s='1' r = 'XFD1048576'/></row>",
        '<x:row r="1"><x:c r="A1"/></x:row><x:row r="1048576"><x:c r="XFD1048576"/></x:row>',
        '<row r="1"><c/></row><row r="3000000"><c/></row>',
        '<row r="1"><c/><c r="D1"/></row><row r="900000"><c/><c/><c/></row>',
    ],
)
def test_a_sheet_reaches_as_far_as_its_cells_however_they_say_where_they_are(rows: str) -> None:
    assert sheet(rows) is Reason.TOO_COMPLEX


@pytest.mark.parametrize(
    "rows",
    [
        "",
        '<row r="1048576"/>',
        '<row r="1000000"><c r="A1000000"/></row>',
        "".join(f'<row r="{row}"><c r="A{row}"/><c r="T{row}"/></row>' for row in range(1, 50_000)),
    ],
)
def test_an_ordinary_sheet_passes(rows: str) -> None:
    assert sheet(rows) is None


@pytest.mark.parametrize("before", range(0, 60, 7))
def test_a_cell_is_found_wherever_the_blocks_end(before: int) -> None:
    rows = '<row r="1"><c r="A1"/>'
    far = f'<!--{"x" * ((1 << 20) - 150 - before)}--><c r="A900000" s="12345678901234567890"/><c r="D900000"/></row>'
    assert sheet(rows + far) is Reason.TOO_COMPLEX


@pytest.mark.parametrize("broken", ["<c ", "<", "<row r=", '<c r="', "<c r='A1\"", "<x:"])
@pytest.mark.timeout(60)  # in quadratic time some of these take an hour
def test_a_sheet_of_broken_tags_takes_no_time(broken: str) -> None:
    assert sheet(broken * (3_000_000 // len(broken))) is None


# ---- web pages ----


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * (limits.MOST_NESTING + 1),
        "<ul><li>" * limits.MOST_NESTING,
        "<table><tr>" + "<td>1" * (limits.MOST_HTML_CELLS + 1),
        "<i></i>" * (limits.MOST_ELEMENTS + 1),
        "<p>x" * (limits.MOST_UNCLOSED + 3),
        "<!--" * (limits.MOST_BROKEN + 1),
        '<a href="' * (limits.MOST_BROKEN + 2),
    ],
)
def test_a_page_that_docling_cannot_read_is_too_complex(html: str) -> None:
    assert page(html) is Reason.TOO_COMPLEX


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * limits.MOST_NESTING,
        "<table>" + "<tr><td>1<td>2</tr>" * 500 + "</table>",
        "<ul>" + "<li>item" * 1_000 + "</ul>",
        "<p>x" * 1_000,
        "a < b " * 10_000,
    ],
)
def test_an_ordinary_page_passes(html: str) -> None:
    assert page(html) is None


def test_of_a_giant_page_the_beginning_is_read(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(b"<p>one</p>" + "é".encode() * (limits.MOST_PAGE_BYTES // 2))
    text, cut = limits.read_web_page(str(path))
    assert (text[:10], cut) == ("<p>one</p>", True)
    assert "\ufffd" not in text
    assert page("", cut=cut) is Reason.TOO_COMPLEX
    path.write_bytes(b"<p>one</p>")
    assert limits.read_web_page(str(path)) == ("<p>one</p>", False)


def test_what_is_no_page_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    for content in (b"", b" \n", files.noise(1_000)):
        path.write_bytes(content)
        with pytest.raises(SkipFile):
            limits.read_web_page(str(path))
