"""Notes: one piece, a title from their beginning."""

from __future__ import annotations

import pytest

from kbsync.errors import SkipFile
from kbsync.pipelines.note import note_title, parse_note
from kbsync.reasons import Reason


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Steve = 363", "Steve = 363"),
        ("first line\nsecond  line", "first line second line"),
        ("word " * 30, " ".join(["word"] * 16)),
        ("x" * 100, "x" * 80),
        ("y" * 80 + " z", "y" * 80),
        ("句" * 100, "句" * 80),
    ],
)
def test_the_title_is_the_beginning_cut_at_a_word(text: str, title: str) -> None:
    assert note_title(text) == title


def test_a_note_is_one_piece_whatever_its_length() -> None:
    text = "A sentence about nginx.\n\n## Not a section\n\n" * 500
    parsed = parse_note(text)
    assert [piece.text for piece in parsed.pieces] == [text]
    assert parsed.pieces[0].kind == "note"
    assert parsed.pieces[0].first_line is None


def test_a_note_without_text_is_empty() -> None:
    with pytest.raises(SkipFile) as refused:
        parse_note(" \n")
    assert refused.value.reason is Reason.EMPTY
