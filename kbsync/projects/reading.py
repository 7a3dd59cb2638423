"""What a file of a project says, as Markdown: office documents and PDFs through a converter, all else as it is."""

from __future__ import annotations

import io
import re
from typing import Protocol

from kbsync.errors import SkipFile
from kbsync.file_types import CODE_LANGUAGES, DocumentType, conversion_hint, ending_of, type_of
from kbsync.pipelines.content_type import told_type
from kbsync.pipelines.decode import decoded
from kbsync.pipelines.html_text import text_of_html
from kbsync.reasons import Reason

# The specification's table, and pictures and books with it: what is no text is converted. HTML is read as it is.
CONVERTED: frozenset[DocumentType] = frozenset({"docx", "pdf", "pptx", "xlsx", "image", "epub"})
# Of a text this much is read; the original is archived whole.
MOST_TEXT_BYTES = 20_000_000
# Markdown and prose stand as they are; what would be taken for markup goes between fences of these names.
_FENCED = {**CODE_LANGUAGES, ".ipynb": "json", ".json": "json", ".xml": "xml", ".yaml": "yaml", ".yml": "yaml"}
_FENCED |= {".csv": "csv", ".tsv": "tsv", ".log": "text", ".tex": "tex", ".toml": "toml", ".ini": "ini", ".sql": "sql"}
_FENCED |= {
    ".js": "js",
    ".ts": "ts",
    ".c": "c",
    ".h": "c",
    ".cpp": "cpp",
    ".java": "java",
    ".rs": "rust",
    ".css": "css",
}
_TICKS = re.compile(r"^[ \t]*(`{3,})", re.MULTILINE)


class Converter(Protocol):
    """What makes Markdown of documents that are no text."""

    def markdown(self, path: str, name: str, document_type: DocumentType, content_hash: str, size: int) -> str:
        """Return a document's text. Raises FailFile and RetryLater."""
        ...


def read(path: str, name: str, content_hash: str, converter: Converter, encodings: tuple[str, ...] = ()) -> str:
    """Return a file's text as Markdown. Raises FailFile, RetryLater, OSError, and SkipFile(EMPTY, BINARY)."""
    with open(path, "rb") as file:
        data = file.read(MOST_TEXT_BYTES + 1)
        size = file.seek(0, io.SEEK_END)
    if not data:
        raise SkipFile(Reason.EMPTY, f"{name} is empty.", hint="It is taken in when it is filled.")
    document_type = type_of(name)
    told = told_type(data, size, name)
    kind = told if told in CONVERTED else document_type
    if kind is not None and kind in CONVERTED:
        return converter.markdown(path, name, kind, content_hash, size)
    try:
        is_cut = size > MOST_TEXT_BYTES
        text = decoded(data[:MOST_TEXT_BYTES], cut=is_cut, preferred=encodings).text
    except SkipFile as error:
        hint = conversion_hint(name) or error.hint
        raise SkipFile(error.reason, f"{name}: {error.message}", hint=hint) from error
    whole = fenced(text, _FENCED.get(ending_of(name)))
    return f"{whole.rstrip()}\n\n<!-- only the first {MOST_TEXT_BYTES} bytes -->\n" if is_cut else whole


def fenced(text: str, language: str | None) -> str:
    """Return a text between fences longer than any in it, as it is without a language."""
    if language is None:
        return text
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def prose(text: str, source: str) -> str:
    """Return what a person reads of a parsed text: without the markup of a web page, without a lone file's fences."""
    if type_of(source) == "html":
        return text_of_html(text)
    return text
