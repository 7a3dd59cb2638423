"""What is refused before Docling sees it: locked and damaged files, archive and picture bombs, endless nesting.

Docling burns minutes of CPU or gigabytes on some of these; each is told from a few bytes, without unpacking anything.
"""

from __future__ import annotations

import re
import zipfile
from io import BytesIO

from kbsync.errors import FailFile, SkipFile
from kbsync.pipelines.decode import decode
from kbsync.reasons import Reason

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
# Docling walks a page's elements by recursion: at about 300 levels Python gives up.
MOST_NESTING = 150
MOST_HTML_CELLS = 50_000
# Docling visits every cell between a sheet's first and last, empty or not.
MOST_SHEET_CELLS = 2_000_000

_WANTS_PASSWORD = 4  # pdfium's FPDF_ERR_PASSWORD; a damaged file gives another code
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_TAG = re.compile(rb"<(/?)([a-zA-Z][a-zA-Z0-9:-]*)(?:[^<>\"']|\"[^\"]*\"|'[^']*')*?(/?)>")
_RAW = re.compile(rb"<!--.*?-->|<(script|style|template)\b.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_VOID = frozenset(b"area base br col embed hr img input link meta param source track wbr".split())
_CELL = re.compile(rb"<c\s[^>]*?\br=\"([A-Z]{1,3})([0-9]{1,7})\"")
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([a-zA-Z0-9_-]{2,40})", re.IGNORECASE)


def check_pdf(path: str, name: str, password: str | None) -> None:
    """Raise FailFile where a PDF cannot be opened, wants a password or has a page of absurd size."""
    import pypdfium2
    from docling.utils.locks import pypdfium2_lock

    with pypdfium2_lock:
        try:
            with pypdfium2.PdfDocument(path, password=password) as pdf:
                sizes = [pdf.get_page_size(number) for number in range(len(pdf))]
        except pypdfium2.PdfiumError as error:
            if error.err_code == _WANTS_PASSWORD:
                raise _locked(name, wrong=password is not None) from error
            raise FailFile(Reason.CORRUPT, f"{name}: this is no PDF, or a damaged one.") from error
    if not sizes:
        raise FailFile(Reason.CORRUPT, f"{name}: this PDF has no pages.")
    if max(width * height for width, height in sizes) > MOST_PAGE_AREA:
        raise FailFile(Reason.TOO_COMPLEX, f"{name}: a page of it is larger than any paper.")


def check_office(data: bytes, name: str) -> None:
    """Raise FailFile where an archive of Office or EPUB is locked, damaged, a bomb, or a sheet without end."""
    if data.startswith(_OLE):
        if "EncryptedPackage".encode("utf-16-le") in data:
            raise _locked(name, wrong=False)
        hint = "Save it in today's format (.docx, .pptx, .xlsx)."
        raise FailFile(Reason.CORRUPT, f"{name}: this is a file of an old Office version.", hint=hint)
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            members = archive.infolist()
            _check_members(members, len(data), name)
            for member in members:
                if member.filename.startswith("xl/worksheets/") and member.filename.endswith(".xml"):
                    _check_sheet(archive, member, name)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError, ValueError, OSError) as error:
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
    last_row = last_column = 0
    first_row = first_column = 1 << 30
    rest = b""
    with archive.open(member) as stream:
        while block := stream.read(1 << 20):
            block = rest + block
            for letters, digits in _CELL.findall(block):
                column = 0
                for letter in letters:
                    column = column * 26 + letter - 64
                first_row, last_row = min(first_row, int(digits)), max(last_row, int(digits))
                first_column, last_column = min(first_column, column), max(last_column, column)
            rest = block[-200:]
    cells = max(0, last_row - first_row + 1) * max(0, last_column - first_column + 1)
    if cells > MOST_SHEET_CELLS:
        message = f"{name}: a sheet reaches over {last_row} rows and {last_column} columns."
        raise FailFile(Reason.TOO_COMPLEX, message, hint="Delete the far cells that nobody needs.")


def check_image(path: str, name: str) -> None:
    """Raise FailFile where a picture cannot be read or has more pixels than fit in memory. Reads its header only."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            pixels = image.width * image.height
            frames = getattr(image, "n_frames", 1)
    except Image.DecompressionBombError as error:
        raise FailFile(Reason.TOO_COMPLEX, f"{name}: the picture has too many pixels.") from error
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, EOFError) as error:
        raise FailFile(Reason.CORRUPT, f"{name}: this is no picture, or a damaged one.") from error
    if pixels > MOST_PIXELS:
        raise FailFile(Reason.TOO_COMPLEX, f"{name}: the picture has {pixels // 1_000_000} million pixels.")
    if frames > MOST_FRAMES:
        raise FailFile(Reason.TOO_COMPLEX, f"{name}: the picture has {frames} pages.")


def html_as_utf8(data: bytes, name: str) -> bytes:
    """Return a web page in UTF-8, with a mark that says so whatever the page says. Raises FailFile and SkipFile."""
    text = _declared(data)
    if text is None:
        text = decode(data)
    page = text.encode("utf-8", "replace")
    markup = _RAW.sub(b"", page)
    depth = deepest = cells = 0
    for closing, tag, empty in _TAG.findall(markup):
        if closing:
            depth = max(0, depth - 1)
        elif not empty and tag.lower() not in _VOID:
            depth += 1
            deepest = max(deepest, depth)
            cells += tag.lower() in (b"td", b"th")
    if deepest > MOST_NESTING:
        raise FailFile(Reason.TOO_COMPLEX, f"{name}: its elements are nested {deepest} deep.")
    if cells > MOST_HTML_CELLS:
        raise FailFile(Reason.TOO_COMPLEX, f"{name}: its tables have {cells} cells.")
    return b"\xef\xbb\xbf" + page


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
