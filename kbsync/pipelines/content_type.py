"""What a file is by its content, where that can be told: signatures of documents and pictures, the start of a web page.

Text has no signature: what kind of text it is, its name says.
"""

from __future__ import annotations

import codecs
import re
from typing import cast

from kbsync.errors import SkipFile
from kbsync.file_types import DocumentType, ending_of, type_of
from kbsync.pipelines.decode import decode

# So much of a file's start is looked at; the first parts of an Office file are named in it.
SNIFFED_BYTES = 262_144
# What begins as a page does and is longer is a log of pages.
MOST_PAGE_BYTES = 20_000_000

_PDF = re.compile(rb"(?:\xef\xbb\xbf)?\s{0,64}%PDF-[12]\.\d")
_PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"II*\x00", b"MM\x00*")
_BMP_HEADERS = (12, 40, 52, 56, 64, 108, 124)  # bytes of the known kinds of header
_ZIP = b"PK\x03\x04"
_EPUB = b"mimetypeapplication/epub+zip"  # by its standard the first thing in it, right behind the local header
_LOCAL_HEADER = 30
_MEMBER = re.compile(rb"PK\x03\x04.{26}(word|xl|ppt)/", re.DOTALL)
_OFFICE: dict[bytes, DocumentType] = {b"word": "docx", b"xl": "xlsx", b"ppt": "pptx"}
_PAGE = re.compile(r"\s*(?:<\?xml[^>]{0,200}>\s*|<!--.{0,2000}?-->\s*){0,8}<(?:!doctype\s+html|html)[\s>]", re.I | re.S)
_PAGE_LOOKED_AT = 8192
_WIDE_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
# In these the markup of a page is the very text that is meant.
_MARKUP_TYPES: frozenset[DocumentType | None] = frozenset({None, "code", "email", "html"})


def told_type(head: bytes, size: int, name: str) -> DocumentType | None:
    """Return what a content is, whatever its name says; None where nothing tells: then the name does.

    `head`: the first SNIFFED_BYTES of the file or more, or all of it. `size`: of the whole file, in bytes.
    """
    if _PDF.match(head):
        return "pdf"
    if head.startswith(_PICTURES) or _is_bitmap(head) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP"):
        return "image"
    if head.startswith(_ZIP):
        return _archive_type(head[:SNIFFED_BYTES])
    named = type_of(name)
    if named not in _MARKUP_TYPES and ending_of(name) != ".xml" and size <= MOST_PAGE_BYTES and _is_page(head):
        return "html"
    return None


def is_text(head: bytes) -> bool:
    """Say whether a file's start reads as text."""
    try:
        decode(head[:SNIFFED_BYTES], cut=len(head) >= SNIFFED_BYTES)
    except SkipFile:
        return False
    return True


def _is_bitmap(head: bytes) -> bool:
    return head[:2] == b"BM" and head[6:10] == bytes(4) and int.from_bytes(head[14:18], "little") in _BMP_HEADERS


def _archive_type(head: bytes) -> DocumentType | None:
    """Tell by the names of the first members: the list at the end may be as long as a bomb likes."""
    if head[_LOCAL_HEADER:].startswith(_EPUB):
        return "epub"
    found = _MEMBER.search(head)
    return _OFFICE[cast("bytes", found[1])] if found else None


def _is_page(head: bytes) -> bool:
    start = head[:_PAGE_LOOKED_AT]
    encoding = _WIDE_MARKS.get(start[:2])
    text = start[2:].decode(encoding, "ignore") if encoding else start.removeprefix(codecs.BOM_UTF8).decode("latin-1")
    return _PAGE.match(text) is not None
