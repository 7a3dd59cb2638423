"""The repair of what the database holds twice or can derive: its form, full text, names, vectors, numbers.

Each function is one step of knowledge_base/repair: it gets the writing connection and says what it did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kbsync.failpoints import failpoint
from kbsync.filesystem import as_text
from kbsync.knowledge_base import repair_documents
from kbsync.knowledge_base.damage import SENTENCES, Damage, Problem
from kbsync.store import events, mending, meta, reindexes, schema_objects, vector_integrity, vectors
from kbsync.store.connection import Connection


def mend_schema(connection: Connection, now: float) -> list[str]:
    """Make every table, index and trigger that is missing or made otherwise; return those that could not be.

    What lay in a missing table is missing afterwards, which the questions about rows find.
    """
    left = []
    differences = schema_objects.differences(connection)
    full_text = {name for one in differences if (name := schema_objects.full_text_of(one.object.name)) is not None}
    if "chunks_fts" in full_text:
        schema_objects.make_fts(connection, "chunks_fts")
    if "names_fts" in full_text:
        schema_objects.make_fts(connection, "names_fts")
    for difference in differences:
        if schema_objects.full_text_of(difference.object.name) is not None:
            continue
        if not schema_objects.mend(connection, difference):
            mending.rebuild_names(connection)  # which is written to by what follows, and may be damaged itself
            mending.drop_twice(connection, now)  # what stands in the way of a unique index
            if not schema_objects.mend(connection, difference):
                left.append(str(difference))
        failpoint("repair.schema_object")
    if "chunks_fts" in full_text:
        mending.rebuild_full_text(connection)
    if "names_fts" in full_text:
        mending.rebuild_names(connection)
    return left


def mend_at_start(connection: Connection, dimensions: dict[str, int], now: float) -> list[Problem]:
    """Make the form of the database whole before anything is asked of it; return what was wrong, [] for a good one."""
    left = []
    differences = schema_objects.differences(connection)
    if differences:
        left = mend_schema(connection, now)
    unreadable = mending.unreadable_full_text(connection)
    if unreadable:
        mending.rebuild_full_text(connection)
        mending.rebuild_names(connection)
    wrong = vector_integrity.wrong_tables(connection, lengths=False)
    wrong += vector_integrity.wrong_dimensions(connection, dimensions)
    if wrong:
        mending.make_vector_tables(connection, dimensions, now)
        mend_vectors(connection)
    mended: dict[Damage, list[str]] = {
        Damage.SCHEMA: [one for one in map(str, differences) if one not in left],
        Damage.FTS: [name for name in unreadable if name == "chunks_fts"],
        Damage.NAMES: [name for name in unreadable if name == "names_fts"],
        Damage.VECTOR_TABLES: wrong,
    }
    return _recorded(connection, mended, now)


def is_forgetful(connection: Connection) -> bool:
    """Return whether history tells of what a person removed, and the ledger does not."""
    return bool(events.forgotten_removals(connection))


def leave_out_at_start(connection: Connection, now: float) -> list[Problem]:
    """Leave out again what a person removed, as the check does; return what was wrong.

    The first walk may be quicker than any check: what it read in again, nobody would know as removed any more.
    """
    paths = repair_documents.leave_out_again(connection)
    return _recorded(connection, {Damage.EXCLUSIONS: [as_text(path) for path in paths]}, now)


def _recorded(connection: Connection, mended: Mapping[Damage, Sequence[str]], now: float) -> list[Problem]:
    for kind, found in mended.items():
        for one in found:
            events.record(connection, "repaired", now, detail=f"{kind}: {one}")
    return [mended_at_start(kind, found) for kind, found in mended.items() if found]


def mended_at_start(kind: Damage, found: Sequence[str]) -> Problem:
    """Return what is told of a damage that was mended while the database was opened."""
    done = "It was mended when the database was opened."
    return Problem(kind, SENTENCES[kind], len(found), found[0], repaired=True, done=done)


def mend_vectors(connection: Connection) -> tuple[int, list[int]]:
    """Delete vectors that are wrong; return (how many are missing then, documents whose text may have been changed).

    They are filled in by the reindexing, which a note in `meta` asks for.
    """
    stale = mending.delete_wrong_vectors(connection)
    failpoint("repair.vectors_deleted")
    meta.remove(connection, meta.FILLING)
    missing = vector_integrity.missing(connection)
    if missing is not None and reindexes.building(connection) is None:
        meta.put(connection, meta.FILLING, "1")
    live = vectors.live_embedder(connection)
    count = 0 if live is None else len(reindexes.missing(connection, live, 0, -1))
    return count, mending.documents_of_chunks(connection, stale)
