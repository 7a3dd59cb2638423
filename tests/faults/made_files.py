"""Makes the office files, pictures, notebooks and messages that nobody should have, in memory."""

from __future__ import annotations

import io
import json
import random
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterable

_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_WORD, _SHEETS = (
    f"http://schemas.openxmlformats.org/{kind}/2006/main" for kind in ("wordprocessingml", "spreadsheetml")
)
_MAIN = "application/vnd.openxmlformats-officedocument.{0}.main+xml"
# Width, height, bits, compression, colours, where the pixels are, samples, rows and bytes of the strip.
_TIFF_TAGS = {256: 1, 257: 1, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: 1, 279: 1}
_Members = Iterable[tuple[zipfile.ZipInfo | str, bytes]]


def paragraph(text: bytes) -> bytes:
    return b"<w:p><w:r><w:t>%s</w:t></w:r></w:p>" % text


def word(body: bytes, prologue: bytes = b"", extra: _Members = ()) -> bytes:
    """Return a Word file with this body. `prologue` comes before the document's root, `extra` are more members."""
    root = f'<w:document xmlns:w="{_WORD}"><w:body>'.encode()
    document = prologue + root + body + b"<w:sectPr/></w:body></w:document>"
    return archive(
        [*_package("word/document.xml", "wordprocessingml.document"), ("word/document.xml", document), *extra]
    )


def sheet(rows: str) -> bytes:
    """Return a workbook whose one sheet has these rows, as XML."""
    book = (
        f'<workbook xmlns="{_SHEETS}" xmlns:r="{_OFFICE}/relationships">'
        '<sheets><sheet name="Sheet1" sheetId="1" r:id="r1"/></sheets></workbook>'
    )
    content = f'<worksheet xmlns="{_SHEETS}"><sheetData>{rows}</sheetData></worksheet>'
    members = {
        "xl/workbook.xml": book,
        "xl/_rels/workbook.xml.rels": _relation("worksheet", "worksheets/sheet1.xml"),
        "xl/worksheets/sheet1.xml": content,
    }
    package = _package("xl/workbook.xml", "spreadsheetml.sheet")
    return archive([*package, *((name, text.encode()) for name, text in members.items())])


def _package(main: str, kind: str) -> _Members:
    types = (
        f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="xml" ContentType="application/xml"/>'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/{main}" ContentType="{_MAIN.format(kind)}"/>'
        f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{_MAIN.format("spreadsheetml.worksheet")}"/>'
        "</Types>"
    )
    yield "[Content_Types].xml", types.encode()
    yield "_rels/.rels", _relation("officeDocument", main).encode()


def _relation(kind: str, target: str) -> str:
    relation = f'<Relationship Id="r1" Type="{_OFFICE}/relationships/{kind}" Target="{target}"/>'
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{relation}</Relationships>'


def archive(members: _Members) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two members of one name are meant
        for name, content in members:
            file.writestr(name, content)
    return out.getvalue()


# What must not be found anywhere on the disk.
WILD_NAMES = ("climbed.txt", "kbsync-absolute.txt", "C:\\windows.txt", "windows.txt", "kbsync-link")


def with_wild_names() -> bytes:
    """Return a Word file with members that climb out of any folder, one that is a link, and two of one name."""
    link = zipfile.ZipInfo("word/kbsync-link")
    link.external_attr = 0o120777 << 16
    names = ("../../climbed.txt", "/tmp/kbsync-absolute.txt", "C:\\windows.txt", "word/twice.xml", "word/twice.xml")
    more: list[tuple[zipfile.ZipInfo | str, bytes]] = [(name, b"<out/>") for name in names]
    return word(paragraph(b"wayfaring"), extra=[*more, (link, b"/etc/passwd")])


def with_locked_members() -> bytes:
    """Return a Word file whose members say that they are encrypted."""
    content = bytearray(word(paragraph(b"locked")))
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = content.find(mark)
        while place != -1:
            content[place + flags] |= 1
            place = content.find(mark, place + 4)
    return bytes(content)


def png(width: int, height: int) -> bytes:
    """Return a picture that says to be so large and has no pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in ((b"IHDR", header), (b"IDAT", b""), (b"IEND", b""))
    )


def tiff(pages: int, last_side: int = 1) -> bytes:
    """Return a file of pages of one grey pixel; the last one says to have sides of so many."""
    length = 2 + 12 * len(_TIFF_TAGS) + 4
    first = 10
    out = bytearray(b"II*\x00" + struct.pack("<I", first) + b"\x80\x00")
    for page in range(pages):
        side, after = (last_side, 0) if page == pages - 1 else (1, first + (page + 1) * length)
        values = {**_TIFF_TAGS, 256: side, 257: side}
        body = b"".join(struct.pack("<HHIHH", tag, 3, 1, value, 0) for tag, value in values.items())
        out += struct.pack("<H", len(values)) + body + struct.pack("<I", after)
    return bytes(out)


def gif(frames: int) -> bytes:
    """Return an animation of frames of one pixel."""
    frame = b",\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00"
    return b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff" + frame * frames + b";"


def notebook(output: str) -> bytes:
    """Return a notebook with a cell of text and one of code that printed `output`."""
    outputs = [{"output_type": "display_data", "data": {"image/png": output}, "metadata": {}}]
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Harvest\n", "The medlar is picked after frost."]},
        {"cell_type": "code", "metadata": {}, "source": "bletted = 7", "outputs": outputs, "execution_count": 1},
    ]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}).encode()


def old_notebook() -> bytes:
    cells = [{"cell_type": "code", "input": ["sorb_apple = 1"], "outputs": [], "language": "python"}]
    return json.dumps({"nbformat": 3, "metadata": {}, "worksheets": [{"cells": cells}]}).encode()


def nested_message(depth: int) -> bytes:
    """Return a message whose parts are nested so deep, with a text on the outside."""
    out = [b"From: a@example.org\nSubject: nested\nMIME-Version: 1.0\n"]
    for level in range(depth):
        boundary = b"b%d" % level
        out.append(b'Content-Type: multipart/mixed; boundary="%s"\n\n--%s\n' % (boundary, boundary))
        if level == 0:
            out.append(b"Content-Type: text/plain\n\nThe quince is on the outside.\n--b0\n")
    out.append(b"Content-Type: text/plain\n\nthe innermost\n")
    out += [b"--b%d--\n" % level for level in reversed(range(depth))]
    return b"".join(out)


def noise(size: int) -> bytes:
    """Return bytes without any order, the same ones each time."""
    return random.Random(7).randbytes(size)
