"""Checks that the database is whole: the file itself, its references, and that chunks, full text and vectors agree."""

from __future__ import annotations

from dataclasses import dataclass

from kbsync.store import maintenance
from kbsync.store.connection import Connection


@dataclass(frozen=True, slots=True)
class Problem:
    """One kind of damage, how often it was found, and what it means for search."""

    kind: str
    detail: str
    count: int


def check(connection: Connection) -> list[Problem]:
    """Return every kind of damage that is found; [] for a whole database. `connection` must be able to write.

    The full-text check is an INSERT that changes nothing; it must run where writing is allowed.
    """
    problems = []
    for kind, detail, count in (
        ("corrupt", "The database file is damaged.", maintenance.corrupt_pages(connection)),
        ("foreign_keys", "Rows name others that are not there.", maintenance.broken_references(connection)),
        ("fts", "The full-text index is out of step with the chunks.", int(not maintenance.fts_agrees(connection))),
        ("fts_missing", "Chunks have no full-text row.", maintenance.chunks_without_fts(connection)),
        ("fts_extra", "Full-text rows have no chunk.", maintenance.fts_without_chunks(connection)),
        ("vectors_missing", "Chunks have no vector.", maintenance.chunks_without_vector(connection)),
        ("vectors_extra", "Vectors have no chunk.", maintenance.vectors_without_chunk(connection)),
        ("vectors_bad", "Vectors have a wrong length or are no numbers.", maintenance.bad_vectors(connection)),
        ("names", "File names and their index are out of step.", maintenance.names_out_of_step(connection)),
        ("documents_unexplained", "Documents have no origin.", maintenance.documents_without_origin(connection)),
    ):
        if count:
            problems.append(Problem(kind, detail, count))
    return problems
