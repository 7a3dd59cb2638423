"""What may be asked for by name: modes, states, types, languages. Commands and HTTP refuse others in the same words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar, get_args

from kbsync.errors import UsageError
from kbsync.file_types import CODE_LANGUAGES, READABLE_TYPES, DocumentType
from kbsync.model import OCR_MODES, SEARCH_MODES, OcrMode, ReindexScope, SearchMode

T = TypeVar("T", bound=str)

# A page of results is never longer, and never begins further on.
LARGEST_LIMIT, LARGEST_OFFSET = 1000, 1_000_000

MODES = SEARCH_MODES
SCOPES: tuple[ReindexScope, ...] = get_args(ReindexScope)
STATES = ("current", "superseded", "missing", "all")
JOB_STATES = ("queued", "processing", "done", "failed", "skipped")
LISTED_TYPES: tuple[DocumentType, ...] = tuple(sorted(READABLE_TYPES))
# A note is written, not read from a file.
FILE_TYPES: tuple[DocumentType, ...] = tuple(sorted(READABLE_TYPES - {"note"}))
LANGUAGES = tuple(dict.fromkeys(CODE_LANGUAGES.values()))


def listed(values: Iterable[str]) -> str:
    """Return values for a message: `auto, always, never`."""
    return ", ".join(values)


def known_mode(mode: str) -> SearchMode:
    """Return a mode of search. Raises UsageError."""
    return _known(mode, MODES, f"There is no mode {mode!r}.", "Modes")


def known_scope(scope: str) -> ReindexScope:
    """Return what is to be made anew. Raises UsageError."""
    return _known(scope, SCOPES, f"There is no scope {scope!r}.", "Scopes")


def known_state(state: str) -> str | None:
    """Return a state of documents, None for `all`. Raises UsageError."""
    known = _known(state, STATES, f"Documents have no state {state!r}.", "States")
    return None if known == "all" else known


def known_job_state(state: str | None) -> str | None:
    """Return a state of jobs. Raises UsageError."""
    return None if state is None else _known(state, JOB_STATES, f"Jobs have no state {state!r}.", "States")


def in_range(limit: int, offset: int) -> None:
    """Raises UsageError for a page that is too long or begins too far on."""
    if not 0 < limit <= LARGEST_LIMIT or not 0 <= offset <= LARGEST_OFFSET:
        raise UsageError(f"limit must be 1 to {LARGEST_LIMIT}, offset 0 to {LARGEST_OFFSET}.")


def known_listed_type(document_type: str | None) -> DocumentType | None:
    """Return a type that a document may have. Raises UsageError."""
    if document_type is None:
        return None
    return _known(document_type, LISTED_TYPES, f"Documents have no type {document_type!r}.", "Types")


def known_file_type(document_type: str | None) -> DocumentType | None:
    """Return a type that a file may be read as. Raises UsageError."""
    if document_type is None:
        return None
    return _known(document_type, FILE_TYPES, f"Files of type {document_type!r} cannot be read.", "Types")


def known_language(language: str | None) -> str | None:
    """Return a language that code may be read as. Raises UsageError."""
    if language is None:
        return None
    return _known(language, LANGUAGES, f"Code in {language!r} cannot be read.", "Languages")


def known_ocr(ocr: str | None) -> OcrMode | None:
    """Return a mode of OCR. Raises UsageError."""
    return None if ocr is None else _known(ocr, OCR_MODES, f"There is no OCR mode {ocr!r}.", "Modes")


def _known(value: str, values: Iterable[T], message: str, name: str) -> T:
    found = next((known for known in values if known == value), None)
    if found is None:
        raise UsageError(message, hint=f"{name}: {listed(values)}.")
    return found
