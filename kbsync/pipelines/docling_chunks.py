"""From Docling's document to pieces: text under its chain of headers, whole tables, figures with their captions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Any

from docling_core.transforms.chunker.doc_chunk import DocChunk
from docling_core.transforms.chunker.hierarchical_chunker import ChunkingDocSerializer, HierarchicalChunker
from docling_core.transforms.serializer.base import BaseDocSerializer, BaseSerializerProvider
from docling_core.transforms.serializer.markdown import MarkdownParams, MarkdownTableSerializer
from docling_core.types.doc.base import BoundingBox, ImageRefMode
from docling_core.types.doc.document import (
    CodeItem,
    ContentLayer,
    DocItem,
    DoclingDocument,
    GroupItem,
    PictureItem,
    SectionHeaderItem,
    TableItem,
    TextItem,
)
from docling_core.types.doc.labels import DocItemLabel, GroupLabel

from kbsync.model import ChunkLimits, JsonValue, Parsed, Piece, TokenCounter
from kbsync.pipelines import router
from kbsync.pipelines.cutting import Block, cut
from kbsync.pipelines.parts import Frame, parts
from kbsync.pipelines.room import Room, Size, clipped_title
from kbsync.pipelines.table import MOST_CHUNKS_A_SHEET, record_pieces, row_of

# The dots of a table of contents: each would be a token.
_LEADERS = re.compile(r"[ \t]*(?:\.[ \t]?){6,}")
# Layout takes some paragraphs for headers; as one, it would head every piece up to the next header.
_LONGEST_HEADER = 200
# Under this name the converter writes what it found beyond what Docling knows.
REMEMBERED = "kbsync"
_CAPTION = re.compile(r"(?:Tab(?:le|elle|leau|la|ella|\.)|Таблица|表|표)\s*(?:\d|[IVX]+\b)", re.IGNORECASE)


class _Serializers(BaseSerializerProvider):
    """Writes tables as Markdown tables (Docling's default says "row, column = value") and the text inside figures."""

    def get_serializer(self, doc: DoclingDocument) -> BaseDocSerializer:
        return ChunkingDocSerializer(
            doc=doc,
            table_serializer=MarkdownTableSerializer(),
            params=MarkdownParams(
                layers={ContentLayer.BODY, ContentLayer.NOTES},  # also what a speaker notes and a reader remarks
                compact_tables=True,
                traverse_pictures=True,
                include_hyperlinks=False,
                include_formatting=False,
                image_mode=ImageRefMode.PLACEHOLDER,
                image_placeholder="",
                escape_underscores=False,
                escape_html=False,
            ),
        )


@dataclass(frozen=True, slots=True)
class _Unit:
    """What is better not cut: a paragraph, a list, a table. `figure` and `sheet` name what it belongs to."""

    text: str
    kind: str
    chain: tuple[str, ...]
    figure: str | None
    items: tuple[DocItem, ...]
    sheet: str | None = None


def parse_document(
    document: DoclingDocument,
    name: str,
    limits: ChunkLimits,
    counter: TokenCounter,
    title_by_hand: str | None = None,
) -> Parsed:
    """Return the pieces of a document. `name` is its file name: without a title of its own, it is part of every chunk.

    `title_by_hand` is what chunks are headed with in place of both; the document's own title then heads its sections.
    Of more than `limits.max_chunks` pieces the first are kept: `truncated`.
    """
    document = _without_long_headers(document)
    title = title_of(document)
    clipped = clipped_title(title, limits, counter) if title else None
    room = Room(title_by_hand or clipped or router.title_of(Parsed(()), name), limits, counter)
    cut_sheets: list[str] = []
    found = _pieces(document, _with_captions(_units(document, None if title_by_hand else title)), room, cut_sheets)
    pieces = tuple(islice(found, limits.max_chunks + 1))
    metadata: dict[str, JsonValue] = {}
    if left_out := remembered(document, "chapters_left_out"):
        metadata["chapters_left_out"] = left_out
    if remembered(document, "rows_left_out"):
        metadata["rows_left_out"] = True
    if cut_sheets:
        metadata |= {"sheets_cut": cut_sheets, "chunks_a_sheet": MOST_CHUNKS_A_SHEET}
    truncated = len(pieces) > limits.max_chunks or bool(metadata) or bool(remembered(document, "cut"))
    if why := remembered(document, "plain_text"):
        metadata["plain_text"] = why
    return Parsed(pieces[: limits.max_chunks], clipped, metadata=metadata, truncated=truncated)


def remembered(document: DoclingDocument, field: str) -> Any:
    """Return what the converter wrote into a document beyond what Docling knows, None where it wrote nothing."""
    fields: dict[str, Any] = document.body.meta.get_custom_part() if document.body.meta else {}
    return fields.get(f"{REMEMBERED}__{field}")


def title_of(document: DoclingDocument) -> str | None:
    """Return the title that a book names, else the one in the text, else the one beside it (of a browser's tab)."""
    if title := remembered(document, "title"):
        return " ".join(str(title).split())
    titles = [item for item in document.texts if item.label == DocItemLabel.TITLE and item.text.strip()]
    titles.sort(key=lambda item: item.content_layer != ContentLayer.BODY)
    return " ".join(titles[0].text.split()) if titles else None


def _without_long_headers(document: DoclingDocument) -> DoclingDocument:
    """Return the document with headers as long as a paragraph turned into one; the given one stays as it is."""

    def judged(item: Any) -> Any:
        if not isinstance(item, SectionHeaderItem) or len(item.text) <= _LONGEST_HEADER:
            return item
        fields = {name: getattr(item, name) for name in TextItem.model_fields if name != "label"}
        return TextItem.model_construct(**fields, label=DocItemLabel.TEXT)

    return document.model_copy(update={"texts": [judged(item) for item in document.texts]})


def _units(document: DoclingDocument, title: str | None) -> Iterator[_Unit]:
    chunker = HierarchicalChunker(serializer_provider=_Serializers(), always_emit_headings=True)
    for chunk in chunker.chunk(document):
        if not isinstance(chunk, DocChunk):
            continue
        chain = tuple(header for text in chunk.meta.headings or () if (header := " ".join(text.split())))
        text = _LEADERS.sub(" … ", chunk.text).strip()
        if not text and chain:  # a header with nothing under it: its words must be found too
            text, chain = chain[-1], chain[:-1]
        if chain and chain[0] == title:
            chain = chain[1:]
        items = tuple(chunk.meta.doc_items)
        if sheet := _sheet(document, items):
            chain = (sheet, *chain)
        if text:
            yield _Unit(text, _kind(items), chain, _figure(items), items, sheet)


def _with_captions(units: Iterable[_Unit]) -> Iterator[_Unit]:
    """Give a table the line before it that calls itself its caption: layout takes many for text."""
    before: _Unit | None = None
    for unit in units:
        if before is not None and unit.kind == "table" and before.kind == "section" and _CAPTION.match(before.text):
            unit, before = replace(unit, text=f"{before.text}\n\n{unit.text}", items=before.items + unit.items), None
        if before is not None:
            yield before
        before = unit
    if before is not None:
        yield before


def _kind(items: tuple[DocItem, ...]) -> str:
    for kind, classes in (("table", TableItem), ("figure", PictureItem), ("code", CodeItem)):
        if any(isinstance(item, classes) for item in items):
            return kind
    return "section"


def _figure(items: tuple[DocItem, ...]) -> str | None:
    """Return the reference of the picture that a unit is, captions or is written in."""
    for item in items:
        if isinstance(item, PictureItem):
            return item.self_ref
        if item.parent is not None and item.parent.cref.startswith("#/pictures/"):
            return item.parent.cref
    return None


def _sheet(document: DoclingDocument, items: tuple[DocItem, ...]) -> str | None:
    """Return the name of the sheet of a workbook that an item is on."""
    parent = items[0].parent if items else None
    while parent is not None:
        above = parent.resolve(document)
        if isinstance(above, GroupItem) and above.label == GroupLabel.SHEET:
            return " ".join(above.name.split())
        parent = above.parent
    return None


def _pieces(document: DoclingDocument, units: Iterable[_Unit], room: Room, cut_sheets: list[str]) -> Iterator[Piece]:
    """Yield the pieces; of a sheet with too many the first, and its name into `cut_sheets`."""
    yielded: dict[str, int] = {}
    for sheet, piece in _pieces_of_sheets(document, units, room):
        if sheet is not None:
            yielded[sheet] = yielded.get(sheet, 0) + 1
            if yielded[sheet] > MOST_CHUNKS_A_SHEET:
                if sheet not in cut_sheets:
                    cut_sheets.append(sheet)
                continue
        yield piece


def _pieces_of_sheets(
    document: DoclingDocument, units: Iterable[_Unit], room: Room
) -> Iterator[tuple[str | None, Piece]]:
    """Pack neighbours under the same headers; tables, and figures with what is written in them, stay apart.

    A piece ends with its page, so that the page it names holds all of it; Docling itself joins the paragraphs that
    run on over a page's end.
    """
    tables = 0

    def together(unit: _Unit) -> tuple[Any, ...]:
        nonlocal tables
        tables += unit.kind == "table"
        page = next((place.page_no for item in unit.items for place in item.prov), None)
        return unit.chain, unit.figure, page, tables if unit.kind == "table" else 0

    for _, members in groupby(units, key=together):
        group = list(members)
        header = room.header(group[0].chain)
        size = room.size(header)
        most = (room.limits.max_chunks if group[0].sheet is None else MOST_CHUNKS_A_SHEET) + 1
        pieces = (
            _table(document, group[0], header, size, most)
            if group[0].kind == "table"
            else _prose(document, group, header, size)
        )
        yield from ((group[0].sheet, piece) for piece in pieces)


def _prose(document: DoclingDocument, group: list[_Unit], header: str | None, size: Size) -> Iterator[Piece]:
    text = ""
    blocks: list[Block] = []
    for unit in group:
        text += "\n\n" if text else ""
        blocks.append(Block(len(text), len(text) + len(unit.text), size.measure(unit.text)))
        text += unit.text
    for start, end in cut(text, blocks, size):
        inside = [unit for unit, block in zip(group, blocks, strict=True) if block.start < end and block.end > start]
        kinds = {unit.kind for unit in inside}
        kind = "figure" if inside[0].figure else kinds.pop() if len(kinds) == 1 else "section"
        items = [item for unit in inside for item in unit.items]
        yield Piece(text[start:end].strip(), kind, header, metadata=_place(document, items))


def _table(document: DoclingDocument, unit: _Unit, header: str | None, size: Size, most: int) -> Iterator[Piece]:
    """Yield the table whole where it fits, else parts that each begin with its caption and its row of headers."""
    place = _place(document, unit.items)
    tokens = size.measure(unit.text)
    if tokens is not None and tokens <= size.tokens:
        yield Piece(unit.text, "table", header, metadata=place)
        return
    head, rows = MarkdownTableSerializer().get_header_and_body_lines(table_text=unit.text)
    body = len(unit.text) - sum(len(row) for row in rows) if head else 0
    begin = 0
    frame = Frame(before=unit.text[:body].rstrip())
    if head and frame.tokens(size) is None:  # the caption is too long to be repeated: it comes before the table, once
        begin = body - sum(len(line) for line in head)
        frame = Frame(before=unit.text[begin:body].rstrip())
        if caption := unit.text[:begin].strip():
            yield from _prose(document, [replace(unit, text=caption, kind="section")], header, size)
    grid = next((item.data.grid for item in unit.items if isinstance(item, TableItem)), [])
    if head and frame.tokens(size) is None and len(grid) > 1:
        lines = (row_of(cell.text for cell in row) for row in grid)
        found = record_pieces(next(lines), lines, size.less(0))
        yield from (replace(piece, section_header=header, metadata={**place, **piece.metadata}) for piece in found)
        return
    for part in parts(unit.text, (begin, len(unit.text)), (body, len(unit.text)), frame, size, most):
        metadata = {**place, **({"part": part.number} if part.number else {})}
        yield Piece(part.text, "table", header, metadata=metadata)


def _place(document: DoclingDocument, items: Iterable[DocItem]) -> dict[str, JsonValue]:
    """Return the page on which the items begin and the box around them there, from the page's upper left corner."""
    places = [place for item in items for place in item.prov]
    if not places:
        return {}
    number = places[0].page_no
    page = document.pages.get(number)
    if page is None:
        return {"page": number}
    boxes = [place.bbox.to_top_left_origin(page.size.height) for place in places if place.page_no == number]
    around = BoundingBox.enclosing_bbox(boxes)
    return {"page": number, "bbox": [round(edge, 1) for edge in (around.l, around.t, around.r, around.b)]}
