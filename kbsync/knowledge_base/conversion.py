"""Reads documents through the cage: kept conversions first, passwords from files, time limits by size."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

from kbsync.errors import FailFile
from kbsync.failpoints import failpoint
from kbsync.ingest import Content, Kind
from kbsync.model import ChunkLimits, Conversion, ConversionRequest, OcrMode
from kbsync.pipelines.docling_converter import converter_fingerprint
from kbsync.pipelines.isolation import SlotStatus
from kbsync.pipelines.isolation_plan import time_limit_for
from kbsync.reasons import Reason
from kbsync.store.kept_conversions import KeptConversions

# A file of passwords is read to this many bytes; each line is one.
_PASSWORD_BYTES = 64_000


class Cage(Protocol):
    """Where conversions run."""

    def run(self, request: ConversionRequest, time_limit_s: float) -> Conversion: ...
    def status(self) -> Sequence[SlotStatus]: ...
    def close(self) -> None: ...


class DocumentReader:
    """Turns a private copy of a document into pieces. Any number of threads may read; the cage says how many run."""

    def __init__(
        self,
        cage: Cage,
        kept: KeptConversions,
        limits: ChunkLimits,
        tokenizer_json: str,
        languages: tuple[str, ...],
        threads: int,
        models: str | None = None,
        encodings: tuple[str, ...] = (),
    ) -> None:
        self._cage = cage
        self._kept = kept
        self._limits = limits
        self._tokenizer_json = tokenizer_json
        self._languages = languages
        self._threads = threads
        self._models = models
        self._encodings = encodings

    @property
    def encodings(self) -> tuple[str, ...]:
        """Legacy encodings that old text files and web pages are likely in."""
        return self._encodings

    def fingerprint(self, ocr: OcrMode) -> str:
        """Name the rules by which a document is converted."""
        return converter_fingerprint(ocr, self._languages, self._models)

    def read(self, content: Content, kind: Kind) -> Conversion:
        """Convert a document, or cut its kept conversion anew. Raises FailFile and RetryLater."""
        failpoint("conversion.begun")
        kept = self._kept.find(content.content_hash, kind.converter)
        if kept is not None:
            try:
                return self._run(content, kind, None, kept)
            except FailFile as error:
                if error.reason is not Reason.CORRUPT:
                    raise
                # Damaged on our disk, which says nothing about the file.
                self._kept.forget(content.content_hash)
        conversion = self._converted(content, kind)
        failpoint("conversion.done")
        self._kept.keep(content.content_hash, kind.converter, conversion.document)
        failpoint("conversion.kept")
        return conversion

    def _converted(self, content: Content, kind: Kind) -> Conversion:
        try:
            return self._run(content, kind, None, None)
        except FailFile as error:
            if error.reason is not Reason.PASSWORD_REQUIRED or content.password_file is None:
                raise
            return self._with_passwords(content, kind, content.password_file)

    def _with_passwords(self, content: Content, kind: Kind, password_file: str) -> Conversion:
        for password in passwords_in(password_file):
            try:
                return self._run(content, kind, password, None)
            except FailFile as error:
                if error.reason is not Reason.PASSWORD_REQUIRED:
                    raise
        raise FailFile(
            Reason.PASSWORD_REQUIRED,
            f"No password in {password_file} opens {content.name}.",
            hint="Add the right one to it, a line for each, and add the file again.",
        )

    def _run(self, content: Content, kind: Kind, password: str | None, kept: str | None) -> Conversion:
        if content.copy is None:
            raise FailFile(Reason.IO, f"There is no private copy of {content.name} to convert.")
        request = ConversionRequest(
            path=content.copy,
            name=content.name,
            type=kind.type,
            content_hash=content.content_hash,
            ocr=kind.ocr,
            languages=self._languages,
            password=password,
            limits=self._limits,
            tokenizer_json=self._tokenizer_json,
            threads=self._threads,
            kept=kept,
            models=self._models,
            title=content.options.title,
        )
        return self._cage.run(request, time_limit_for(None, content.size))


def passwords_in(path: str) -> list[str]:
    """Return the passwords of a file, one a line. Raises FailFile(PASSWORD_REQUIRED) where it cannot be read."""
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            lines = file.read(_PASSWORD_BYTES).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FailFile(
            Reason.PASSWORD_REQUIRED, f"The password file {path} cannot be read: {error}.", hint="Correct its path."
        ) from error
    return [line for line in lines if line]
