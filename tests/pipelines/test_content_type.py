"""What a file is by its content, whatever its name says."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from kbsync.file_types import DocumentType, type_of
from kbsync.pipelines.content_type import MOST_PAGE_BYTES, SNIFFED_BYTES, is_text, told_type

NAMES = ("paper.pdf", "letter.docx", "sheet.xlsx", "page.html", "photo.png", "notes.md", "table.csv", "script.py", "x")


def archive(*members: str, first: tuple[str, bytes] | None = None) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as file:
        if first is not None:
            file.writestr(first[0], first[1], zipfile.ZIP_STORED)
        for member in members:
            file.writestr(member, f"content of {member}")
    return data.getvalue()


def picture(kind: str) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (3, 2)).save(data, kind)
    return data.getvalue()


DOCX = archive("[Content_Types].xml", "_rels/.rels", "word/document.xml")
SIGNED: list[tuple[str, bytes, DocumentType]] = [
    ("pdf", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj", "pdf"),
    ("pdf behind a mark and a blank line", b"\xef\xbb\xbf\n%PDF-2.0\n", "pdf"),
    ("docx", DOCX, "docx"),
    ("docx of another writer", archive("docProps/app.xml", "word/document2.xml", "[Content_Types].xml"), "docx"),
    ("docx with a sheet in it", archive("[Content_Types].xml", "word/embeddings/sheet1.xlsx"), "docx"),
    ("xlsx", archive("[Content_Types].xml", "_rels/.rels", "xl/workbook.xml"), "xlsx"),
    ("pptx", archive("[Content_Types].xml", "ppt/presentation.xml"), "pptx"),
    ("epub", archive("META-INF/container.xml", first=("mimetype", b"application/epub+zip")), "epub"),
    *((kind, picture(kind), "image") for kind in ("PNG", "JPEG", "TIFF", "BMP", "WEBP")),
]
UNSIGNED: list[tuple[str, bytes]] = [
    ("prose", "Ein Brief über %PDF-1.7, PNG und <html>.\n".encode()),
    ("prose that begins with a signature's letters", b"BMW builds cars. RIFF is a format. PK is a name."),
    ("zip", archive("notes/a.md", "notes/b.md")),
    ("open document", archive("content.xml", first=("mimetype", b"application/vnd.oasis.opendocument.text"))),
    ("program", b"\x7fELF\x02\x01\x01" + bytes(40)),
    ("old office", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)),
    ("utf-16", "Datum;Betrag\n1;2\n".encode("utf-16")),
    ("nothing", b""),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("data", "expected"), [row[1:] for row in SIGNED], ids=[row[0] for row in SIGNED])
def test_a_signature_decides_under_every_name(data: bytes, expected: DocumentType, name: str) -> None:
    assert told_type(data, len(data), name) == expected


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("data", [row[1] for row in UNSIGNED], ids=[row[0] for row in UNSIGNED])
def test_where_nothing_tells_the_name_decides(data: bytes, name: str) -> None:
    assert told_type(data, len(data), name) is None


PAGES = [
    b"<!DOCTYPE html>\n<title>x</title>",
    b"<html><body>x",
    b'\xef\xbb\xbf\r\n <!-- saved from a browser -->\n<HTML lang="de">',
    b'<?xml version="1.0"?>\n<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "x">',
    "<!doctype html><p>x".encode("utf-16"),
]


@pytest.mark.parametrize("data", PAGES)
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("page.txt", True),
        ("page.md", True),
        ("page.csv", True),
        ("page.json", True),
        ("page.pdf", True),
        ("page.docx", True),
        ("page.html", False),
        ("template.py", False),
        ("page.xml", False),
        ("page.jsp", False),
    ],
)
def test_a_web_page_is_one_under_names_of_text_and_documents_but_not_where_markup_is_meant(
    data: bytes, name: str, told: bool
) -> None:
    assert told_type(data, len(data), name) == ("html" if told else None)


@pytest.mark.parametrize(
    "data",
    [b"Text about <html> pages.", b"<htmlx>", b"<div>a fragment</div>", b"```\n<!DOCTYPE html>\n```", b"<!-- x -->"],
)
def test_text_about_pages_is_no_page(data: bytes) -> None:
    assert told_type(data, len(data), "notes.md") is None


def test_a_long_log_that_begins_like_a_page_is_a_log() -> None:
    assert told_type(PAGES[0], MOST_PAGE_BYTES + 1, "server.log") is None


def test_a_comment_without_end_is_looked_at_once() -> None:
    assert told_type(b"<!-- " * 100_000, 500_000, "notes.md") is None


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("Ein Brief.".encode("utf-16"), True),
        ("日本語のメモです。".encode("shift_jis"), True),
        (("ü" * SNIFFED_BYTES).encode()[: SNIFFED_BYTES + 1], True),
        (b"%PDF-1.7 torn", False),
        (bytes(range(256)) * 20, False),
        (b"", False),
    ],
)
def test_text_is_told_from_damaged_documents(data: bytes, expected: bool) -> None:
    assert is_text(data) is expected


@pytest.mark.parametrize("folder", ["pdf", "docx", "office", "images", "scans", "html", "markdown", "data"])
def test_of_real_files_none_is_told_to_be_another_type(corpus: Path, folder: str) -> None:
    looked_at = 0
    for path in sorted((corpus / folder).iterdir()):
        named = type_of(path.name)
        if named is None or not path.is_file():
            continue
        data = path.read_bytes()
        told = told_type(data[:SNIFFED_BYTES], len(data), path.name)
        assert told in (None, named), path.name
        # Of a document or a picture the content tells it, so that any other name would do.
        assert told == named or named not in ("pdf", "docx", "xlsx", "pptx", "image"), path.name
        looked_at += 1
    assert looked_at > 0
