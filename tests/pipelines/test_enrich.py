"""Chunk text under its document's title: the scenarios of the enrichment requirement."""

from __future__ import annotations

import pytest

from kbsync.model import ChunkLimits, Parsed, Piece
from kbsync.pipelines import router
from kbsync.pipelines.enrich import enriched_text, make_chunks
from kbsync.pipelines.room import clipped_title
from tests.fakes.word_counter import WordCounter


@pytest.mark.parametrize(
    ("title", "header", "text", "enriched"),
    [
        ("Suitcase Locks", None, "Steve = 363", "Suitcase Locks\n\nSteve = 363"),
        (
            "DCG Lab Hardware",
            "GRIMDAWN > motherboard",
            "MSI X870 Tomahawk",
            "DCG Lab Hardware > GRIMDAWN > motherboard\n\nMSI X870 Tomahawk",
        ),
        (
            "Docker Tips",
            None,
            "dbash() { docker exec -it $1 bash; }",
            "Docker Tips\n\ndbash() { docker exec -it $1 bash; }",
        ),
    ],
)
def test_title_and_section_stand_above_the_text(title: str, header: str | None, text: str, enriched: str) -> None:
    assert enriched_text(title, header, text) == enriched


def test_chunks_keep_the_raw_text_and_count_the_enriched_one() -> None:
    pieces = (Piece("one two", "section", "A > B", 3, 4, {"part": "1/2"}), Piece("three", "note"))
    first, second = make_chunks(Parsed(pieces), "My title", WordCounter())
    assert (first.position, first.text, first.token_count) == (0, "one two", 8)
    assert first.metadata == {"section_header": "A > B", "kind": "section", "lines": [3, 4], "part": "1/2"}
    assert (second.position, second.enriched_text) == (1, "My title\n\nthree")
    assert second.metadata == {"kind": "note"}


@pytest.mark.parametrize("most", [32, 64, 256])
@pytest.mark.parametrize("by_hand", [None, "Short", "A long title that somebody gave " * 20])
def test_no_title_and_no_section_header_however_long_lead_to_a_chunk_above_the_limit(
    most: int, by_hand: str | None
) -> None:
    limits, counter, name = ChunkLimits(min_tokens=5, max_tokens=most), WordCounter(), "report-" * 22 + ".md"
    text = (
        f"## {'chapter ' * 90}\n\n### {'section ' * 90}\n\n" + "Some words of text. " * 200 + "\n\n```\n" + "x\n" * 300
    )
    parsed = router.convert(text.encode(), "markdown", None, name, limits, counter, by_hand)
    title = clipped_title(by_hand or router.title_of(parsed, name), limits, counter)
    chunks = make_chunks(parsed, title, counter)
    assert max(chunk.token_count for chunk in chunks) <= most
    assert min(counter.count(chunk.text) for chunk in chunks[:-1]) >= most // 8
