"""Which type and language a file has by its name. Detection is by ending only; content is judged when it is read."""

from __future__ import annotations

from typing import Literal, get_args

DocumentType = Literal[
    "markdown", "text", "code", "data", "csv", "xlsx", "pptx", "docx", "pdf", "html", "image", "note", "epub", "email"
]
DOCUMENT_TYPES: tuple[DocumentType, ...] = get_args(DocumentType)

# Endings of what can be read today.
SUPPORTED: dict[str, DocumentType] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "markdown",
    ".log": "text",
    ".rst": "text",
    ".org": "text",
    ".tex": "text",
    ".py": "code",
    ".sh": "code",
    ".bash": "code",
    ".go": "code",
    ".ipynb": "code",
    ".json": "data",
    ".xml": "data",
    ".yaml": "data",
    ".yml": "data",
    ".csv": "csv",
    ".pdf": "pdf",
    ".docx": "docx",
    ".pptx": "pptx",
    ".xlsx": "xlsx",
    ".html": "html",
    ".htm": "html",
    ".png": "image",
    ".jpg": "image",
    ".jpeg": "image",
    ".tiff": "image",
    ".tif": "image",
    ".bmp": "image",
    ".webp": "image",
    ".eml": "email",
    ".epub": "epub",
}

_OFFICE_HINT = "Save it as {0} to have it found: in LibreOffice, `soffice --convert-to {1} FILE`."
# What cannot be read and how it becomes something that can; no setting makes text of these.
CONVERSION_HINTS: dict[str, str] = {
    **dict.fromkeys((".doc", ".rtf", ".odt"), _OFFICE_HINT.format("Word (.docx) or PDF", "docx")),
    **dict.fromkeys((".xls", ".ods"), _OFFICE_HINT.format("Excel (.xlsx) or CSV", "xlsx")),
    **dict.fromkeys((".ppt", ".odp"), _OFFICE_HINT.format("PowerPoint (.pptx) or PDF", "pptx")),
    ".pages": "Export it from Pages as Word (.docx) or PDF to have it found.",
    ".numbers": "Export it from Numbers as Excel (.xlsx) or CSV to have it found.",
    ".msg": "Save it from Outlook as .eml to have it found.",
    ".mobi": "Convert it to EPUB to have it found: with Calibre, `ebook-convert FILE FILE.epub`.",
    ".azw3": "Convert it to EPUB to have it found: with Calibre, `ebook-convert FILE FILE.epub`.",
}
# What `--type` may ask for today: a type with a pipeline behind it.
READABLE_TYPES: frozenset[DocumentType] = frozenset(SUPPORTED.values()) | {"note"}

CODE_LANGUAGES: dict[str, str] = {".py": "python", ".sh": "bash", ".bash": "bash", ".go": "go", ".ipynb": "notebook"}

# What a converter in a child process makes text of; everything else is text as it is.
CONVERTED_TYPES: frozenset[DocumentType] = frozenset({"pdf", "docx", "pptx", "xlsx", "html", "image", "epub"})

# Of these a file of any size is read from its start; every other type has a size limit.
UNBOUNDED_TYPES: frozenset[DocumentType] = frozenset({"markdown", "text", "code", "data", "csv", "email"})


def ending_of(path: str) -> str:
    """Return the ending in lower case with its dot, or an empty string."""
    # As os.path.splitext, in a third of its time: a walk asks this of every file.
    stem, dot, ending = path[path.rfind("/") + 1 :].rpartition(".")
    return (dot + ending).lower() if stem.strip(".") else ""


def type_of(path: str) -> DocumentType | None:
    """Return the document type by the name's ending, None where it is not supported."""
    return SUPPORTED.get(ending_of(path))


def language_of(path: str) -> str | None:
    """Return the programming language by the name's ending, None for everything that is not code."""
    return CODE_LANGUAGES.get(ending_of(path))


def supported_endings() -> str:
    """Return the supported endings for a message: `.bash, .csv, ...`."""
    return ", ".join(sorted(SUPPORTED))


def conversion_hint(path: str) -> str | None:
    """Return how a file of a known type that cannot be read becomes one that can; None for every other ending."""
    return CONVERSION_HINTS.get(ending_of(path))
