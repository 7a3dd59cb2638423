"""Pieces of documents: sections, tables whole or in parts, places on the page, and never longer than the limit."""

from __future__ import annotations

from pathlib import Path

import pytest
from docling_core.types.doc.document import DoclingDocument
from docling_core.types.doc.labels import DocItemLabel
from pptx import Presentation

from kbsync.embed.token_counter import HuggingFaceCounter
from kbsync.model import ChunkLimits, Parsed, Piece
from kbsync.pipelines import router
from kbsync.pipelines.docling_chunks import parse_document
from kbsync.pipelines.enrich import make_chunks
from kbsync.pipelines.room import clipped_title
from tests.fakes.conversions import Conversions
from tests.pipelines.conftest import TOKENIZER

pytestmark = pytest.mark.timeout(300)  # the first one loads Docling and its models: half a minute when quiet

SMALL = ChunkLimits(max_tokens=96)


def tables(parsed: Parsed) -> list[Piece]:
    return [piece for piece in parsed.pieces if piece.kind == "table"]


def test_a_table_of_a_pdf_is_markdown_with_every_number_in_its_row(corpus: Path, conversions: Conversions) -> None:
    parsed = conversions.of(corpus / "pdf" / "2305.03393v1-pg9.pdf", limits=ChunkLimits(max_tokens=512)).parsed
    (table,) = tables(parsed)
    lines = table.text.split("\n")
    assert lines[0].startswith("Table 1. HPO performed in OTSL and HTML representation")
    assert lines[2].split(" | ")[2:6] == ["Language", "TEDs - simple", "TEDs - complex", "TEDs - all"]
    assert lines[4:] == [
        "| 6 | 6 | OTSL | 0.965 | 0.934 | 0.955 | 0.88 | 2.73 |",
        "| 6 | 6 | HTML | 0.969 | 0.927 | 0.955 | 0.857 | 5.39 |",
        "| 4 | 4 | OTSL | 0.938 | 0.904 | 0.927 | 0.853 | 1.97 |",
        "| 4 | 4 | HTML | 0.952 | 0.909 | 0.938 | 0.843 | 3.77 |",
        "| 2 | 4 | OTSL | 0.923 | 0.897 | 0.915 | 0.859 | 1.91 |",
        "| 2 | 4 | HTML | 0.945 | 0.901 | 0.931 | 0.834 | 3.81 |",
        "| 4 | 2 | OTSL | 0.952 | 0.92 | 0.942 | 0.857 | 1.22 |",
        "| 4 | 2 | HTML | 0.944 | 0.903 | 0.931 | 0.824 | 2 |",
    ]
    assert table.section_header == "5.1 Hyper Parameter Optimization"


def test_pieces_know_their_page_and_place(corpus: Path, conversions: Conversions) -> None:
    parsed = conversions.of(corpus / "pdf" / "2305.03393v1-pg9.pdf", limits=ChunkLimits(max_tokens=512)).parsed
    boxes = []
    for piece in parsed.pieces:
        assert piece.metadata["page"] == 1
        box = piece.metadata["bbox"]
        assert isinstance(box, list)
        left, top, right, bottom = box
        assert 0 <= left < right <= 612
        assert 0 <= top < bottom <= 792
        boxes.append(top)
    assert boxes == sorted(boxes)  # one column: from top to bottom


def test_a_table_too_long_for_one_piece_repeats_caption_and_head_in_each(
    conversions: Conversions, tmp_path: Path
) -> None:
    page = tmp_path / "table.html"
    rows = "".join(f"<tr><td>duck {number}</td><td>{number * 7}</td></tr>" for number in range(60))
    page.write_text(
        f"<h1>Birds</h1><table><caption>Ducks by year</caption><tr><th>Name</th><th>Count</th></tr>{rows}</table>"
    )
    parts = tables(conversions.of(page, limits=SMALL).parsed)
    assert len(parts) > 3
    assert [piece.metadata["part"] for piece in parts] == [f"{n + 1}/{len(parts)}" for n in range(len(parts))]
    assert all(piece.text.startswith("Ducks by year\n\n| Name | Count |\n| - | - |\n| duck ") for piece in parts)
    text = "\n".join(piece.text for piece in parts)
    assert all(text.count(f"| duck {number} | {number * 7} |") == 1 for number in range(60))


def test_spans_and_empty_cells_of_word_tables_stay_in_their_columns(corpus: Path, conversions: Conversions) -> None:
    found = tables(conversions.of(corpus / "docx" / "word_tables.docx").parsed)
    assert found[0].text.split("\n")[0] == "| Header 0.0 | Header 0.1 | Header 0.2 |"
    assert "| Cell 2.0 | Merged Cell 1.1 2.1 | Cell 2.2 |" in found[3].text
    for table in found:
        assert len({row.count("|") for row in table.text.split("\n")}) == 1


def test_the_headers_of_a_section_are_a_chain_without_the_title(corpus: Path, conversions: Conversions) -> None:
    parsed = conversions.of(corpus / "docx" / "word_sample.docx").parsed
    headers = [piece.section_header for piece in parsed.pieces]
    assert "Let’s swim! > Let’s eat" in headers
    assert all("Swimming in the lake" not in (header or "") for header in headers)


def test_a_header_with_nothing_under_it_is_found(conversions: Conversions, tmp_path: Path) -> None:
    page = tmp_path / "headers.html"
    page.write_text("<h1>Report</h1><h2>Summary</h2><p>All is well.</p><h2>Appendix zebra</h2>")
    pieces = conversions.of(page).parsed.pieces
    assert [(piece.section_header, piece.text) for piece in pieces] == [
        ("Summary", "All is well."),
        (None, "Appendix zebra"),
    ]


def test_a_paragraph_that_layout_took_for_a_header_heads_nothing() -> None:
    document = DoclingDocument(name="report")
    document.add_heading("3.3 Groups")
    document.add_heading("Here is an example of how groups are used. " * 6)
    document.add_text(DocItemLabel.TEXT, "Jane is in the group of managers.")
    parsed = parse_document(document, "report.pdf", ChunkLimits(), HuggingFaceCounter(str(TOKENIZER)))
    (piece,) = parsed.pieces
    assert piece.section_header == "3.3 Groups"
    assert piece.text.startswith("Here is an example of how groups are used.")
    assert piece.text.endswith("Jane is in the group of managers.")


def test_a_title_by_hand_heads_every_chunk_within_the_limit_and_the_own_one_stays() -> None:
    document = DoclingDocument(name="report")
    document.add_title("Harvest of the orchard")
    document.add_text(DocItemLabel.TEXT, "The quince ripens late. " * 40)
    counter, by_hand = HuggingFaceCounter(str(TOKENIZER)), "All that was written about fruit in the valley " * 5
    parsed = parse_document(document, "report.pdf", SMALL, counter, by_hand)
    title = clipped_title(by_hand, SMALL, counter)
    chunks = make_chunks(parsed, title, counter)
    assert len(chunks) > 1
    assert max(chunk.token_count for chunk in chunks) <= SMALL.max_tokens
    assert all(chunk.enriched_text.startswith(title) for chunk in chunks)
    assert "Harvest of the orchard" in chunks[0].enriched_text


def test_figures_are_found_by_their_captions(corpus: Path, conversions: Conversions) -> None:
    pieces = conversions.of(corpus / "pdf" / "2206.01062_pg3.pdf", password="1234").parsed.pieces
    assert any(
        piece.kind == "figure" and piece.text.startswith("Figure 2: Distribution of DocLayNet pages")
        for piece in pieces
    )


@pytest.mark.parametrize("limits", [ChunkLimits(), SMALL], ids=["usual", "small"])
@pytest.mark.parametrize(
    ("name", "password"),
    [("pdf/2206.01062_pg3.pdf", "1234"), ("pdf/normal_4pages.pdf", None), ("html/wiki_duck.html", None)],
)
def test_no_chunk_is_longer_than_the_limit(
    corpus: Path, conversions: Conversions, name: str, password: str | None, limits: ChunkLimits
) -> None:
    parsed = conversions.of(corpus / name, password=password, limits=limits).parsed
    counter = HuggingFaceCounter(str(TOKENIZER))
    chunks = make_chunks(parsed, router.title_of(parsed, name), counter)
    assert len(chunks) > 3
    assert max(chunk.token_count for chunk in chunks) <= limits.max_tokens


def test_what_is_past_the_most_chunks_is_left_out_and_said(corpus: Path, conversions: Conversions) -> None:
    parsed = conversions.of(corpus / "html" / "wiki_duck.html", limits=ChunkLimits(max_chunks=5)).parsed
    assert len(parsed.pieces) == 5
    assert parsed.truncated


def test_what_a_reader_remarks_in_a_word_file_and_a_speaker_notes_is_found(
    corpus: Path, conversions: Conversions, tmp_path: Path
) -> None:
    remarked = conversions.of(corpus / "docx" / "docx_comments.docx").parsed
    assert any("Another comment by a different reviewer" in piece.text for piece in remarked.pieces)
    talk = Presentation()
    for title in ("Orchard", "Hedge"):
        slide = talk.slides.add_slide(talk.slide_layouts[5])
        slide.shapes.title.text = title
        slide.notes_slide.notes_text_frame.text = f"Remember the {title.lower()} in frost."
    talk.save(str(tmp_path / "talk.pptx"))
    pieces = conversions.of(tmp_path / "talk.pptx").parsed.pieces
    found = {str(piece.metadata["page"]): piece.text for piece in pieces}
    assert "orchard in frost" in found["1"]
    assert "hedge in frost" in found["2"]
