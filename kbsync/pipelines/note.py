"""Notes: one piece, whatever its length."""

from __future__ import annotations

from kbsync.errors import SkipFile
from kbsync.model import Parsed, Piece
from kbsync.reasons import Reason

TITLE_LENGTH = 80  # characters, as document-ingestion.md asks


def note_title(text: str) -> str:
    """Return the first 80 characters of a note on one line, cut at a word boundary."""
    line = " ".join(text[: 4 * TITLE_LENGTH].split())
    if len(line) <= TITLE_LENGTH:
        return line
    head = line[: TITLE_LENGTH + 1]
    word_end = head.rfind(" ")
    return head[:word_end] if word_end > 0 else line[:TITLE_LENGTH]


def parse_note(text: str) -> Parsed:
    """Return the note as a single piece without lines; its title is its beginning. Raises SkipFile(EMPTY)."""
    text = text.replace("\x00", "")
    if not text.strip():
        raise SkipFile(Reason.EMPTY, "The note has no text.", hint="Write what is to be remembered.")
    return Parsed(pieces=(Piece(text=text, kind="note"),), title=note_title(text))
