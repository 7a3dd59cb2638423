"""Chunk text under its document's title: the scenarios of the enrichment requirement."""

from __future__ import annotations

import pytest

from kbsync.model import Parsed, Piece
from kbsync.pipelines.enrich import enriched_text, make_chunks
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
