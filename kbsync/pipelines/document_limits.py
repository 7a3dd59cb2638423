"""What is refused before Docling sees it: locked and damaged files, archive and picture bombs, endless nesting.

Docling burns minutes of CPU or gigabytes on some of these; each is told from a few bytes, without unpacking anything.

| type | limit | what happens above it |
| --- | --- | --- |
| every document | 200 MB (`sources.ignore`) | skipped: too_large |
| PDF | `MOST_PAGES`, `MOST_PAGE_AREA` | failed: too_complex |
| picture | `MOST_PIXELS` a frame, `MOST_FRAMES` | failed: too_complex |
| Office, EPUB | `MOST_MEMBERS`, `MOST_MEMBER_BYTES`, `MOST_UNPACKED_BYTES`, `MOST_RATIO` | failed: too_complex |
| XLSX | `MOST_SHEET_CELLS` | failed: too_complex |
| web page | `MOST_NESTING`, `MOST_ELEMENTS`, `MOST_UNCLOSED`, `MOST_HTML_CELLS`, `MOST_BROKEN` | read as plain text |
| web page | `MOST_PAGE_BYTES` | its beginning is read as plain text: truncated |
| every conversion | time, memory and size of the answer (`isolation`) | failed: timeout, memory, too_complex |
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from io import BytesIO
from itertools import repeat
from typing import TYPE_CHECKING

from kbsync.errors import FailFile, SkipFile
from kbsync.pipelines.decode import decode
from kbsync.pipelines.markup import shape
from kbsync.reasons import Reason

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_MEMBERS = 10_000
MOST_UNPACKED_BYTES = 1_000_000_000
MOST_MEMBER_BYTES = 300_000_000
# Office files of text shrink to a twentieth; past this size only a bomb shrinks to less than a hundredth.
MOST_RATIO = 100
RATIO_COUNTS_FROM = 50_000_000
MOST_PIXELS = 100_000_000
MOST_FRAMES = 1_000
# In points; an A0 poster has 8 million. Drawing a page for OCR takes 27 bytes a square point.
MOST_PAGE_AREA = 30_000_000.0
# The longest manuals have 5,200 pages. An hour, the most that a conversion may take, is not enough for many more.
MOST_PAGES = 6_000
# Docling walks a page's elements by recursion: at about 250 levels Python gives up.
MOST_NESTING = 150
# A cell takes Docling half a millisecond; elements without end tag are moved one by one, with all that follows them.
MOST_HTML_CELLS = 50_000
MOST_ELEMENTS = 200_000
MOST_UNCLOSED = 2_000
# After each tag or comment that never ends, html.parser looks at the rest of the page again.
MOST_BROKEN = 500
MOST_PAGE_BYTES = 20_000_000
# Of a page that is read as plain text, headings and the texts between them together: each is a chunk, and 5,000 count.
MOST_PLAIN_SECTIONS = 20_000
# Docling visits every cell between a sheet's first and last, empty or not.
MOST_SHEET_CELLS = 2_000_000

_WANTS_PASSWORD = 4  # pdfium's FPDF_ERR_PASSWORD; a damaged file gives another code
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# No search passes the next `<`, and none is long: broken markup too is read in one go.
_CELL = re.compile(rb"<(?:[A-Za-z0-9_]{1,20}:)?(row|c)\b([^<>]{0,400})")
_PLACE = re.compile(rb"\sr\s{0,9}=\s{0,9}[\"']([A-Z]{0,3})([0-9]{0,7})[\"']")
_LONGEST_CELL_TAG = 500
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([a-zA-Z0-9_-]{2,40})", re.IGNORECASE)

# What the zip library raises for archives that are none.
_DAMAGED = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error),
    *(NotImplementedError, EOFError, ValueError, OSError),
)


def check_pdf(path: str, name: str, password: str | None) -> int:
    """Return the number of pages. Raises FailFile where a PDF cannot be opened, wants a password or has a page of
    absurd size."""
    import pypdfium2
    from docling.utils.locks import pypdfium2_lock

    with pypdfium2_lock:
        _forget_last_error()
        try:
            with pypdfium2.PdfDocument(path, password=password) as pdf:
                pages = len(pdf)  # what the file says of itself: it may be any number
                sizes = [pdf.get_page_size(number) for number in range(min(pages, MOST_PAGES))]
        except pypdfium2.PdfiumError as error:
            if error.err_code == _WANTS_PASSWORD:
                raise _locked(name, wrong=password is not None) from error
            raise FailFile(Reason.CORRUPT, f"{name}: this is no PDF, or a damaged one.") from error
    if not sizes:
        raise FailFile(Reason.CORRUPT, f"{name}: this PDF has no pages.")
    if pages > MOST_PAGES:
        raise FailFile(Reason.TOO_COMPLEX, f"{name}: it has {pages} pages.", hint="Split it into several files.")
    if max(width * height for width, height in sizes) > MOST_PAGE_AREA:
        raise FailFile(Reason.TOO_COMPLEX, f"{name}: a page of it is larger than any paper.")
    return pages


def _forget_last_error() -> None:
    """Have pdfium tell another last error: some damaged files set none, and the locked one before would be believed."""
    import pypdfium2

    try:
        pypdfium2.PdfDocument(b"no PDF").close()
    except pypdfium2.PdfiumError:
        pass  # that is what is remembered now


def check_office(data: bytes, name: str) -> None:
    """Raise FailFile where an archive of Office or EPUB is locked, damaged or a bomb."""
    if data.startswith(_OLE):
        if "EncryptedPackage".encode("utf-16-le") in data:
            raise _locked(name, wrong=False)
        hint = "Save it in today's format (.docx, .pptx, .xlsx)."
        raise FailFile(Reason.CORRUPT, f"{name}: this is a file of an old Office version.", hint=hint)
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            _check_members(archive.infolist(), len(data), name)
    except _DAMAGED as error:
        raise FailFile(Reason.CORRUPT, f"{name}: the file is damaged or not what its ending says.") from error


def check_sheets(data: bytes, name: str) -> None:
    """Raise FailFile where a sheet of a workbook reaches over more cells than Docling can visit."""
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            for member in archive.infolist():
                if member.filename.startswith("xl/") and member.filename.endswith(".xml"):
                    _check_sheet(archive, member, name)
    except _DAMAGED as error:
        raise FailFile(Reason.CORRUPT, f"{name}: the file is damaged or not what its ending says.") from error


def _check_members(members: list[zipfile.ZipInfo], size: int, name: str) -> None:
    if any(member.flag_bits & 1 for member in members):
        raise _locked(name, wrong=False)
    unpacked = sum(member.file_size for member in members)
    if len(members) > MOST_MEMBERS:
        raise FailFile(Reason.TOO_COMPLEX, f"{name}: it is made of more than {MOST_MEMBERS} parts.")
    if unpacked > MOST_UNPACKED_BYTES or any(member.file_size > MOST_MEMBER_BYTES for member in members):
        raise FailFile(Reason.TOO_COMPLEX, f"{name}: unpacked it has {unpacked // 1_000_000} MB.")
    if unpacked > RATIO_COUNTS_FROM and unpacked > MOST_RATIO * size:
        raise FailFile(Reason.TOO_COMPLEX, f"{name}: {size} bytes unpack to {unpacked // 1_000_000} MB.")


def _check_sheet(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> None:
    last_row = last_column = row = column = 0
    first_row = first_column = 1 << 30
    rest = b""
    with archive.open(member) as stream:
        while block := stream.read(1 << 20):
            block = rest + block
            # A tag that the block's end cuts waits for the next block.
            complete = block.rfind(b"<")
            if len(block) - complete > _LONGEST_CELL_TAG:  # all that counts of it is there
                complete = len(block)
            for kind, attributes in _CELL.findall(block, 0, complete):
                place = _PLACE.search(attributes)
                letters, digits = place.groups() if place else (b"", b"")
                if kind == b"row":
                    row, column = int(digits or row + 1), 0
                    continue
                # Without a place of its own a cell follows the one before it.
                row, column = int(digits or row), _column(letters) or column + 1
                first_row, last_row = min(first_row, row), max(last_row, row)
                first_column, last_column = min(first_column, column), max(last_column, column)
            rest = block[complete:]
    cells = max(0, last_row - first_row + 1) * max(0, last_column - first_column + 1)
    if cells > MOST_SHEET_CELLS:
        message = f"{name}: a sheet reaches over {last_row} rows and {last_column} columns."
        raise FailFile(Reason.TOO_COMPLEX, message, hint="Delete the far cells that nobody needs.")


def _column(letters: bytes) -> int:
    column = 0
    for letter in letters:
        column = column * 26 + letter - 64
    return column


def check_image(path: str, name: str) -> int:
    """Return how many pages the time for reading a picture is worth: its frames, a long one counted by its strips.

    Raises FailFile where it cannot be read or has more pixels than fit in memory. Reads its headers only.
    """
    from PIL import Image, UnidentifiedImageError

    from kbsync.pipelines import long_pages

    try:
        with Image.open(path) as image:
            frames = pages = 0
            for width, height in _frames(image):
                frames += 1
                pages += long_pages.pages_worth(width, height)
                if width * height > MOST_PIXELS:
                    message = f"{name}: the picture has {width * height // 1_000_000} million pixels."
                    raise FailFile(Reason.TOO_COMPLEX, message)
    except Image.DecompressionBombError as error:
        raise FailFile(Reason.TOO_COMPLEX, f"{name}: the picture has too many pixels.") from error
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, EOFError) as error:
        raise FailFile(Reason.CORRUPT, f"{name}: this is no picture, or a damaged one.") from error
    if frames > MOST_FRAMES:
        raise FailFile(Reason.TOO_COMPLEX, f"{name}: the picture has more than {MOST_FRAMES} pages.")
    return pages


def _frames(image: Image) -> Iterator[tuple[int, int]]:
    """Yield the size of each frame, of no more than one above the limit.

    Pages of a TIFF may differ in size; of other formats all frames are drawn on the first one's canvas.
    """
    if image.format != "TIFF":
        yield from repeat(image.size, min(getattr(image, "n_frames", 1), MOST_FRAMES + 1))
        return
    for number in range(MOST_FRAMES + 1):
        try:
            image.seek(number)  # reads a directory, no pixels; `n_frames` would compare each with all before
        except EOFError:
            return
        yield image.size


def read_web_page(path: str) -> tuple[str, bool]:
    """Return a page's text with its markup, and whether only its beginning was read.

    What the page itself says of its encoding counts where it is not UTF-8. Raises SkipFile(EMPTY, BINARY).
    """
    with open(path, "rb") as file:
        data = file.read(MOST_PAGE_BYTES + 1)
    cut = len(data) > MOST_PAGE_BYTES
    text = _declared(data) if not cut else None
    return decode(data[:MOST_PAGE_BYTES], cut=cut) if text is None else text, cut


def check_web_page(page: str, name: str, *, cut: bool) -> None:
    """Raise FailFile(TOO_COMPLEX) where Docling would take minutes for a page, or give up. `cut`: there is more."""
    if cut:
        raise FailFile(Reason.TOO_COMPLEX, f"{name}: it has more than {MOST_PAGE_BYTES // 1_000_000} MB.")
    found = shape(page, MOST_NESTING)
    if found.depth > MOST_NESTING:
        raise FailFile(Reason.TOO_COMPLEX, f"{name}: its elements are nested more than {MOST_NESTING} deep.")
    if found.cells > MOST_HTML_CELLS:
        raise FailFile(Reason.TOO_COMPLEX, f"{name}: its tables have {found.cells} cells.")
    if found.elements > MOST_ELEMENTS:
        raise FailFile(Reason.TOO_COMPLEX, f"{name}: it has {found.elements} elements.")
    if found.unclosed > MOST_UNCLOSED:
        raise FailFile(Reason.TOO_COMPLEX, f"{name}: {found.unclosed} of its elements are not ended.")
    if found.broken > MOST_BROKEN:
        raise FailFile(Reason.TOO_COMPLEX, f"{name}: its markup is broken in {found.broken} places.")


def _declared(data: bytes) -> str | None:
    """Return the text by the encoding that the page names; None where it names none or its bytes are not in it."""
    found = _CHARSET.search(data[:4096])
    if found is None:
        return None
    try:
        data.decode("utf-8")
        return None
    except UnicodeDecodeError:
        pass  # only then the page's word is worth something: many say latin-1 and are UTF-8
    try:
        text = data.decode(found[1].decode("ascii"))
    except (UnicodeDecodeError, LookupError):
        return None
    if not text.strip():
        raise SkipFile(Reason.EMPTY, "It is empty.")
    return text


def _locked(name: str, *, wrong: bool) -> FailFile:
    what = "the password does not open it" if wrong else "it is protected by a password"
    return FailFile(Reason.PASSWORD_REQUIRED, f"{name}: {what}.", hint="Give the password, or save it without one.")
