"""Writes PDFs byte by byte, sound and broken ones, also locked with a password: no library writes such files."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping

_PAD = bytes.fromhex("28bf4e5e4e758a4164004e56fffa01082e2e00b6d0683e802f0ca9fe6453697a")
_PERMISSIONS = (-44).to_bytes(4, "little", signed=True)
_IDENTITY = b"kbsync bad documents"[:16]
_FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"


def pdf(objects: Mapping[int, bytes], trailer: bytes = b"") -> bytes:
    """Return a file of these objects by number; 1 is the catalogue. `trailer`: further entries of the trailer."""
    out = bytearray(b"%PDF-1.4\n")
    places = {}
    for number, body in sorted(objects.items()):
        places[number] = len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start, size = len(out), max(objects) + 1
    out += b"xref\n0 %d\n0000000000 65535 f \n" % size
    for number in range(1, size):
        out += b"%010d 00000 n \n" % places[number] if number in places else b"0000000000 00000 f \n"
    out += b"trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (size, trailer, start)
    return bytes(out)


def stream(content: bytes, entries: bytes = b"") -> bytes:
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(content), entries, content)


def lines(*texts: str, top: int = 720) -> bytes:
    """Return page content: each text on a line of its own, the first one so many points above the page's foot."""
    shown = b" ".join(b"(%s) Tj 0 -20 Td" % text.encode("ascii") for text in texts)
    return b"BT /F1 12 Tf 72 %d Td %s ET" % (top, shown)


def one_page(
    content: bytes, entries: bytes = b"", trailer: bytes = b"", more: Mapping[int, bytes] | None = None
) -> bytes:
    """Return a file of one page. `entries` are those of its content stream."""
    return pdf({**_page(), 4: stream(content, entries), **(more or {})}, trailer)


def _page() -> dict[int, bytes]:
    used = b"/Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >>"
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] %s >>" % used
    return {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        3: page,
        5: _FONT,
    }


def many_pages(number: int) -> bytes:
    """Return a file of empty pages."""
    kids = b" ".join(b"%d 0 R" % (3 + page) for page in range(number))
    objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, number),
    }
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] >>"
    return pdf({**objects, **dict.fromkeys(range(3, 3 + number), page)})


def with_a_loop_of_kids(count: int) -> bytes:
    """Return a file whose tree of pages is its own child, and that claims `count` pages."""
    return pdf(
        {
            1: b"<< /Type /Catalog /Pages 2 0 R >>",
            2: b"<< /Type /Pages /Kids [3 0 R 2 0 R] /Count %d >>" % count,
            3: b"<< /Type /Pages /Parent 2 0 R /Kids [2 0 R 3 0 R] /Count %d >>" % count,
        }
    )


def with_a_loop_of_tables(text: str) -> bytes:
    """Return a file whose table of places names itself as the one before it."""
    whole = one_page(lines(text))
    start = whole.rindex(b"xref\n0 ")
    return whole.replace(b"/Root 1 0 R", b"/Root 1 0 R /Prev %d" % start)


def inflating(size: int) -> bytes:
    """Return a file whose page inflates to `size` bytes of white space with a text behind it."""
    content = zlib.compress(lines("rowan") + b" " * size, 9)
    return one_page(content, b"/Filter /FlateDecode")


def locked(text: str, user: bytes, owner: bytes) -> bytes:
    """Return a file locked in the oldest way (RC4, 40 bits). An empty `user` password locks only what may be done."""
    owned = _rc4(hashlib.md5(_padded(owner)).digest()[:5], _padded(user))
    key = hashlib.md5(_padded(user) + owned + _PERMISSIONS + _IDENTITY).digest()[:5]
    content_key = hashlib.md5(key + (4).to_bytes(3, "little") + bytes(2)).digest()[:10]
    permissions = int.from_bytes(_PERMISSIONS, "little", signed=True)
    entries = (owned.hex().encode(), _rc4(key, _PAD).hex().encode(), permissions)
    guard = b"<< /Filter /Standard /V 1 /R 2 /O <%s> /U <%s> /P %d >>" % entries
    identity = _IDENTITY.hex().encode()
    trailer = b"/Encrypt 6 0 R /ID [<%s> <%s>]" % (identity, identity)
    return one_page(_rc4(content_key, lines(text)), trailer=trailer, more={6: guard})


def _padded(password: bytes) -> bytes:
    return (password + _PAD)[:32]


def _rc4(key: bytes, data: bytes) -> bytes:
    box = list(range(256))
    other = 0
    for place in range(256):
        other = (other + box[place] + key[place % len(key)]) % 256
        box[place], box[other] = box[other], box[place]
    out, place, other = bytearray(), 0, 0
    for byte in data:
        place = (place + 1) % 256
        other = (other + box[place]) % 256
        box[place], box[other] = box[other], box[place]
        out.append(byte ^ box[(box[place] + box[other]) % 256])
    return bytes(out)
