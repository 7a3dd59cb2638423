"""From a file's bytes to its pieces: decode, pick the pipeline of the type, cut, keep to the limits."""

from __future__ import annotations

import os
from itertools import islice

from kbsync.errors import SkipFile
from kbsync.file_types import DocumentType, supported_endings
from kbsync.model import ChunkLimits, JsonValue, Parsed, TokenCounter
from kbsync.pipelines.code import read_code
from kbsync.pipelines.decode import decoded
from kbsync.pipelines.draft import Draft
from kbsync.pipelines.email_message import read_email
from kbsync.pipelines.markdown import read_markdown
from kbsync.pipelines.note import parse_note
from kbsync.pipelines.notebook import read_notebook
from kbsync.pipelines.room import Room, clipped_title
from kbsync.pipelines.table import read_table
from kbsync.pipelines.text import read_data, read_text
from kbsync.reasons import Reason

MAX_TEXT_BYTES = 20_000_000
# Raised when the same bytes would give other text (decode) or the same text other pieces: then files are read again.
DECODER_VERSION = 2
CHUNKER_VERSION = 1
READER_VERSIONS: dict[DocumentType, int] = {
    "markdown": 2,
    "text": 2,
    "code": 2,
    "data": 1,
    "csv": 2,
    "note": 1,
    "email": 1,
}
# A name longer than this leaves no room for text in a chunk; in bytes, no tokenizer makes more tokens than that.
LONGEST_NAME_TITLE = 160


def convert(
    data: bytes,
    document_type: DocumentType,
    language: str | None,
    name: str,
    limits: ChunkLimits,
    counter: TokenCounter,
    title_by_hand: str | None = None,
    encodings: tuple[str, ...] = (),
) -> Parsed:
    """Return the pieces of a file. `name` is its file name: without a title of its own, it is part of every chunk.

    `title_by_hand` is what chunks are headed with in place of both.
    `encodings`: legacy ones that win where the bytes leave doubt; the one it was is in the metadata (`encoding`).
    Of more than 20 MB the beginning is read, of more than `limits.max_chunks` pieces (of a table fewer) the first are
    kept: `truncated`. Raises SkipFile: UNSUPPORTED, BINARY or EMPTY.
    """
    if document_type not in READER_VERSIONS:
        hint = f"Supported: {supported_endings()}."
        raise SkipFile(Reason.UNSUPPORTED, f"{name}: files of type {document_type} cannot be read.", hint=hint)
    # Who read only the beginning of a file hands over exactly the limit.
    cut = len(data) >= MAX_TEXT_BYTES
    metadata: dict[str, JsonValue] = {}
    if document_type == "email":  # each part of it has an encoding of its own
        draft = read_email(data[:MAX_TEXT_BYTES], cut=cut)
    else:
        found = decoded(data[:MAX_TEXT_BYTES], cut=cut, preferred=encodings)
        if document_type == "note":
            return parse_note(found.text)
        draft = _draft(found.text, document_type, language, cut=cut)
        metadata["encoding"] = found.encoding
    title = clipped_title(draft.title, limits, counter) if draft.title else None
    room = Room(title_by_hand or title or _title_from_name(name), limits, counter)
    most = min(limits.max_chunks, draft.most_pieces or limits.max_chunks)
    pieces = tuple(islice(draft.cut(room), most + 1))
    if len(pieces) > most:
        metadata["cut_after_chunks"] = most
    return Parsed(
        pieces=pieces[:most],
        title=title,
        language=draft.language,
        metadata={**draft.metadata, **metadata},
        truncated=draft.truncated or len(data) > MAX_TEXT_BYTES or len(pieces) > most,
    )


def _draft(text: str, document_type: DocumentType, language: str | None, *, cut: bool) -> Draft:
    if document_type == "markdown":
        return read_markdown(text)
    if document_type == "csv":
        return read_table(text)
    if document_type == "data":
        return read_data(text)
    if document_type == "text":
        return read_text(text)
    return read_notebook(text, cut=cut) if language == "notebook" else read_code(text, language)


def title_of(parsed: Parsed, name: str) -> str:
    """Return the title that the content names, else the stem of the file's name."""
    return parsed.title or _title_from_name(name)


def _title_from_name(name: str) -> str:
    stem = os.path.splitext(os.path.basename(name))[0]
    readable = " ".join(os.fsencode(stem).decode("utf-8", "replace").split()) or "untitled"
    encoded = readable.encode("utf-8")
    if len(encoded) <= LONGEST_NAME_TITLE:
        return readable
    return encoded[: LONGEST_NAME_TITLE - 3].decode("utf-8", "ignore").rstrip() + "…"


def converter_fingerprint(document_type: DocumentType, encodings: tuple[str, ...] = ()) -> str:
    """Name the rules that turn a file of this type into text; other rules give another fingerprint."""
    decoder = " ".join((f"decode-{DECODER_VERSION}", *encodings))
    return f"{document_type}-{READER_VERSIONS.get(document_type, 0)} {decoder}"


def chunker_fingerprint(limits: ChunkLimits) -> str:
    """Name the rules and sizes that cut text into pieces; others give another fingerprint."""
    sizes = f"{limits.min_tokens}-{limits.max_tokens}-{limits.overlap_tokens}-{limits.max_chunks}"
    return f"chunks-{CHUNKER_VERSION} {sizes} context-{int(limits.include_context)}"
