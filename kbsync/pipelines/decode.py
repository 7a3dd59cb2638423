"""Bytes to text: Unicode in all its forms, else the likeliest legacy encoding; binary data and blanks are refused."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from kbsync.errors import SkipFile
from kbsync.pipelines.charsets import legacy_encoding, wide_encoding
from kbsync.reasons import Reason

# The longer mark first: UTF-32's begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_BINARY_STARTS = (
    b"%PDF-",
    b"PK\x03\x04",
    b"\x7fELF",
    b"\x89PNG\r\n",
    b"GIF8",
    b"\xff\xd8\xff",
    b"\x1f\x8b",
    b"7z\xbc\xaf\x27\x1c",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    b"SQLite format 3\x00",
)
_LOOKED_AT = 65_536
_MOST_NULS_IN_TEXT = 0.1  # of UTF-8: a padded or torn log is still text, an archive is not
_MOST_NULS_IN_LEGACY_TEXT = 0.001
_MOST_CONTROLS = 0.05  # random bytes have 0.1
_CONTROLS = bytes(set(range(32)) - {0x08, 0x09, 0x0A, 0x0C, 0x0D, 0x1B}) + b"\x7f"
_NULS = re.compile("\x00+")
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x07\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_INVISIBLE = " \t\n\r\f\v\u00a0\u200b\u2060\ufeff"
_SOUND_PER_BROKEN = 10  # one broken byte in a Chinese text of UTF-8 does not make it another encoding
_BROKEN_BEYOND_DOUBT = 10_000
_ASCII_OR_BROKEN = re.compile("[\x00-\x7f\ufffd]")
_HOLE = 64  # NUL bytes in a row that no encoding makes: a log that was cut down while it was written begins with them
# Halves of UTF-16 pairs, each written as a character of UTF-8: old databases and Java write so.
_SURROGATES = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")


@dataclass(frozen=True, slots=True)
class Decoded:
    """A text, and the encoding that its bytes are in, by Python's name."""

    text: str
    encoding: str


def decode(data: bytes, *, cut: bool = False) -> str:
    """Return the text of a file, as `decoded` reads it."""
    return decoded(data, cut=cut).text


def decoded(data: bytes, *, cut: bool = False, preferred: tuple[str, ...] = ()) -> Decoded:
    r"""Return the text of a file, lines ended by `\n` only, without NUL and byte order mark, and its encoding.

    `cut`: the data end where a limit cut them, maybe inside a character; that half character is left out.
    `preferred`: legacy encodings by Python's names that win where the bytes leave doubt, the first one first.
    Raises SkipFile(BINARY) for what is no text, SkipFile(EMPTY) where nothing visible is in it.
    """
    if not data:
        raise _empty()
    if data.startswith(_BINARY_STARTS):
        raise _binary("its first bytes are those of a binary format")
    if data.startswith(bytes(_HOLE)):
        data = data.lstrip(b"\x00")
    found = _unicode_text(data, cut=cut) or _legacy_text(data, preferred, cut=cut)
    text = found.text
    if len(_CONTROL_CHARACTERS.findall(text[:_LOOKED_AT])) > max(8, _MOST_NULS_IN_TEXT * len(text[:_LOOKED_AT])):
        raise _binary("too many of its characters are control characters")
    # Where NUL bytes stand between words they are what keeps these apart.
    text = _NULS.sub(" ", text).replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip(_INVISIBLE):
        raise _empty()
    return Decoded(text, codecs.lookup(found.encoding).name)


def _unicode_text(data: bytes, *, cut: bool) -> Decoded | None:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _lenient(data[len(mark) :], encoding, cut=cut)
    wide = _wide_encoding(data)
    if wide is not None:
        return _lenient(data, wide, cut=cut)
    try:
        text = codecs.getincrementaldecoder("utf-8")("strict").decode(data, not cut)
    except UnicodeDecodeError:
        return _mostly_utf8(data, cut=cut)
    return _japanese_mail(data) or Decoded(text, "utf-8")


def _lenient(data: bytes, encoding: str, *, cut: bool) -> Decoded:
    return Decoded(codecs.getincrementaldecoder(encoding)("replace").decode(data, not cut), encoding)


def _wide_encoding(data: bytes) -> str | None:
    """Name the encoding of wide characters without a mark, by where the NUL bytes are. None where it is not one."""
    sample = data[:_LOOKED_AT]
    sample = sample[: len(sample) - len(sample) % 4] or sample[: len(sample) - len(sample) % 2]
    nuls = [sample[place::4].count(0) for place in range(4)] if len(sample) >= 4 else [0, sample[1:2].count(0), 0, 0]
    fourth = len(sample) / 4
    if nuls[3] > 0.9 * fourth and nuls[2] > 0.9 * fourth and nuls[0] < 0.5 * fourth:
        return "utf-32-le" if _reads_well(sample, "utf-32-le") else None
    if nuls[0] > 0.9 * fourth and nuls[1] > 0.9 * fourth and nuls[3] < 0.5 * fourth:
        return "utf-32-be" if _reads_well(sample, "utf-32-be") else None
    even, odd = nuls[0] + nuls[2], nuls[1] + nuls[3]
    is_utf8 = _is_utf8(data[:_LOOKED_AT])
    most = max(even, odd)
    if is_utf8 and _letter_pairs(sample) >= most:
        return None  # words with NUL bytes between them
    if most > 0 and min(even, odd) <= 0.05 * most and (most >= 0.15 * len(sample) or not is_utf8 or _controls(sample)):
        encoding = "utf-16-le" if odd > even else "utf-16-be"
        if _reads_well(sample, encoding):
            return encoding
    return None if is_utf8 else wide_encoding(sample)


def _letter_pairs(sample: bytes) -> int:
    """Count the characters of UTF-16 that would be two of ASCII. Of text that is valid UTF-8 few characters are."""
    return sum(1 for pair in zip(sample[::2], sample[1::2], strict=False) if all(0x20 <= byte < 0x7F for byte in pair))


def _is_utf8(sample: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")("strict").decode(sample, False)
    except UnicodeDecodeError:
        return False
    return True


def _reads_well(sample: bytes, encoding: str) -> bool:
    """Say whether the sample decodes to assigned, printable characters. Binary data seldom do for long."""
    text = codecs.getincrementaldecoder(encoding)("replace").decode(sample, False)
    odd = sum(1 for char in text if not (char.isprintable() or char in "\t\n\r\f\ufeff\u3000\u00a0"))
    return odd + 5 * text.count("\ufffd") <= 0.02 * len(text)


def _mostly_utf8(data: bytes, *, cut: bool) -> Decoded | None:
    if _SURROGATES.search(data):
        try:
            text = codecs.getincrementaldecoder("utf-8")("surrogatepass").decode(data, not cut)
            return Decoded(paired(text), "utf-8")
        except UnicodeDecodeError:
            pass  # it is broken in other ways too: those decide
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    broken = sound = 0
    for start in range(0, len(data), _LOOKED_AT):  # in blocks: a text in another encoding is told by the first one
        block = decoder.decode(data[start : start + _LOOKED_AT])
        broken += block.count("\ufffd")
        sound += len(_ASCII_OR_BROKEN.sub("", block))
        if broken > _BROKEN_BEYOND_DOUBT and sound < broken:
            return None
    return _lenient(data, "utf-8", cut=cut) if sound >= _SOUND_PER_BROKEN * broken else None


def paired(text: str) -> str:
    """Make characters of pairs of surrogates, and U+FFFD of those that are alone: nothing could store these."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _japanese_mail(data: bytes) -> Decoded | None:
    """Read ISO-2022-JP, which looks like ASCII with escapes. None where it is not that."""
    if b"\x1b$" not in data:
        return None
    try:
        return Decoded(data.decode("iso2022_jp"), "iso2022_jp")
    except UnicodeDecodeError:
        return None


def _legacy_text(data: bytes, preferred: tuple[str, ...], *, cut: bool) -> Decoded:
    sample = data[:_LOOKED_AT]
    if sample.count(0) > max(1, _MOST_NULS_IN_LEGACY_TEXT * len(sample)):
        raise _binary("it has NUL bytes and is no Unicode text")
    if _controls(sample):
        raise _binary("too many of its bytes are control characters")
    return _lenient(data, legacy_encoding(data, preferred, cut=cut), cut=cut)


def _controls(sample: bytes) -> bool:
    return len(sample) - len(sample.translate(None, _CONTROLS)) > _MOST_CONTROLS * len(sample)


def _binary(why: str) -> SkipFile:
    return SkipFile(Reason.BINARY, f"This is binary data, not text: {why}.", hint="Export it as text to have it found.")


def _empty() -> SkipFile:
    return SkipFile(Reason.EMPTY, "Nothing but white space is in this file.", hint="It is read when it is filled.")
