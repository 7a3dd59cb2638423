"""What a backup asks a copy of the database: which copies of files belong to it, how much is in it, is it whole."""

from __future__ import annotations

import os
from dataclasses import dataclass

import apsw

from kbsync.store import documents, integrity, jobs, vector_integrity
from kbsync.store.found import Question


@dataclass(frozen=True, slots=True)
class Contents:
    """`stored`: file name of each stored copy -> SHA-256 (hex); `staged`: file names; `hashes`: of all documents.

    `complaints`: of SQLite's quick check; `out_of_step`: (what, how often) where the parts do not agree.
    """

    stored: dict[str, str]
    staged: frozenset[str]
    hashes: frozenset[str]
    documents: int
    chunks: int
    complaints: int
    out_of_step: tuple[tuple[str, int], ...]


def look(connection: apsw.Connection) -> Contents:
    """Read all of it; of a damaged file only how many complaints there are."""
    pages, _, _ = integrity.complaints(connection)
    if pages is not None:
        return Contents({}, frozenset(), frozenset(), 0, 0, pages.count, ())
    questions: tuple[tuple[str, Question], ...] = (
        ("rows that name others which are not there", integrity.foreign_keys),
        ("chunks without a full-text row", integrity.full_text_missing),
        ("full-text rows without a chunk", integrity.full_text_extra),
        ("chunks without a vector", vector_integrity.missing),
        ("vectors without a chunk", vector_integrity.extra),
    )
    answers = [(what, ask(connection)) for what, ask in questions]
    rows = connection.execute("SELECT stored_path, content_hash FROM documents WHERE stored_path IS NOT NULL")
    return Contents(
        {os.path.basename(str(path)): str(content_hash) for path, content_hash in rows},
        frozenset(os.path.basename(path) for path in jobs.staged_paths(connection)),
        frozenset(documents.content_hashes(connection)),
        int(connection.execute("SELECT count(*) FROM documents").get),
        int(connection.execute("SELECT count(*) FROM chunks").get),
        0,
        tuple((what, found.count) for what, found in answers if found is not None),
    )
