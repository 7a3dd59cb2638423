"""EPUB: chapters in reading order on one page, the book's title, and what is missing, protected, odd or damaged."""

from __future__ import annotations

import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from kbsync.errors import FailFile
from kbsync.pipelines.epub import read_book
from kbsync.reasons import Reason
from tests.fakes.conversions import Conversions

CONTAINER = (
    '<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0">'
    '<rootfiles><rootfile full-path="{}" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
CHAPTER = (
    '<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml">'
    "<head><title/><style>p {{ }}</style></head><body class='x'><h1>{title}</h1>{body}</body></html>"
)


def chapter(title: str, body: str, encoding: str = "utf-8") -> bytes:
    return CHAPTER.format(title=title, body=body, encoding=encoding).encode(encoding)


def package(order: list[str], title: str = "The Orchard Book", *, media: str = "application/xhtml+xml") -> bytes:
    items = "".join(
        f'<item id="i{n}" href="{href}" media-type="{media}"/>' for n, href in enumerate(dict.fromkeys(order))
    )
    spine = "".join(f'<itemref idref="i{list(dict.fromkeys(order)).index(href)}"/>' for href in order)
    return (
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0">'
        f'<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title></metadata>'
        f"<manifest>{items}</manifest><spine>{spine}</spine></package>"
    ).encode()


def book(members: dict[str, bytes], package_path: str = "OEBPS/content.opf") -> bytes:
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        archive.writestr("META-INF/container.xml", CONTAINER.format(package_path))
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


ORCHARD = {
    "OEBPS/content.opf": package(["text/two%20words.xhtml", "text/one.xhtml#start"]),
    "OEBPS/text/one.xhtml": chapter("Medlars", "<p>The medlar is eaten when it is bletted.</p>"),
    "OEBPS/text/two words.xhtml": chapter("Quinces", "<h2>Harvest</h2><p>The quince ripens late.</p>"),
    "OEBPS/text/unlisted.xhtml": chapter("Unlisted", "<p>no part of the book</p>"),
}


def test_a_book_is_read_in_its_reading_order_under_its_title_and_chapters(
    conversions: Conversions, tmp_path: Path
) -> None:
    path = tmp_path / "orchard.epub"
    path.write_bytes(book(ORCHARD))
    parsed = conversions.of(path).parsed
    assert parsed.title == "The Orchard Book"
    assert [(piece.section_header, piece.text) for piece in parsed.pieces] == [
        ("Quinces > Harvest", "The quince ripens late."),
        ("Medlars", "The medlar is eaten when it is bletted."),
    ]
    assert not parsed.truncated


def test_a_kept_book_keeps_its_title_and_what_it_lacks(conversions: Conversions, tmp_path: Path) -> None:
    members = {**ORCHARD, "OEBPS/content.opf": package(["text/one.xhtml", "text/lost.xhtml"])}
    path = tmp_path / "torn.epub"
    path.write_bytes(book(members))
    first = conversions.of(path)
    kept = tmp_path / "kept"
    kept.write_bytes(first.document)
    for parsed in (first.parsed, conversions.of(path, kept=kept).parsed):
        assert parsed.title == "The Orchard Book"
        assert parsed.truncated
        assert parsed.metadata == {"chapters_left_out": ["OEBPS/text/lost.xhtml"]}


def test_a_bomb_is_told_before_it_is_unpacked(conversions: Conversions, tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.epub"
    bomb.write_bytes(book({**ORCHARD, "OEBPS/text/three.xhtml": b" " * 60_000_000}))
    assert conversions.refusal(bomb).reason is Reason.TOO_COMPLEX


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "windows-1251"])
def test_chapters_are_read_in_the_encoding_that_they_name(encoding: str) -> None:
    words = "созревает айва" if encoding == "windows-1251" else "Früchte, spät geerntet"
    members = {"a.opf": package(["c.xhtml"]), "c.xhtml": chapter("One", f"<p>{words}</p>", encoding)}
    assert words in read_book(book(members, "a.opf"), "a.epub").page


def test_a_chapter_that_names_a_wrong_encoding_is_read_all_the_same() -> None:
    content = chapter("One", "<p>Früchte</p>").replace(b'encoding="utf-8"', b'encoding="nonsense"')
    assert "Früchte" in read_book(book({"a.opf": package(["c"]), "c": content}, "a.opf"), "a.epub").page


@pytest.mark.parametrize(
    "members",
    [
        {"other.opf": package(["c.xhtml"]), "c.xhtml": chapter("One", "quince")},
        {
            "OEBPS/content.opf": package(["c.xhtml"]).replace(b' xmlns="http://www.idpf.org/2007/opf"', b""),
            "OEBPS/c.xhtml": b"quince without a body",
        },
        {"OEBPS/content.opf": package(["../c.xhtml"]), "c.xhtml": chapter("One", "quince")},
        {"OEBPS/content.opf": package(["c", "blank"]), "OEBPS/c": chapter("One", "quince"), "OEBPS/blank": b""},
    ],
    ids=["package elsewhere", "no name space, no body", "beside the folder", "an empty chapter"],
)
def test_what_is_odd_is_read(members: dict[str, bytes]) -> None:
    found = read_book(book(members), "a.epub")
    assert "quince" in found.page
    assert found.title == "The Orchard Book"
    assert found.left_out == ()


def test_a_picture_in_the_reading_order_is_no_chapter() -> None:
    members = {
        "a.opf": package(["c.xhtml", "cover.svg"]).replace(
            b'href="cover.svg" media-type="application/xhtml+xml"', b'href="cover.svg" media-type="image/svg+xml"'
        ),
        "c.xhtml": chapter("One", "quince"),
    }
    assert read_book(book(members, "a.opf"), "a.epub").left_out == ()


ENTITIES = b'<!DOCTYPE package [<!ENTITY a "%s">%s]><package><metadata><title>&j;</title></metadata></package>' % (
    b"quince" * 1000,
    b"".join(b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(9)),
)


@pytest.mark.parametrize(
    "data",
    [
        b"this is no archive",
        book({}),
        book({"OEBPS/content.opf": b"<package"}),
        book({"OEBPS/content.opf": package([])}),
        book({"OEBPS/content.opf": package(["lost.xhtml"])}),
        book({"OEBPS/content.opf": ENTITIES}),
        book({"OEBPS/content.opf": package(["c"]), "OEBPS/c": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9}),
        book(ORCHARD)[:-40],
    ],
    ids=["no archive", "no package", "broken", "no chapters", "none there", "entities", "chapter of bytes", "cut"],
)
def test_what_is_no_book_is_corrupt(data: bytes) -> None:
    with pytest.raises(FailFile) as refused:
        read_book(data, "orchard.epub")
    assert refused.value.reason is Reason.CORRUPT
    assert "orchard.epub" in refused.value.message


@pytest.mark.parametrize(("path", "protected"), [("OEBPS/text/one.xhtml", True), ("OEBPS/fonts/serif.otf", False)])
def test_a_protected_book_says_so_and_one_with_hidden_fonts_is_read(path: str, protected: bool) -> None:
    encryption = (
        '<encryption xmlns:enc="http://www.w3.org/2001/04/xmlenc#"><enc:EncryptedData><enc:CipherData>'
        f'<enc:CipherReference URI="{path}"/></enc:CipherData></enc:EncryptedData></encryption>'
    )
    data = book({**ORCHARD, "META-INF/encryption.xml": encryption.encode()})
    if not protected:
        assert "quince" in read_book(data, "a.epub").page
        return
    with pytest.raises(FailFile, match="copying") as refused:
        read_book(data, "a.epub")
    assert refused.value.reason is Reason.PASSWORD_REQUIRED
