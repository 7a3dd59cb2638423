"""E-mail: the header lines and the text of the body. Attachments are named, not read.

The standard library's parser goes down by recursion and has no limit; here only its reading of headers is used, and
parts are split level by level, to a depth and a number.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.parser import Parser

from kbsync.errors import SkipFile
from kbsync.model import JsonValue, Piece
from kbsync.pipelines.decode import decode
from kbsync.pipelines.draft import Draft
from kbsync.pipelines.html_text import text_of_html
from kbsync.pipelines.lines import Lines
from kbsync.pipelines.room import Room
from kbsync.pipelines.text import cut_plain, read_text

# A forwarded message in a signed one with pictures has 5 levels; mailing lists have been seen to add a few.
MOST_DEPTH = 16
MOST_PARTS = 1_000
MOST_NAMES = 200
_NAME_CHARACTERS = 200

_SHOWN = ("From", "To", "Cc", "Date", "Subject")
# What has none of these is no message, whatever its ending says.
_OF_A_MESSAGE = frozenset(("from", "to", "subject", "date", "message-id", "received"))
# The lines that the standard library takes for fields.
_FIELDS = re.compile(r"(?:(?:From |[!-9;-~]*:|[ \t])[^\n]*(?:\n|$))*+")
_ENCODED_WORD = r"=\?[^?\s]+\?[bBqQ]\?[^?]*\?="
_ENCODED_WORDS = re.compile(rf"{_ENCODED_WORD}(?:\s+{_ENCODED_WORD})*")
# What senders call by a narrower name than they use.
_WIDER = {"iso-8859-1": "cp1252", "us-ascii": "utf-8", "gb2312": "gb18030", "ks_c_5601-1987": "cp949"}


@dataclass(frozen=True, slots=True)
class _Part:
    """A message or a part of one: its header fields, and its body, in which bytes beyond ASCII are lone surrogates."""

    fields: Message
    body: str

    def decoded_body(self) -> bytes:
        """Return the body without the encoding of its transport (base64, quoted-printable)."""
        self.fields.set_payload(self.body)
        payload = self.fields.get_payload(decode=True)
        return payload if isinstance(payload, bytes) else b""


@dataclass(slots=True)
class _Contents:
    """What was found in a part and below it. `plain`: the text was written as such, not made of HTML."""

    texts: list[str] = field(default_factory=list)
    attachments: list[str] = field(default_factory=list)
    plain: bool = False


class _Walk:
    """Goes through the parts of one message and counts them."""

    def __init__(self) -> None:
        self.parts = 0
        self.left_out = False

    def contents(self, part: _Part, depth: int) -> _Contents:
        """Return the texts of a part, in order, and the names of what is not read."""
        self.parts += 1
        if depth > MOST_DEPTH or self.parts > MOST_PARTS:
            self.left_out = True
            return _Contents()
        kind = part.fields.get_content_type()
        attached = part.fields.get_content_disposition() == "attachment"
        boundary = part.fields.get_boundary()
        if kind.startswith("multipart/") and boundary:
            below = []
            for inside in _split(part.body, boundary):
                below.append(self.contents(_part(inside), depth + 1))
                if self.parts > MOST_PARTS:
                    break
            return _one_of(below) if kind == "multipart/alternative" else _all_of(below)
        if kind == "message/rfc822" and not attached:
            message = _part(_ascii(part.decoded_body()))
            inner = self.contents(message, depth + 1)
            return replace(inner, texts=[*_header_lines(message), *inner.texts])
        if attached or not kind.startswith(("text/", "message/", "multipart/")):
            return _Contents(attachments=[_named(part, kind)])
        charset = part.fields.get_content_charset()
        text = _text(part.decoded_body(), charset if isinstance(charset, str) else None)
        if text is None:
            return _Contents(attachments=[_named(part, kind)])
        shown = text_of_html(text) if kind == "text/html" else text.strip("\n")
        return _Contents([shown] if shown.strip() else [], plain=kind != "text/html")


def read_email(data: bytes, *, cut: bool) -> Draft:
    """Return the header lines, the text and the names of the attachments; the subject is the title.

    Pieces have no lines: the file's own are those of its transport. `cut`: the data end where a limit cut them.
    What is no message is read as text. Raises SkipFile(BINARY) and SkipFile(EMPTY) for what is no text.
    """
    message = _part(_ascii(data.removeprefix(BOM_UTF8).lstrip(b"\r\n")))
    if not _OF_A_MESSAGE & {name.lower() for name, _ in message.fields.raw_items()}:
        return read_text(decode(data, cut=cut))
    walk = _Walk()
    contents = walk.contents(message, 1)
    names = list(dict.fromkeys(contents.attachments))[:MOST_NAMES]
    attached = [f"Attachments: {', '.join(names)}"] if names else []
    text = "\n\n".join([*_header_lines(message), *contents.texts, *attached]).strip()
    metadata: dict[str, JsonValue] = {name.lower(): value for name, value in _headers(message) if name != "Subject"}
    if names:
        metadata["attachments"] = names
    if walk.left_out:
        metadata["parts_left_out"] = f"deeper than {MOST_DEPTH} levels, or after {MOST_PARTS} parts"

    def pieces(room: Room) -> Iterator[Piece]:
        for piece in cut_plain(Lines(text), room, "email"):
            yield replace(piece, first_line=None, last_line=None)

    return Draft(cut=pieces, title=_header(message, "Subject"), metadata=metadata, truncated=walk.left_out)


def _part(text: str) -> _Part:
    """Read the header fields; the body begins behind an empty line, or with the first line that is no field."""
    fields = _FIELDS.match(text)
    head = fields.group() if fields else ""
    return _Part(Parser().parsestr(head, headersonly=True), text[len(head) :].removeprefix("\n"))


def _ascii(data: bytes) -> str:
    return data.replace(b"\r\n", b"\n").decode("ascii", "surrogateescape")


def _split(payload: str, boundary: str) -> Iterator[str]:
    """Yield the parts between the boundaries; a payload that has none of them is one part."""
    marks = re.compile(rf"^--{re.escape(boundary)}(--)?[ \t]*$", re.MULTILINE)
    begin = None
    for mark in marks.finditer(payload):
        if begin is not None:
            yield payload[begin : mark.start()]
        if mark[1]:
            return
        begin = mark.end() + 1
    yield payload if begin is None else payload[begin:]


def _all_of(below: list[_Contents]) -> _Contents:
    texts = [text for contents in below for text in contents.texts]
    plain = all(contents.plain for contents in below if contents.texts)
    return _Contents(texts, [name for contents in below for name in contents.attachments], plain)


def _one_of(below: list[_Contents]) -> _Contents:
    """Return one of several forms of the same: the plain one, unless nothing is in it."""
    told = [contents for contents in below if contents.texts]
    best = next((contents for contents in told if contents.plain), told[0] if told else _Contents())
    return replace(best, attachments=_all_of(below).attachments)


def _header_lines(message: _Part) -> list[str]:
    lines = "\n".join(f"{name}: {value}" for name, value in _headers(message))
    return [lines] if lines else []


def _headers(message: _Part) -> Iterator[tuple[str, str]]:
    for name in _SHOWN:
        value = _header(message, name)
        if value:
            yield name, value


def _header(message: _Part, name: str) -> str | None:
    """Return the first header of a name on one line, encoded words read."""
    raw = next((value for key, value in message.fields.raw_items() if key.lower() == name.lower()), None)
    return None if raw is None else _decoded(str(raw)) or None


def _decoded(raw: str) -> str:
    text = raw if raw.isascii() else _text(raw.encode("utf-8", "surrogateescape"), None)
    return " ".join(_ENCODED_WORDS.sub(_words, text or "").replace("\x00", "").split())


def _words(run: re.Match[str]) -> str:
    """Return the text of encoded words side by side: a character may begin in one and end in the next."""
    try:
        words = decode_header(run[0])
    except (HeaderParseError, ValueError):
        return run[0]
    return "".join(word if isinstance(word, str) else _text(word, charset) or "" for word, charset in words)


def _named(part: _Part, kind: str) -> str:
    return _decoded(part.fields.get_filename() or "")[:_NAME_CHARACTERS] or kind


def _text(data: bytes, charset: str | None) -> str | None:
    """Return the text by the encoding that is named, else by what the bytes say; None for binary data."""
    if not data.strip():
        return ""
    if charset is not None:
        try:
            text = data.decode(_WIDER.get(charset.lower(), charset))
        except (LookupError, ValueError):
            pass  # a name that nobody knows, or not the truth
        else:
            # Some encodings (UTF-7) can say half a pair of surrogates, which no database takes.
            text = text.encode("utf-8", "replace").decode()
            return text.replace("\x00", "").replace("\r\n", "\n").replace("\r", "\n")
    try:
        return decode(data)
    except SkipFile:
        return None
