"""EPUB to one web page: the chapters in reading order. Runs where documents are converted.

Docling's own reader of EPUB forgets the book's title, and chapters that are missing, encrypted or not in UTF-8 it
passes over in silence; so the book is put together here, and Docling reads the page.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from urllib.parse import unquote
from xml.etree import ElementTree

from kbsync.errors import FailFile, SkipFile
from kbsync.pipelines.decode import decode
from kbsync.reasons import Reason

# Of the files that say how the book is made; the longest seen has 1 MB. (Expat itself stops entity bombs.)
MOST_PACKAGE_BYTES = 20_000_000
_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_ENCODING = re.compile(rb"<\?xml[^>]{0,100}?encoding\s*=\s*[\"']([A-Za-z0-9_.:-]{2,40})[\"']")
_BODY = re.compile(r"<body\b[^<>]*>", re.IGNORECASE)
_PROLOGUE = re.compile(r"<\?xml[^<>]*\?>|<!DOCTYPE[^<>]*>", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Book:
    """A book as one web page. `left_out` are the chapters that it lists and that are not there, by their paths."""

    page: str
    title: str | None
    left_out: tuple[str, ...]


def read_book(data: bytes, name: str) -> Book:
    """Return the book of an archive that was checked. `name` is for messages.

    Raises FailFile: CORRUPT where nothing says what the chapters are or none is there, PASSWORD_REQUIRED for a book
    that is protected against copying.
    """
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            members = {posixpath.normpath(member.filename): member for member in archive.infolist()}
            package_path = _package_path(archive, members)
            package = _xml(archive, members[package_path])
            encrypted = _encrypted(archive, members)
            bodies, left_out = [], []
            for path in _reading_order(package, posixpath.dirname(package_path)):
                if path in encrypted:
                    raise _protected(name)
                if path in members:
                    bodies.append(_body(_text(archive.read(members[path]))))
                else:
                    left_out.append(path)
    except (KeyError, ValueError, ElementTree.ParseError, zipfile.BadZipFile, NotImplementedError, OSError) as error:
        raise _damaged(name) from error
    if not bodies:
        raise _damaged(name)
    chapters = "\n".join(bodies)
    page = f'<!DOCTYPE html><html><head><meta charset="utf-8"></head><body>\n{chapters}\n</body></html>'
    return Book(page, _title(package), tuple(left_out))


def _package_path(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> str:
    """Return the path of the package document, which lists everything. Raises KeyError where there is none."""
    if _CONTAINER in members:
        for rootfile in _xml(archive, members[_CONTAINER]).findall(".//{*}rootfile"):
            path = posixpath.normpath(rootfile.get("full-path", ""))
            if path in members:
                return path
    return next((path for path in sorted(members) if path.lower().endswith(".opf")), _CONTAINER)


def _xml(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> ElementTree.Element:
    if member.file_size > MOST_PACKAGE_BYTES:
        raise ValueError(f"{member.filename} has {member.file_size} bytes")
    return ElementTree.fromstring(archive.read(member))


def _encrypted(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> frozenset[str]:
    """Return the paths of what is encrypted: often only the fonts are."""
    if _ENCRYPTION not in members:
        return frozenset()
    references = _xml(archive, members[_ENCRYPTION]).findall(".//{*}CipherReference")
    return frozenset(posixpath.normpath(unquote(reference.get("URI", ""))) for reference in references)


def _reading_order(package: ElementTree.Element, folder: str) -> Iterator[str]:
    """Yield the paths of the chapters in their order; pictures among them are none."""
    items = {item.get("id"): item for item in package.findall(".//{*}item")}
    for reference in package.findall(".//{*}itemref"):
        item = items.get(reference.get("idref"))
        if item is not None and not item.get("media-type", "").startswith("image/"):
            address = unquote(item.get("href", "").partition("#")[0])
            yield posixpath.normpath(posixpath.join(folder, address))


def _title(package: ElementTree.Element) -> str | None:
    """Return the book's first title; books of 2002 write it with a capital letter."""
    for element in package.iter():
        if isinstance(element.tag, str) and element.tag.rpartition("}")[2].lower() == "title":
            return " ".join("".join(element.itertext()).split()) or None
    return None


def _text(data: bytes) -> str:
    """Return a chapter's text: UTF-8, else what the chapter says, else what its bytes say; empty for one of none."""
    declared = _ENCODING.match(data)
    for encoding in ("utf-8-sig", declared[1].decode("ascii") if declared else "utf-8-sig"):
        try:
            text = data.decode(encoding)
        except (LookupError, ValueError):
            continue
        if "\x00" not in text:  # else it is UTF-16
            return text
    try:
        return decode(data)
    except SkipFile as error:
        if error.reason is Reason.EMPTY:
            return ""
        raise ValueError("a chapter is no text") from error


def _body(text: str) -> str:
    """Return what is inside of a chapter's body; the whole of it without its prologue where it has none."""
    begin = _BODY.search(text)
    if begin is None:
        return _PROLOGUE.sub("", text)
    end = text.lower().rfind("</body")
    return text[begin.end() : end if end > begin.end() else len(text)]


def _damaged(name: str) -> FailFile:
    return FailFile(Reason.CORRUPT, f"{name}: this is no EPUB, or a damaged one.")


def _protected(name: str) -> FailFile:
    message = f"{name}: the book is protected against copying (DRM)."
    return FailFile(Reason.PASSWORD_REQUIRED, message, hint="Only a copy without protection can be read.")
