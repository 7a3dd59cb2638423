"""Documents, pictures and web pages with real Docling: text, OCR page by page, and what is refused with a reason."""

from __future__ import annotations

import json
import shutil
import zipfile
import zlib
from pathlib import Path

import pypdfium2
import pytest
from PIL import Image, ImageDraw, ImageFont

from kbsync.model import Conversion
from kbsync.pipelines.docling_converter import converter_fingerprint
from kbsync.reasons import Reason
from tests.fakes.conversions import Conversions
from tests.faults import made_pdf

pytestmark = pytest.mark.timeout(300)  # the first one loads Docling and its models: half a minute when quiet

SCANNED = "Docling bundles PDF document conversion to JSON and Markdown in an easy self contained package"


def text_of(conversion: Conversion) -> str:
    return " ".join(" ".join(piece.text for piece in conversion.parsed.pieces).split())


@pytest.mark.parametrize("name", ["ocr_test.pdf", "ocr_test_rotated_90.pdf", "ocr_test_rotated_180.pdf"])
def test_a_scan_is_read_word_for_word_however_it_lies(corpus: Path, conversions: Conversions, name: str) -> None:
    conversion = conversions.of(corpus / "scans" / name)
    assert text_of(conversion) == SCANNED
    assert conversion.ocr_pages == (1,)
    assert conversion.page_count == 1


def test_without_ocr_a_scan_is_a_document_without_text(corpus: Path, conversions: Conversions) -> None:
    conversion = conversions.of(corpus / "scans" / "ocr_test.pdf", ocr="never")
    assert conversion.parsed.pieces == ()
    assert conversion.ocr_pages == ()


def test_only_the_scanned_pages_of_a_mixed_pdf_are_read_by_ocr(
    corpus: Path, conversions: Conversions, tmp_path: Path
) -> None:
    mixed = tmp_path / "mixed.pdf"
    pages = [("pdf/2305.03393v1-pg9.pdf", 0), ("scans/ocr_test_rotated_90.pdf", 0), ("pdf/normal_4pages.pdf", 1)]
    with pypdfium2.PdfDocument.new() as document:
        for name, page in pages:
            with pypdfium2.PdfDocument(corpus / name) as source:
                document.import_pages(source, [page])
        document.save(mixed)
    conversion = conversions.of(mixed)
    assert conversion.ocr_pages == (2,)
    assert conversion.page_count == 3
    text = text_of(conversion)
    assert SCANNED in text
    assert "OTSL achieves faster inference due to fewer decoding steps" in text
    assert {piece.metadata["page"] for piece in conversion.parsed.pieces} == {1, 2, 3}


def test_a_photographed_bill_is_read(corpus: Path, conversions: Conversions) -> None:
    conversion = conversions.of(corpus / "images" / "qr_bill_example.jpg")
    text = text_of(conversion)
    assert "Robert Schneider AG" in text
    assert "Rue du Lac 1268" in text
    assert conversion.ocr_pages == (1,)


def test_a_picture_on_its_side_is_read(corpus: Path, conversions: Conversions, tmp_path: Path) -> None:
    with Image.open(corpus / "images" / "webp-test.webp") as image:
        image.convert("RGB").rotate(90, expand=True).save(tmp_path / "turned.png")
    upright = text_of(conversions.of(corpus / "images" / "webp-test.webp"))
    assert len(upright) > 50
    assert text_of(conversions.of(tmp_path / "turned.png")) == upright


def test_a_picture_ten_times_as_long_as_wide_is_read_to_its_end(conversions: Conversions, tmp_path: Path) -> None:
    picture = Image.new("RGB", (420, 4_200), "white")
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(22)
    words = ("alder", "birch", "cedar", "hazel", "larch", "maple", "poplar", "rowan", "willow", "juniper")
    for number, word in enumerate(words):
        draw.text((30, 60 + number * 440), f"The {word} grows beside the river.", fill="black", font=font)
    picture.save(tmp_path / "long.png")
    text = text_of(conversions.of(tmp_path / "long.png"))
    assert [word for word in words if f"The {word} grows" not in text] == []


@pytest.mark.parametrize("size", [(20_000, 3), (20_000, 100)])
def test_a_picture_of_a_ruled_line_is_one_without_text(
    conversions: Conversions, tmp_path: Path, size: tuple[int, int]
) -> None:
    Image.new("RGB", size, "white").save(tmp_path / "line.png")
    assert conversions.of(tmp_path / "line.png").parsed.pieces == ()


def test_a_locked_pdf_wants_its_password_and_is_read_with_it(
    corpus: Path, conversions: Conversions, tmp_path: Path
) -> None:
    locked = corpus / "pdf" / "2206.01062_pg3.pdf"
    assert conversions.refusal(locked).reason is Reason.PASSWORD_REQUIRED
    wrong = conversions.refusal(locked, password="4321")
    assert wrong.reason is Reason.PASSWORD_REQUIRED
    assert "does not open" in wrong.message
    assert "split on full-document boundaries" in text_of(conversions.of(locked, password="1234"))
    # The password of one file is not kept for the next.
    again = shutil.copyfile(locked, tmp_path / "again.pdf")
    assert conversions.refusal(again).reason is Reason.PASSWORD_REQUIRED


def test_two_columns_are_read_one_after_the_other(corpus: Path, conversions: Conversions) -> None:
    text = text_of(conversions.of(corpus / "pdf" / "2206.01062_pg3.pdf", password="1234"))
    in_order = [
        "we focussed on medium to large documents",
        "We did not control the document selection",
        "future benchmarks in the document-layout analysis community",
        "Table 1 shows the overall frequency",
        "Despite being cost-intense",
        "The annotation campaign was carried out in four phases",
    ]
    places = [text.find(sentence) for sentence in in_order]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("docx/word_sample.docx", "lay down in a water and try not to drown"),
        ("html/wiki_duck.html", "Duck is the common name for numerous species of waterfowl"),
        ("pdf/normal_4pages.pdf", "코로나-19 관련 보험약관상 재해보험금"),
        ("office/powerpoint_sample.pptx", "Maybe a list?"),
        ("office/xlsx_05_table_with_title.xlsx", "Number of freshwater ducks per year"),
    ],
)
def test_each_kind_of_document_is_read(corpus: Path, conversions: Conversions, name: str, sentence: str) -> None:
    conversion = conversions.of(corpus / name)
    everything = " ".join(f"{piece.section_header or ''} {piece.text}" for piece in conversion.parsed.pieces)
    assert sentence in " ".join(everything.split())
    assert (conversion.ocr_pages, conversion.parsed.truncated) == ((), False)


def test_the_title_is_docling_s_or_none(corpus: Path, conversions: Conversions) -> None:
    assert conversions.of(corpus / "docx" / "word_sample.docx").parsed.title == "Swimming in the lake"
    assert conversions.of(corpus / "html" / "wiki_duck.html").parsed.title == "Duck"
    assert conversions.of(corpus / "pdf" / "normal_4pages.pdf").parsed.title is None


@pytest.mark.parametrize(("encoding", "declared"), [("gb18030", "gb2312"), ("utf-8", "iso-8859-1"), ("utf-16", "")])
def test_a_web_page_is_read_in_its_encoding(
    conversions: Conversions, tmp_path: Path, encoding: str, declared: str
) -> None:
    page = tmp_path / f"{encoding}.html"
    sentence = "北京是中华人民共和国的首都，也是一座历史悠久的城市。"
    meta = f'<meta charset="{declared}">' if declared else ""
    page.write_bytes(f"<html><head>{meta}</head><body><p>{sentence}</p></body></html>".encode(encoding))
    assert text_of(conversions.of(page)) == sentence


@pytest.mark.parametrize(
    ("deep", "why"),
    [
        ("<div>" * 5000, "nested more than 150 deep"),  # told before Docling sees it
        ("<ul><li>" * 74 + "<b><i><u><s>" * 300, "nested more than 150 deep"),
        ("<ul><li>" * 70 + "<table><tr><td colspan=9 rowspan=9>x</td></tr></table>" * 2, None),
        (
            "<table>" + ("<tr>" + "<td rowspan=65000 colspan=1000>x</td>" * 50 + "</tr>") * 50,
            "damaged",
        ),  # Docling fails
    ],
)
def test_a_web_page_that_docling_cannot_read_becomes_plain_text_under_its_headings(
    conversions: Conversions, tmp_path: Path, deep: str, why: str | None
) -> None:
    page = tmp_path / "page.html"
    start = "<html><head><title>Hedges</title></head><body><h1>Berries</h1><p>The sloe is sour.</p><h2>Names</h2>"
    page.write_text(f"{start}{deep}blackthorn")
    conversion = conversions.of(page)
    assert conversion.parsed.title in ("Hedges", "Berries")
    assert "The sloe is sour." in text_of(conversion)
    assert "blackthorn" in text_of(conversion)
    assert "Names" in str(conversion.parsed.pieces[-1].section_header)
    assert (why or "") in str(conversion.parsed.metadata.get("plain_text", ""))
    assert ("plain_text" in conversion.parsed.metadata) is (why is not None)
    kept = tmp_path / "kept"
    kept.write_bytes(conversion.document)
    assert conversions.of(tmp_path / "gone.html", kept=kept).parsed == conversion.parsed


def test_a_lone_line_on_a_page_is_text_though_it_looks_like_a_header(conversions: Conversions, tmp_path: Path) -> None:
    path = tmp_path / "line.pdf"
    path.write_bytes(made_pdf.one_page(made_pdf.lines("a page about the medlar")))
    assert text_of(conversions.of(path)) == "a page about the medlar"


def test_a_web_page_fetches_nothing(conversions: Conversions, tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(b"no picture")
    page = tmp_path / "page.html"
    page.write_text('<p>before</p><img src="secret.png" alt="x"><img src="http://127.0.0.1:9/a.png"><p>behind</p>')
    conversion = conversions.of(page)
    assert "before" in text_of(conversion)
    assert "behind" in text_of(conversion)
    assert b"secret.png" not in zlib.decompress(conversion.document)


def test_a_kept_conversion_is_cut_again_without_converting(
    corpus: Path, conversions: Conversions, tmp_path: Path
) -> None:
    first = conversions.of(corpus / "scans" / "ocr_test_rotated_90.pdf")
    kept = tmp_path / "kept"
    kept.write_bytes(first.document)
    assert json.loads(zlib.decompress(first.document))["schema_name"] == "DoclingDocument"
    absent = tmp_path / "gone.pdf"  # nobody looks at the bytes
    again = conversions.of(absent, kept=kept)
    assert again.parsed.pieces == first.parsed.pieces
    assert (again.ocr_pages, again.page_count, again.converter) == ((1,), 1, first.converter)


def test_the_fingerprint_tells_what_decides_the_text() -> None:
    assert converter_fingerprint("auto", ()) == converter_fingerprint("auto", ())
    assert len({converter_fingerprint(*key) for key in (("auto", ()), ("never", ()), ("auto", ("ko",)))}) == 3


def test_a_language_without_a_packaged_model_is_said_and_nothing_is_fetched(
    corpus: Path, conversions: Conversions
) -> None:
    refusal = conversions.refusal(corpus / "scans" / "ocr_test.pdf", languages=("th",))
    assert refusal.reason is Reason.MODEL


# ---- what is refused ----


def archive(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def test_damaged_files_are_corrupt(conversions: Conversions, tmp_path: Path, corpus: Path) -> None:
    whole = (corpus / "docx" / "word_sample.docx").read_bytes()
    contents = {
        "fake.pdf": b"this is no pdf",
        "half.docx": whole[: len(whole) // 2],
        "fake.docx": b"this is no archive",
        "fake.png": b"this is no picture",
        "other.docx": archive(tmp_path / "other.zip", {"hello.txt": b"hello"}).read_bytes(),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        refusal = conversions.refusal(tmp_path / name)
        assert refusal.reason is Reason.CORRUPT, name
        assert name in refusal.message


def test_bombs_are_too_complex(conversions: Conversions, tmp_path: Path) -> None:
    far = b'<worksheet><sheetData><row><c r="A1"/><c r="XFD1048576"/></row></sheetData></worksheet>'
    # A picture of 50,000 x 50,000 pixels is told by its header.
    header = bytes.fromhex("89504e470d0a1a0a0000000d49484452") + (50_000).to_bytes(4, "big") * 2
    chunk = header[12:] + bytes([8, 2, 0, 0, 0])
    no_pixels = bytes(4) + b"IDAT" + zlib.crc32(b"IDAT").to_bytes(4, "big")
    bombs = {
        "inflates.docx": archive(tmp_path / "1.zip", {"word/document.xml": b" " * 60_000_000}).read_bytes(),
        "parts.docx": archive(tmp_path / "2.zip", {f"{number}": b"" for number in range(10_001)}).read_bytes(),
        "far.xlsx": archive(tmp_path / "3.zip", {"xl/worksheets/sheet1.xml": far}).read_bytes(),
        "huge.png": header[:12] + chunk + zlib.crc32(chunk).to_bytes(4, "big") + no_pixels,
    }
    for name, content in bombs.items():
        (tmp_path / name).write_bytes(content)
        assert conversions.refusal(tmp_path / name).reason is Reason.TOO_COMPLEX, name


def test_a_locked_office_file_says_that_it_is_locked(conversions: Conversions, tmp_path: Path) -> None:
    locked = tmp_path / "locked.docx"
    locked.write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(1024) + "EncryptedPackage".encode("utf-16-le"))
    assert conversions.refusal(locked).reason is Reason.PASSWORD_REQUIRED
