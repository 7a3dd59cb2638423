"""One job -> one DocumentUpdate: the story of a file in one function. It knows no database and no queue."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

from kbsync import file_types
from kbsync.errors import FailFile, SkipFile
from kbsync.failpoints import failpoint
from kbsync.file_types import DocumentType
from kbsync.measures import TimeStage, untimed
from kbsync.model import (
    ChunkLimits,
    Conversion,
    DocumentUpdate,
    IngestOptions,
    JsonValue,
    OcrMode,
    Piece,
    TitleSource,
    TokenCounter,
)
from kbsync.pipelines import content_type, enrich, note, router
from kbsync.pipelines.room import clipped_title
from kbsync.reasons import Reason

if TYPE_CHECKING:
    from kbsync.model import Vectors

# Of a text this much is read; the rest of a longer one is not searchable (`truncated`).
TEXT_BYTES = 20_000_000
NOTE_CONVERTER = "note-1"

Vectorize: TypeAlias = "Callable[[Sequence[str]], Vectors]"


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes to ingest. `name` is the file name that gives the type, and the title where the content names none."""

    head: bytes
    size: int
    content_hash: str
    name: str
    options: IngestOptions
    # A private copy of the bytes, for a converter in another process; None for text.
    copy: str | None = None
    password_file: str | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """What a content is read as, and the fingerprints of the rules that read it so."""

    type: DocumentType
    language: str | None
    by_hand: bool
    ocr: OcrMode
    converter: str
    chunker: str


class Reader(Protocol):
    """What makes text of documents that are none themselves. `encodings` is how a person said old files are written."""

    @property
    def encodings(self) -> tuple[str, ...]: ...
    def fingerprint(self, ocr: OcrMode) -> str: ...
    def read(self, content: Content, kind: Kind) -> Conversion: ...


def kind_of(
    name: str,
    options: IngestOptions,
    limits: ChunkLimits,
    reader: Reader,
    ocr: OcrMode,
    unknown: DocumentType | None = None,
    told: DocumentType | None = None,
) -> Kind:
    """Decide type, language and OCR mode: what a person set, else content, the name's ending and the source's `ocr`.

    `told`: what the content is by its signature, whatever the ending says.
    `unknown`: what a file of any other ending is read as, where a source asks for it. Raises SkipFile(UNSUPPORTED).
    """
    if options.language is not None or told not in file_types.READABLE_TYPES:
        told = None
    document_type = options.type or told or file_types.type_of(name) or unknown
    if document_type is None or document_type not in file_types.READABLE_TYPES:
        conversion = file_types.conversion_hint(name)
        supported = f"Supported: {file_types.supported_endings()}."
        raise SkipFile(
            Reason.UNSUPPORTED,
            f"{os.path.basename(name)}: this type of file is not supported.",
            hint=f"{conversion} {supported}" if conversion else supported,
        )
    language = options.language or (file_types.language_of(name) if document_type == "code" else None)
    ocr = options.ocr or ocr
    converted = document_type in file_types.CONVERTED_TYPES
    return Kind(
        document_type,
        language,
        options.type is not None or options.language is not None,
        ocr,
        reader.fingerprint(ocr) if converted else router.converter_fingerprint(document_type, reader.encodings),
        router.chunker_fingerprint(limits),
    )


def ingest(
    content: Content,
    kind: Kind,
    limits: ChunkLimits,
    counter: TokenCounter,
    reader: Reader,
    vectorize: Vectorize,
    timed: TimeStage = untimed,
) -> DocumentUpdate:
    """Route by type, convert, chunk, enrich, embed. Raises SkipFile and FailFile for this file's own reasons."""
    page_count, converter = None, kind.converter
    metadata: dict[str, JsonValue] = {}
    if kind.type in file_types.CONVERTED_TYPES:
        with timed("convert"):
            conversion = _converted(content, kind, reader)
        parsed, page_count, converter = conversion.parsed, conversion.page_count, conversion.converter
        if conversion.ocr_pages:
            metadata["ocr_pages"] = conversion.ocr_pages
        if content.options.ocr is not None:
            metadata["ocr"] = content.options.ocr  # set by hand: it holds whoever brings the same bytes again
    else:
        by_hand = content.options.title
        with timed("convert"):
            parsed = router.convert(
                content.head, kind.type, kind.language, content.name, limits, counter, by_hand, reader.encodings
            )
    named = file_types.type_of(content.name)
    if named not in (None, kind.type) and not kind.by_hand:
        metadata["ending_says"] = named
    title, title_source = _title(content, parsed.title, router.title_of(parsed, content.name))
    reason = None
    if not parsed.pieces:
        # Found by its title at least, which is mostly its name.
        reason, parsed = Reason.NO_TEXT, replace(parsed, pieces=(Piece("", "name"),))
    elif parsed.truncated or (kind.type not in file_types.CONVERTED_TYPES and content.size > len(content.head)):
        reason = Reason.TRUNCATED
    with timed("chunk"):
        chunks = enrich.make_chunks(parsed, clipped_title(title, limits, counter), counter)
    failpoint("ingest.chunked")
    with timed("embed"):
        vectors = vectorize([chunk.enriched_text for chunk in chunks])
    return DocumentUpdate(
        content_hash=content.content_hash,
        title=title,
        title_source=title_source,
        type=kind.type,
        type_by_hand=kind.by_hand,
        language=kind.language or parsed.language,
        original_filename=os.path.basename(content.name),
        size_bytes=content.size,
        page_count=page_count,
        converter_fingerprint=converter,
        chunker_fingerprint=kind.chunker,
        metadata={**parsed.metadata, **metadata},
        chunks=chunks,
        vectors=vectors,
        reason=reason,
        created_at=content.options.created_at,
    )


def ingest_note(
    text: str, options: IngestOptions, counter: TokenCounter, vectorize: Vectorize, timed: TimeStage = untimed
) -> DocumentUpdate:
    """Make a note's one chunk. Raises SkipFile(EMPTY) for a note without text."""
    parsed = note.parse_note(text)
    title = options.title or note.note_title(text)
    with timed("chunk"):
        chunks = enrich.make_chunks(parsed, title, counter)
    with timed("embed"):
        vectors = vectorize([chunk.enriched_text for chunk in chunks])
    return DocumentUpdate(
        content_hash=note_hash(title, text),
        title=title,
        title_source="hand" if options.title else "content",
        type="note",
        type_by_hand=False,
        language=None,
        original_filename=None,
        size_bytes=len(text.encode("utf-8", "surrogatepass")),
        page_count=None,
        converter_fingerprint=NOTE_CONVERTER,
        chunker_fingerprint=NOTE_CONVERTER,
        metadata={},
        chunks=chunks,
        vectors=vectors,
        reason=None,
        created_at=options.created_at,
    )


def note_hash(title: str, text: str) -> str:
    """Return the content hash of a note: of its title and text, so that the same text under two titles is two notes."""
    return hashlib.sha256(f"{title}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()


def _converted(content: Content, kind: Kind, reader: Reader) -> Conversion:
    try:
        return reader.read(content, kind)
    except FailFile as error:
        if error.reason is not Reason.CORRUPT or kind.type == "html" or not content_type.is_text(content.head):
            raise
        hint = "Give it an ending such as .txt, or add it with --type markdown."
        raise FailFile(error.reason, f"{content.name}: this is text, not {kind.type}.", hint=hint) from error


def _title(content: Content, from_content: str | None, fallback: str) -> tuple[str, TitleSource]:
    if content.options.title:
        return content.options.title, "hand"
    if from_content:
        return from_content, "content"
    return fallback, "name"
