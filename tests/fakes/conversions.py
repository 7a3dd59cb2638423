"""Conversions in one child process that all tests share: importing Docling and loading its models takes 15 s."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import tempfile
import threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from kbsync.errors import FailFile, SkipFile
from kbsync.file_types import DocumentType, ending_of
from kbsync.model import ChunkLimits, Conversion, ConversionRequest, OcrMode
from kbsync.reasons import Reason

_TYPES: dict[str, DocumentType] = {
    ".pdf": "pdf",
    ".docx": "docx",
    ".pptx": "pptx",
    ".xlsx": "xlsx",
    ".html": "html",
    ".epub": "epub",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """Why a file was not converted."""

    reason: Reason
    message: str


class Conversions:
    """Converts files and remembers each answer."""

    def __init__(self, tokenizer_json: str) -> None:
        self._tokenizer_json = tokenizer_json
        # Spawned, so that neither Docling's warnings nor its threads are in the tests' own process.
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_end_with_the_tests)
        self._answers: dict[ConversionRequest, Conversion | Refusal] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="kbsync-conversions-")
        # What was converted once is only cut anew for other limits, as the program does.
        self._kept: dict[ConversionRequest, Path] = {}

    def pid(self) -> int:
        """Return the child's process number; starts it where it is not there yet, and waits for that."""
        return self._pool.submit(os.getpid).result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()

    def of(
        self,
        path: Path,
        *,
        ocr: OcrMode = "auto",
        password: str | None = None,
        limits: ChunkLimits | None = None,
        languages: tuple[str, ...] = (),
        kept: Path | None = None,
    ) -> Conversion:
        """Return the conversion of a file."""
        answer = self._answer(self._request(path, ocr, password, limits or ChunkLimits(), languages, kept))
        assert isinstance(answer, Conversion), answer
        return answer

    def refusal(
        self,
        path: Path,
        *,
        password: str | None = None,
        languages: tuple[str, ...] = (),
    ) -> Refusal:
        """Return why a file is not converted."""
        answer = self._answer(self._request(path, "auto", password, ChunkLimits(), languages, None))
        assert isinstance(answer, Refusal), f"{path.name} was converted"
        return answer

    def _request(
        self,
        path: Path,
        ocr: OcrMode,
        password: str | None,
        limits: ChunkLimits,
        languages: tuple[str, ...],
        kept: Path | None,
    ) -> ConversionRequest:
        return ConversionRequest(
            path=str(path),
            name=path.name,
            type=_TYPES.get(ending_of(path.name), "image"),
            content_hash="",
            ocr=ocr,
            languages=languages,
            password=password,
            limits=limits,
            tokenizer_json=self._tokenizer_json,
            threads=os.cpu_count() or 1,
            kept=str(kept) if kept else None,
        )

    def _answer(self, request: ConversionRequest) -> Conversion | Refusal:
        if request not in self._answers:
            whole = dataclasses.replace(request, limits=ChunkLimits())
            kept = request.kept or (str(self._kept[whole]) if whole in self._kept else None)
            answer = self._pool.submit(_convert, dataclasses.replace(request, kept=kept)).result()
            if isinstance(answer, Conversion) and kept is None:
                self._kept[whole] = Path(self._folder.name) / str(len(self._kept))
                self._kept[whole].write_bytes(answer.document)
            self._answers[request] = answer
        return self._answers[request]


def _end_with_the_tests() -> None:
    """Have the child end when the tests do, also where they were killed: their own word reaches it then no more."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_too() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_too, name="parent-watch", daemon=True).start()


def _convert(request: ConversionRequest) -> Conversion | Refusal:
    from kbsync.embed.token_counter import HuggingFaceCounter
    from kbsync.pipelines.docling_converter import convert

    try:
        return convert(request, HuggingFaceCounter)
    except (FailFile, SkipFile) as error:
        return Refusal(error.reason, str(error))
