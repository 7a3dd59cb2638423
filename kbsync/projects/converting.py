"""Makes Markdown of office documents, PDFs, pictures and books, in the same child processes as everything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kbsync.errors import FailFile
from kbsync.file_types import DocumentType
from kbsync.model import ChunkLimits, Conversion, ConversionRequest, OcrMode
from kbsync.pipelines.isolation_plan import time_limit_for
from kbsync.reasons import Reason

# No pieces are cut; the request wants limits all the same.
_NO_LIMITS = ChunkLimits(0, 256, 0)


class Cage(Protocol):
    """Where conversions run."""

    def run(self, request: ConversionRequest, time_limit_s: float) -> Conversion: ...


class CageConverter:
    """A `reading.Converter` over a cage, which is opened when the first document needs it."""

    def __init__(
        self,
        open_cage: Callable[[], Cage],
        *,
        languages: tuple[str, ...],
        threads: int,
        tokenizer_json: str,
        models: str | None = None,
        ocr: OcrMode = "auto",
        passwords: tuple[str, ...] = (),
    ) -> None:
        self._open_cage = open_cage
        self._languages = languages
        self._threads = threads
        self._tokenizer_json = tokenizer_json
        self._models = models
        self._ocr: OcrMode = ocr
        self._passwords = passwords
        self._cage: Cage | None = None

    def markdown(self, path: str, name: str, document_type: DocumentType, content_hash: str, size: int) -> str:
        """Return a document's text; each password is tried where it wants one. Raises FailFile and RetryLater."""
        if self._cage is None:
            self._cage = self._open_cage()
        for password in (None, *self._passwords):
            request = ConversionRequest(
                path=path,
                name=name,
                type=document_type,
                content_hash=content_hash,
                ocr=self._ocr,
                languages=self._languages,
                password=password,
                limits=_NO_LIMITS,
                tokenizer_json=self._tokenizer_json,
                threads=self._threads,
                kept=None,
                models=self._models,
                markdown=True,
            )
            try:
                text = self._cage.run(request, time_limit_for(None, size)).markdown
            except FailFile as error:
                if error.reason is not Reason.PASSWORD_REQUIRED:
                    raise
                continue
            if not (text or "").strip():
                raise FailFile(Reason.NO_TEXT, f"{name} holds no text.", hint="A scan without OCR, perhaps.")
            return text or ""
        if self._passwords:
            raise FailFile(
                Reason.PASSWORD_REQUIRED, f"No password of the file opens {name}.", hint="Add the right one."
            )
        raise FailFile(
            Reason.PASSWORD_REQUIRED, f"{name} is protected by a password.", hint="Give it with --password-file FILE."
        )
