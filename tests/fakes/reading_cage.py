"""A cage that reads documents in this process: what the test's bytes say is the text, and a password guards some."""

from __future__ import annotations

import zlib

from kbsync.errors import FailFile, RetryLater
from kbsync.model import Conversion, ConversionRequest, Parsed, Piece
from kbsync.pipelines.docling_converter import converter_fingerprint
from kbsync.pipelines.isolation import SlotStatus
from kbsync.reasons import Reason

# A document that begins so is opened by the password that follows, up to the end of the line.
GUARD = b"password "


class ReadingCage:
    """Implements knowledge_base.conversion.Cage. `requests` holds what was asked, in order."""

    def __init__(self) -> None:
        self.requests: list[ConversionRequest] = []
        # Names of documents that are damaged for today's rules, whatever they hold.
        self.refused: set[str] = set()
        self.closed = False

    def run(self, request: ConversionRequest, time_limit_s: float) -> Conversion:
        self.requests.append(request)
        with open(request.kept or request.path, "rb") as file:
            content = file.read()
        if request.kept:
            try:
                content = zlib.decompress(content)
            except zlib.error as error:
                raise FailFile(Reason.CORRUPT, f"{request.name}: what is kept of it is damaged.") from error
        elif content.startswith(GUARD):
            password, _, content = content.removeprefix(GUARD).partition(b"\n")
            if request.password is None or request.password.encode() != password:
                raise FailFile(Reason.PASSWORD_REQUIRED, f"{request.name} wants a password.")
        elif content == b"crash":
            raise RetryLater(Reason.CRASHED, f"{request.name}: the process that read it was ended by SIGSEGV.")
        elif content == b"corrupt" or request.name in self.refused:
            raise FailFile(Reason.CORRUPT, f"{request.name} is damaged.")
        text = content.decode()
        pieces = tuple(
            Piece(page, "text", metadata={"page": number})
            for number, page in enumerate(text.split("\f"), start=1)
            if page.strip()
        )
        return Conversion(
            parsed=Parsed(pieces),
            page_count=text.count("\f") + 1,
            ocr_pages=(),
            document=zlib.compress(content),
            converter=converter_fingerprint(request.ocr, request.languages),
        )

    def status(self) -> tuple[SlotStatus, ...]:
        return (SlotStatus("idle", 1, None, None, 0, 0),)

    def close(self) -> None:
        self.closed = True
