"""The integrity check of the database: its file, its form, and that documents, full text, vectors, ledger and queue
agree. What lies in files beside it, own_files looks at.

Every question is asked in a read transaction of its own, so that nobody waits for the check, and it for nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from kbsync.knowledge_base.damage import SENTENCES, Damage, Problem
from kbsync.store import full_text_copy, integrity, schema_objects, vector_integrity
from kbsync.store.connection import Connection
from kbsync.store.found import Found, Question
from kbsync.store.full_text_copy import Pace, unpaced
from kbsync.store.writer import Readers

T = TypeVar("T")

# SQLite's own check of a large database on a slow disk takes long; the write-ahead log grows meanwhile.
_QUESTION_S = 1800.0

# Asked where every table is there.
_QUESTIONS: tuple[tuple[Damage, Question], ...] = (
    (Damage.FOREIGN_KEYS, integrity.foreign_keys),
    (Damage.ROW_IDS, integrity.row_ids),
    (Damage.TOKENIZER, integrity.words),
    (Damage.FTS_MISSING, integrity.full_text_missing),
    (Damage.FTS_EXTRA, integrity.full_text_extra),
    (Damage.NAMES, integrity.names),
    (Damage.VECTOR_TABLES, vector_integrity.tables),
    (Damage.VECTORS_MISSING, vector_integrity.missing),
    (Damage.VECTORS_EXTRA, vector_integrity.extra),
    (Damage.VECTORS_BAD, vector_integrity.bad),
    (Damage.VECTORS_STALE, vector_integrity.stale),
    (Damage.DOCUMENTS_UNEXPLAINED, integrity.documents_unexplained),
    (Damage.DOCUMENTS_STATE, integrity.documents_state),
    (Damage.CHUNKS_MISSING, integrity.chunks_missing),
    (Damage.TEXTS, integrity.texts),
    (Damage.PATHS_MISSING, integrity.paths_missing),
    (Damage.PATHS_GHOST, integrity.paths_ghost),
    (Damage.PATHS_TWICE, integrity.paths_twice),
    (Damage.LEDGER, integrity.ledger),
    (Damage.EXCLUSIONS, integrity.exclusions),
    (Damage.JOBS_STUCK, integrity.jobs_stuck),
    (Damage.JOBS_TWICE, integrity.jobs_twice),
)


class _Ask(Protocol):
    def __call__(self, question: Callable[[Connection], T]) -> T: ...


def check(connection: Connection) -> list[Problem]:
    """Return every kind of damage that one connection finds in its transaction; [] for a whole database.

    The connection must be able to write. The full-text index is compared in place: who wants to write waits for that.
    """

    def ask(question: Callable[[Connection], T]) -> T:
        return question(connection)

    return _checked(ask, lambda: (integrity.full_text(connection) is not None, 0))


def check_beside(readers: Readers, pace: Pace = unpaced) -> list[Problem]:
    """Return the same while others read and write. `pace` is called between small pieces of work, and may raise.

    Raises RetryLater where the database cannot be read now.
    """

    patient = readers.within(_QUESTION_S)

    def ask(question: Callable[[Connection], T]) -> T:
        pace(0.0)
        return patient.read(question)

    return _checked(ask, lambda: full_text_copy.disagreements(readers.path, pace))


def problem_of(damage: Damage, found: Found, hint: str = "") -> Problem:
    """Return what is told of a damage."""
    return Problem(damage, SENTENCES[damage], found.count, found.first, hint=hint)


def _checked(ask: _Ask, compare: Callable[[], tuple[bool, int]]) -> list[Problem]:
    """`compare` returns whether the full-text index is wrong, and how many words of names are."""
    differences = ask(schema_objects.differences)
    pages, indexes, full_text = ask(integrity.complaints)
    if pages is not None:
        return [problem_of(Damage.CORRUPT, pages)]  # whatever else is said of it, the next reading may say otherwise
    found: dict[Damage, Found | None] = {Damage.INDEXES: indexes}
    if differences:
        found[Damage.SCHEMA] = Found(len(differences), str(differences[0]))
    if not schema_objects.columns_are_missing(differences):
        for damage, question in _QUESTIONS:
            found[damage] = ask(question)
        wrong, names = compare()
        if wrong or (full_text is not None and "chunks_fts" in full_text.first):
            found[Damage.FTS] = Found(1, "chunks_fts")
        if found[Damage.NAMES] is None and (names or (full_text is not None and "names_fts" in full_text.first)):
            found[Damage.NAMES] = Found(max(names, 1), "names_fts")
    return [problem_of(damage, there) for damage in Damage if (there := found.get(damage)) is not None]
