"""Converts one document with Docling, offline, with packaged models. Runs in a child process, in one thread of it."""

from __future__ import annotations

import codecs
import os
import sys
import zlib
from collections.abc import Callable
from functools import lru_cache
from importlib import metadata
from io import BytesIO
from typing import TYPE_CHECKING

from kbsync.errors import FailFile
from kbsync.file_types import DocumentType, ending_of
from kbsync.model import Conversion, ConversionRequest, OcrMode, Parsed, TokenCounter
from kbsync.pipelines import document_limits, sheet_rows, web_page
from kbsync.pipelines.epub import Book, read_book
from kbsync.pipelines.isolated_child import allow
from kbsync.pipelines.isolation_plan import time_limit_for
from kbsync.reasons import Reason

if TYPE_CHECKING:
    from docling.datamodel.document import ConversionResult
    from docling.document_converter import DocumentConverter
    from docling_core.types.doc.document import DoclingDocument

# Raised when the same bytes would give another document.
CONVERTER_VERSION = 2
_PACKAGES = ("docling", "docling-core", "rapid-layout", "rapid-table", "rapidocr")
_ARCHIVES: frozenset[DocumentType] = frozenset({"docx", "pptx", "xlsx"})
# Docling goes by the ending; a type set by hand may have any.
_ENDINGS: dict[DocumentType, str] = {
    "pdf": ".pdf",
    "docx": ".docx",
    "pptx": ".pptx",
    "xlsx": ".xlsx",
    "html": ".html",
    "epub": ".html",  # the chapters on one page
}
_CAUSES_LOOKED_AT = 20


def converter_fingerprint(ocr: OcrMode, languages: tuple[str, ...], models: str | None = None) -> str:
    """Name everything that decides what becomes of a document's bytes. Imports nothing heavy.

    `models` is the folder of Docling's own models, where these are used; wherever it lies.
    """
    packages = " ".join(f"{package}-{_version(package)}" for package in _PACKAGES)
    own = " docling-models" if models else ""
    return f"documents-{CONVERTER_VERSION} {packages}{own} ocr-{ocr} {','.join(languages)}".rstrip()


@lru_cache
def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


def warm_up(ocr: OcrMode, languages: tuple[str, ...], threads: int, models: str | None = None) -> None:
    """Import Docling and load the models of PDFs and pictures. Raises FailFile(MODEL) where that fails."""
    _offline()
    ready_converter(ocr, languages, threads, models, "pdf")


def convert(request: ConversionRequest, open_counter: Callable[[str], TokenCounter]) -> Conversion:
    """Convert a document, or take the kept conversion of it, and cut it into pieces.

    A web page or book whose markup Docling cannot read becomes plain text under its headings.
    Raises FailFile: CORRUPT, PASSWORD_REQUIRED, TOO_COMPLEX, MODEL; SkipFile for a web page that is empty or binary.
    """
    _offline()
    counter = _counter(open_counter, request.tokenizer_json)
    try:
        return _conversion(_kept(request.kept) if request.kept else _converted(request), request, counter)
    except (RecursionError, FailFile) as error:
        failure = _verdict(error, request.name)
        is_page = request.type in ("html", "epub") and not request.kept
        if not is_page or failure.reason not in (Reason.TOO_COMPLEX, Reason.CORRUPT):
            raise failure from error
    # Whatever is the matter with its markup, the text of a page can be read.
    return _conversion(_plain(request, failure), request, counter)


def _conversion(document: DoclingDocument, request: ConversionRequest, counter: TokenCounter) -> Conversion:
    from kbsync.pipelines.docling_chunks import parse_document
    from kbsync.pipelines.docling_markdown import markdown_of

    whole = request.markdown
    return Conversion(
        parsed=Parsed(()) if whole else parse_document(document, request.name, request.limits, counter, request.title),
        page_count=document.num_pages() or None,
        ocr_pages=_ocr_pages(document),
        document=zlib.compress(document.model_dump_json(exclude_none=True).encode()),
        converter=converter_fingerprint(request.ocr, request.languages, request.models),
        markdown=markdown_of(document) if whole else None,
    )


@lru_cache(2)
def _counter(open_counter: Callable[[str], TokenCounter], tokenizer_json: str) -> TokenCounter:
    return open_counter(tokenizer_json)  # reading it takes a twentieth of a page's time


def _offline() -> None:
    # Read by the hub's library when it is imported; models that are not here are an error, never a download.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")


def _kept(path: str) -> DoclingDocument:
    from docling_core.types.doc.document import DoclingDocument

    with open(path, "rb") as file:
        return DoclingDocument.model_validate_json(zlib.decompress(file.read()))


def _converted(request: ConversionRequest) -> DoclingDocument:
    book = _book(request) if request.type == "epub" else None
    source = _source(request, book)
    rows_left_out = False
    try:
        if request.type == "xlsx":
            source, rows_left_out = _fewer_rows(source, request.name)
        result = _run(request, source)
    except FailFile:
        raise
    except Exception as error:  # Docling raises what its many libraries raise
        raise _verdict(error, request.name) from error
    document: DoclingDocument = result.document
    if result.errors and not document.texts and not document.tables:
        raise _failed(request.name)
    _show_lone_headers(document)
    read = sorted(number for number, page in result.confidence.pages.items() if page.ocr_score == page.ocr_score)
    _remember(document, "ocr_pages", read)
    if book is not None:
        _remember_book(document, book)
    if rows_left_out:
        _remember(document, "rows_left_out", True)
    return document


def _show_lone_headers(document: DoclingDocument) -> None:
    """Make text of running headers and footers where a document has nothing else: layout takes a lone line for one."""
    from docling_core.types.doc.document import ContentLayer

    shown = (item for item in document.texts if item.content_layer is ContentLayer.BODY and item.text.strip())
    if document.pages and not document.tables and not any(shown):
        for item in document.texts:
            item.content_layer = ContentLayer.BODY


def _remember_book(document: DoclingDocument, book: Book) -> None:
    _remember(document, "title", book.title)
    _remember(document, "chapters_left_out", list(book.left_out))


def _book(request: ConversionRequest) -> Book:
    with open(request.path, "rb") as file:
        data = file.read()
    document_limits.check_office(data, request.name)
    return read_book(data, request.name)


def _source(request: ConversionRequest, book: Book | None) -> tuple[str, BytesIO]:
    """Return a name whose ending says the type, and the bytes as Docling gets them. Raises FailFile for bad ones."""
    ending = _ENDINGS.get(request.type) or ending_of(request.path) or ending_of(request.name)
    upright = None
    if request.type == "pdf":
        allow(time_limit_for(document_limits.check_pdf(request.path, request.name, request.password), 0))
    elif request.type == "image":
        allow(time_limit_for(document_limits.check_image(request.path, request.name), 0))
    if request.type in ("pdf", "image") and request.ocr != "never":
        upright = _upright(request)
    if upright is not None:
        return f"document{'.png' if request.type == 'image' else ending}", upright
    if request.type in ("html", "epub"):
        page, cut = (book.page, False) if book else document_limits.read_web_page(request.path)
        document_limits.check_web_page(page, request.name, cut=cut)
        # The mark says what it is in, whatever the page says.
        return f"document{ending}", BytesIO(codecs.BOM_UTF8 + page.encode("utf-8", "replace"))
    with open(request.path, "rb") as file:
        data = file.read()
    if request.type in _ARCHIVES:
        document_limits.check_office(data, request.name)
    return f"document{ending}", BytesIO(data)


def _fewer_rows(source: tuple[str, BytesIO], name: str) -> tuple[tuple[str, BytesIO], bool]:
    """Return a workbook without the rows that no chunk has room for, and whether it had such."""
    data, shortened = sheet_rows.first_rows(source[1].getvalue())
    document_limits.check_sheets(data, name)
    return (source[0], BytesIO(data)), shortened


def _plain(request: ConversionRequest, failure: FailFile) -> DoclingDocument:
    """Return the text of a web page or book that Docling cannot read, under its headings, and say why it is so."""
    from docling_core.types.doc.document import ContentLayer, DoclingDocument
    from docling_core.types.doc.labels import DocItemLabel

    book = _book(request) if request.type == "epub" else None
    page, cut = (book.page, False) if book else document_limits.read_web_page(request.path)
    document = DoclingDocument(name="document")
    if title := web_page.title_of_page(page):
        document.add_title(title, content_layer=ContentLayer.FURNITURE)
    for number, (level, text) in enumerate(web_page.sections_of_page(page)):
        if number == document_limits.MOST_PLAIN_SECTIONS:
            cut = True
            break
        if level:
            document.add_heading(text, level=level)
        else:
            document.add_text(label=DocItemLabel.TEXT, text=text)
    if book is not None:
        _remember_book(document, book)
    _remember(document, "plain_text", failure.message.removeprefix(f"{request.name}: "))
    _remember(document, "cut", cut)
    return document


def _upright(request: ConversionRequest) -> BytesIO | None:
    try:
        from kbsync.pipelines import page_rotation

        if request.type == "pdf":
            return page_rotation.upright_pdf(request.path, request.password, request.threads)
        return page_rotation.upright_image(request.path, request.threads)
    except Exception as error:  # as above: pdfium, Pillow and onnxruntime have no common class
        raise _verdict(error, request.name) from error


def _run(request: ConversionRequest, source: tuple[str, BytesIO]) -> ConversionResult:
    from docling.datamodel.backend_options import PdfBackendOptions
    from docling.datamodel.base_models import DocumentStream, InputFormat

    converter = ready_converter(request.ocr, request.languages, request.threads, request.models, request.type)
    # One thread works here, so that the password can be set for each document and the models stay loaded.
    converter.format_to_options[InputFormat.PDF].backend_options = PdfBackendOptions.model_validate(
        {"password": request.password}
    )
    return converter.convert(DocumentStream(name=source[0], stream=source[1]))


def ready_converter(
    ocr: OcrMode, languages: tuple[str, ...], threads: int, models: str | None, document_type: DocumentType
) -> DocumentConverter:
    """Return the converter with its models loaded. What goes wrong here is no fault of a file."""
    try:
        from docling.datamodel.base_models import InputFormat

        converter = _converter(ocr, languages, threads, models)
        converter.initialize_pipeline(InputFormat("html" if document_type == "epub" else document_type))
    except Exception as error:  # the libraries below have no common class
        raise _unusable(error) from error
    return converter


@lru_cache(2)
def _converter(ocr: OcrMode, languages: tuple[str, ...], threads: int, models: str | None) -> DocumentConverter:
    from docling.backend.pypdfium2_backend import PyPdfiumDocumentBackend
    from docling.datamodel.accelerator_options import AcceleratorDevice, AcceleratorOptions
    from docling.datamodel.backend_options import HTMLBackendOptions
    from docling.datamodel.base_models import InputFormat
    from docling.datamodel.pipeline_options import (
        ConvertPipelineOptions,
        LayoutObjectDetectionOptions,
        PdfPipelineOptions,
        TableStructureOptions,
    )
    from docling.document_converter import (
        DocumentConverter,
        ExcelFormatOption,
        FormatOption,
        HTMLFormatOption,
        ImageFormatOption,
        PdfFormatOption,
        PowerpointFormatOption,
        WordFormatOption,
    )

    from kbsync.pipelines.packaged_models import (
        PackagedLayoutOptions,
        PackagedTableOptions,
        PageOcrOptions,
        ocr_model_path,
    )

    # The packaged models run on the CPU only; Docling's own take the GPU that this child sees.
    device = AcceleratorDevice.AUTO if models else AcceleratorDevice.CPU
    accelerator = AcceleratorOptions(num_threads=threads, device=device)
    pages = PdfPipelineOptions(
        allow_external_plugins=True,
        accelerator_options=accelerator,
        artifacts_path=models,
        layout_options=LayoutObjectDetectionOptions() if models else PackagedLayoutOptions(),
        table_structure_options=TableStructureOptions() if models else PackagedTableOptions(),
        do_ocr=ocr != "never",
        ocr_options=PageOcrOptions(
            lang=_ocr_languages(languages),
            every_page=ocr == "always",
            det_model_path=ocr_model_path("det"),
            cls_model_path=ocr_model_path("cls"),
            rec_model_path=ocr_model_path("rec"),
        ),
    )
    # Docling warns of plugins that are not allowed, also where none is used.
    plain = ConvertPipelineOptions(allow_external_plugins=True, accelerator_options=accelerator)
    web = HTMLBackendOptions.model_validate(
        {"fetch_images": False, "enable_local_fetch": False, "enable_remote_fetch": False}
    )
    options: dict[InputFormat, FormatOption] = {
        InputFormat.PDF: PdfFormatOption(backend=PyPdfiumDocumentBackend, pipeline_options=pages),
        InputFormat.IMAGE: ImageFormatOption(pipeline_options=pages),
        InputFormat.HTML: HTMLFormatOption(pipeline_options=plain, backend_options=web),
        InputFormat.DOCX: WordFormatOption(pipeline_options=plain),
        InputFormat.PPTX: PowerpointFormatOption(pipeline_options=plain),
        InputFormat.XLSX: ExcelFormatOption(pipeline_options=plain),
    }
    return DocumentConverter(allowed_formats=list(options), format_options=options)


def reads_language(language: str) -> bool:
    """Return whether the packaged OCR model reads a language, named as in the settings. Imports Docling for a tag."""
    wanted = _ocr_languages((language,))[0]
    if ":" not in wanted:
        return True  # one of the model's own names
    from kbsync.pipelines.packaged_models import reads

    return reads(wanted)


def _ocr_languages(languages: tuple[str, ...]) -> list[str]:
    """Return the languages as Docling wants them: the model's own names as they are, others as tags (`iso:de`)."""
    from rapidocr.utils.model_resolver import list_supported_langs
    from rapidocr.utils.typings import OCRVersion, TaskType

    own = list_supported_langs(TaskType.REC, OCRVersion.PPOCRV6)
    return [language if language in own or ":" in language else f"iso:{language}" for language in languages[:1]]


def _remember(document: DoclingDocument, field: str, value: object) -> None:
    """Write into the document what Docling does not know of it, so that a kept conversion still knows it."""
    from docling_core.types.doc.document import BaseMeta

    from kbsync.pipelines.docling_chunks import REMEMBERED

    meta = document.body.meta or BaseMeta()
    meta.set_custom_field(REMEMBERED, field, value)
    document.body.meta = meta


def _ocr_pages(document: DoclingDocument) -> tuple[int, ...]:
    from kbsync.pipelines.docling_chunks import remembered

    return tuple(remembered(document, "ocr_pages") or ())


def _verdict(error: BaseException, name: str) -> FailFile:
    """Translate what went wrong below, by the classes along its chain of causes."""
    for cause in _causes(error):
        if isinstance(cause, FailFile):
            return cause
        if isinstance(cause, MemoryError):
            return FailFile(Reason.MEMORY, f"{name}: reading it took more memory than there is.")
        if isinstance(cause, RecursionError) or "recursion" in str(cause):
            return FailFile(Reason.TOO_COMPLEX, f"{name}: its structure is nested too deep.")
        if isinstance(cause, ImportError):
            return _unusable(cause)
    return _failed(name)


def _causes(error: BaseException) -> list[BaseException]:
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and len(causes) < _CAUSES_LOOKED_AT:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    return causes


def _unusable(error: BaseException) -> FailFile:
    """Say why documents cannot be read here at all, and what helps."""
    hint = "Install kbsync anew."
    text = " ".join(str(cause) for cause in _causes(error))
    if "libGL" in text or "libxcb" in text or "cv2" in text:
        # Two packages write the same cv2 folder; the one with windows wants libraries that a bare machine lacks.
        hint = f"Run: {sys.executable} -m pip install --force-reinstall --no-deps opencv-python-headless"
    elif any(type(cause).__name__ == "OcrLanguageNotSupportedError" for cause in _causes(error)):
        hint = "Choose another language for OCR in the configuration."
    first = str(error).strip().split("\n")[0]
    return FailFile(Reason.MODEL, f"Documents cannot be read here: {first}", hint=hint)


def _failed(name: str) -> FailFile:
    return FailFile(Reason.CORRUPT, f"{name}: its content is damaged or not what its ending says.")
