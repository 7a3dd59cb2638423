"""The questions of the integrity check about rows: each says how many are wrong, and names the first one.

They only read, and each stands for itself: asked in a read transaction of its own, none holds anybody up for long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

import apsw

from kbsync.store import events, meta, schema_objects, tokenizer, vector_integrity
from kbsync.store.connection import is_of_full_text
from kbsync.store.found import Found, first_of, found_paths, found_rows

# Complaints of SQLite beyond so many are not counted.
_MOST_COMPLAINTS = 1000
_OF_INDEX = re.compile(r"missing from index|wrong # of entries in index|non-unique entry in index|differ from index")
# Tables whose ids are never used twice, with what else may still name an id of theirs.
_NUMBERED = {
    "documents": ("SELECT max(document_id) FROM events", "SELECT max(document_id) FROM origins"),
    "sources": ("SELECT max(source_id) FROM events",),
    "origins": ("SELECT max(id) FROM names_fts_docsize",),
    "chunks": ("SELECT max(id) FROM chunks_fts_docsize",),
    "embedders": (),
    "files": (),
    "jobs": (),
    "events": (),
}


# ---- the file itself ----


def complaints(connection: apsw.Connection) -> tuple[Found | None, Found | None, Found | None]:
    """Return what SQLite says of (the file's pages, indexes that do not agree with their table, full-text indexes)."""
    pages: list[str] = []
    indexes: list[str] = []
    full_text: list[str] = []
    for text in _checked(connection):
        kind = full_text if "fts5" in text.lower() else indexes if _OF_INDEX.search(text) else pages
        kind.append(text)
    return first_of(pages), first_of(indexes), first_of(full_text)


def _checked(connection: apsw.Connection) -> list[str]:
    try:
        for name in ("chunks_fts", "names_fts"):
            # FTS5 looks at what others wrote since when it is asked for words, not when it is checked.
            connection.execute(f"SELECT 1 FROM {name} WHERE {name} MATCH '\"kbsync\"' LIMIT 1").fetchall()
    except apsw.Error as error:
        if not is_of_full_text(error):
            raise
    try:
        return _told(connection.execute(f"PRAGMA integrity_check({_MOST_COMPLAINTS})"))
    except apsw.SQLError as error:
        if not is_of_full_text(error):
            raise
        # A full-text table that cannot even be opened ends the check of all others: they are checked one by one.
        found = [f"FTS5: {error}"]
    for name in schema_objects.ordinary_tables(connection):
        found += _told(connection.execute(f"PRAGMA integrity_check({schema_objects.quoted(name)})"))
    return found


def _told(rows: Iterable[tuple[object, ...]]) -> list[str]:
    return [" ".join(str(text).split()) for (text,) in rows if text != "ok"]


def foreign_keys(connection: apsw.Connection) -> Found | None:
    """Rows that name others which are not there."""
    return first_of(f"{table} {row}" for table, row, *_ in connection.execute("PRAGMA foreign_key_check"))


def row_ids(connection: apsw.Connection) -> Found | None:
    """Tables that would give a new row the id of one that was deleted."""
    return first_of(table for table, given, used in numbering(connection) if given < used)


def numbering(connection: apsw.Connection) -> list[tuple[str, int, int]]:
    """Return for each table (its name, the last id that it believes to have given, the largest that was in use)."""
    given = dict(connection.execute("SELECT name, seq FROM sqlite_sequence"))
    found = []
    for table, others in _NUMBERED.items():
        asked = [f"SELECT max(id) FROM {table}", *others]
        if table == "chunks":
            asked += [f"SELECT max(chunk_id) FROM vectors_{number}" for number in vector_integrity.numbers(connection)]
        used = max(int(connection.execute(sql).get or 0) for sql in asked)
        found.append((table, int(given.get(table) or 0), used))
    return found


# ---- full text ----


def full_text(connection: apsw.Connection) -> Found | None:
    """Say whether the index differs from the chunks' text. `connection` must be able to write; nothing is written."""
    try:
        connection.execute("INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('integrity-check', 1)")
    except (apsw.CorruptError, apsw.SQLError) as error:
        return Found(1, str(error))
    return None


def full_text_missing(connection: apsw.Connection) -> Found | None:
    """Chunks that have no row in the full-text index."""
    return found_rows(connection, "chunk", "SELECT id FROM chunks WHERE id NOT IN (SELECT id FROM chunks_fts_docsize)")


def full_text_extra(connection: apsw.Connection) -> Found | None:
    """Rows of the full-text index that have no chunk."""
    return found_rows(connection, "chunk", "SELECT id FROM chunks_fts_docsize WHERE id NOT IN (SELECT id FROM chunks)")


def names(connection: apsw.Connection) -> Found | None:
    """Live paths that cannot be found by their name, and names that belong to none."""
    live = "SELECT id FROM origins WHERE live = 1 AND path IS NOT NULL"
    return found_rows(
        connection,
        "origin",
        f"SELECT id FROM ({live}) WHERE id NOT IN (SELECT id FROM names_fts_docsize) "
        f"UNION ALL SELECT id FROM names_fts_docsize WHERE id NOT IN ({live})",
    )


def words(connection: apsw.Connection) -> Found | None:
    """Say whether another version of the rules by which text becomes words filled the full-text indexes."""
    version = meta.get(connection, meta.TOKENIZER)
    return None if version == tokenizer.VERSION else Found(1, f"version {version}")


# ---- documents ----

# Documents that are to be made anew have been found wanting already.
_NOT_AWAITED = (
    "NOT (documents.state = 'current' AND documents.chunker_fingerprint = '' "
    f"AND EXISTS (SELECT 1 FROM meta WHERE key = '{meta.REMAKING}'))"
)


def documents_unexplained(connection: apsw.Connection) -> Found | None:
    """Documents that never had an origin."""
    return found_rows(
        connection, "document", "SELECT id FROM documents WHERE id NOT IN (SELECT document_id FROM origins)"
    )


def documents_state(connection: apsw.Connection) -> Found | None:
    """Documents whose state does not follow from their origins."""
    return found_rows(
        connection,
        "document",
        """
        SELECT id FROM documents WHERE EXISTS (SELECT 1 FROM origins WHERE document_id = documents.id)
        AND state <> CASE
            WHEN EXISTS (SELECT 1 FROM origins WHERE document_id = documents.id AND live = 1) THEN 'current'
            WHEN (SELECT ended_because FROM origins WHERE document_id = documents.id
                  ORDER BY until DESC, id DESC LIMIT 1) = 'superseded' THEN 'superseded'
            ELSE 'missing' END
        """,
    )


def chunks_missing(connection: apsw.Connection) -> Found | None:
    """Documents without a chunk, or with gaps between their chunks."""
    return found_rows(
        connection,
        "document",
        f"SELECT id FROM documents WHERE {_NOT_AWAITED} AND id NOT IN (SELECT document_id FROM chunks) "
        f"UNION ALL SELECT id FROM (SELECT documents.id AS id FROM chunks JOIN documents ON documents.id = document_id "
        f"WHERE {_NOT_AWAITED} GROUP BY document_id HAVING min(position) <> 0 OR max(position) + 1 <> count(*))",
    )


def texts(connection: apsw.Connection) -> Found | None:
    """Documents with a chunk that does not stand under the document's title, or without its own text."""
    return first_of(f"document {document_id}" for document_id in documents_with_wrong_texts(connection))


def documents_with_wrong_texts(connection: apsw.Connection) -> list[int]:
    """Return the documents whose chunks are enriched otherwise than by their title, section and text."""
    rows = connection.execute(
        f"""
        SELECT documents.id, title, enriched_text, text, chunks.metadata
        FROM chunks JOIN documents ON documents.id = document_id
        WHERE {_NOT_AWAITED} AND CASE WHEN json_valid(chunks.metadata) THEN enriched_text <> title
            || CASE WHEN coalesce(chunks.metadata ->> '$.section_header', '') <> ''
                    THEN ' > ' || (chunks.metadata ->> '$.section_header') ELSE '' END
            || char(10) || char(10) || text ELSE TRUE END
        """
    )
    return sorted({int(row[0]) for row in rows if not _stands_right(*row[1:])})


def _stands_right(title: str, enriched: str, text: str, metadata: str) -> bool:
    try:
        header = json.loads(metadata).get("section_header")
    except (ValueError, AttributeError):
        return False
    return is_enriched(title, enriched, text, header)


def is_enriched(title: str, enriched: str, text: str, header: object) -> bool:
    """Return whether a text stands under a title and its section's header; a long title may end in an ellipsis."""
    tail = f" > {header}\n\n{text}" if header else f"\n\n{text}"
    if not enriched.endswith(tail):
        return False
    head, line = enriched[: -len(tail)], " ".join(title.split())
    return head in (title, line) or (head.endswith("…") and line.startswith(head[:-1]))


# ---- the ledger, and why documents are here ----


def paths_missing(connection: apsw.Connection) -> Found | None:
    """Paths that count as indexed, and hold nothing."""
    return found_paths(
        connection,
        "SELECT path FROM files WHERE state = 'indexed' AND source_id IN (SELECT id FROM sources WHERE reason IS NOT "
        "'taken_out') AND NOT EXISTS (SELECT 1 FROM origins WHERE path = files.path AND live = 1)",
    )


def paths_ghost(connection: apsw.Connection) -> Found | None:
    """Paths that hold a document, and that the ledger knows nothing of."""
    return found_paths(
        connection,
        "SELECT path FROM origins WHERE kind = 'path' AND live = 1 AND NOT EXISTS (SELECT 1 FROM files "
        "WHERE path = origins.path AND source_id = origins.source_id AND state IN ('indexed', 'waiting', 'failed'))",
    )


def paths_twice(connection: apsw.Connection) -> Found | None:
    """Paths that hold two documents at once."""
    return found_paths(
        connection, "SELECT path FROM origins WHERE kind = 'path' AND live = 1 GROUP BY path HAVING count(*) > 1"
    )


def ledger(connection: apsw.Connection) -> Found | None:
    """Indexed paths of which the ledger names another content than they hold."""
    return found_paths(
        connection,
        """
        SELECT files.path FROM files LEFT JOIN documents ON documents.id = files.document_id
        WHERE files.state = 'indexed' AND EXISTS (SELECT 1 FROM origins WHERE path = files.path AND live = 1)
        AND source_id IN (SELECT id FROM sources WHERE reason IS NOT 'taken_out')
        AND (files.content_hash IS NOT documents.content_hash OR NOT EXISTS (
            SELECT 1 FROM origins WHERE path = files.path AND live = 1 AND document_id = files.document_id))
        """,
    )


def exclusions(connection: apsw.Connection) -> Found | None:
    """Paths that a person took out, as history tells, and that the ledger does not leave out."""
    return found_paths(connection, events.FORGOTTEN_REMOVALS)


# ---- jobs ----


def jobs_stuck(connection: apsw.Connection) -> Found | None:
    """Jobs that count as worked on, and that nobody has."""
    return found_rows(connection, "job", "SELECT id FROM jobs WHERE state = 'processing' AND lease_until IS NULL")


def jobs_twice(connection: apsw.Connection) -> Found | None:
    """Paths that wait in the queue more than once."""
    return found_paths(
        connection,
        "SELECT path FROM jobs WHERE kind = 'path' AND state IN ('queued', 'processing') GROUP BY source_id, path "
        "HAVING count(*) > 1",
    )
