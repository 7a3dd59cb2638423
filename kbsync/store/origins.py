"""The table `origins`: why a document is here. Its state follows from them; their names are searchable."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import apsw

from kbsync.model import Origin
from kbsync.store import meta

EndedBecause = Literal["superseded", "missing", "removed"]


def add(connection: apsw.Connection, document_id: int, origin: Origin, now: float) -> bool:
    """Record why a document is here and return True, or False where that was known.

    A path of a source holds one content at a time: its origin of another document ends as superseded.
    """
    path = None if origin.path is None else os.fsencode(origin.path)
    if origin.kind == "path":
        before = _live_of_path(connection, path)
        if before is not None and before[1] == document_id:
            return False
        if before is not None:
            end(connection, [before[0]], "superseded", now)
    known = connection.execute(
        "SELECT id FROM origins WHERE document_id = ? AND kind = ? AND path IS ? AND live = 1",
        (document_id, origin.kind, path),
    ).get
    if known is not None:
        return False
    connection.execute(
        "INSERT INTO origins (document_id, kind, source_id, path, live, since) VALUES (?, ?, ?, ?, 1, ?)",
        (document_id, origin.kind, origin.source_id, path, now),
    )
    _index_name(connection, connection.last_insert_rowid(), origin.path)
    refresh_state(connection, document_id)
    return True


def end_path(connection: apsw.Connection, path: str, because: EndedBecause, now: float) -> int | None:
    """End the live origin of a source's path; return the document it pointed at, None where there was none."""
    row = _live_of_path(connection, os.fsencode(path))
    if row is None:
        return None
    end(connection, [row[0]], because, now)
    return row[1]


def end_source(connection: apsw.Connection, source_id: int, now: float) -> set[int]:
    """End the live paths of a source that was taken out of the configuration, and forget its number in all origins.

    What was taken in from an inbox is kbsync's own and stays. Return the documents that the paths pointed at.
    """
    rows: list[Any] = connection.execute(
        "SELECT id, document_id FROM origins WHERE source_id = ? AND live = 1 AND kind = 'path'", (source_id,)
    ).fetchall()
    end(connection, [row[0] for row in rows], "removed", now)
    connection.execute("UPDATE origins SET source_id = NULL WHERE source_id = ?", (source_id,))
    return {int(row[1]) for row in rows}


def delete_of(connection: apsw.Connection, document_id: int) -> None:
    """Delete every origin of a document that is about to be deleted itself."""
    connection.execute(
        "DELETE FROM names_fts WHERE rowid IN (SELECT id FROM origins WHERE document_id = ? AND live = 1)",
        (document_id,),
    )
    connection.execute("DELETE FROM origins WHERE document_id = ?", (document_id,))


def live_paths(connection: apsw.Connection, document_id: int) -> list[str]:
    """Return the paths that hold this document now, lexically first one first (by raw bytes).

    Those of inboxes come last: there the file is not any more.
    """
    rows = connection.execute(
        "SELECT path FROM origins WHERE document_id = ? AND live = 1 AND path IS NOT NULL "
        "GROUP BY path ORDER BY min(kind = 'inbox'), path",
        (document_id,),
    )
    return [os.fsdecode(path) for (path,) in rows]


def last_path(connection: apsw.Connection, document_id: int) -> str | None:
    """Return the path that held this document last, or holds it; None where it never had one."""
    path = connection.execute(
        "SELECT path FROM origins WHERE document_id = ? AND path IS NOT NULL "
        "ORDER BY live DESC, until DESC, id DESC LIMIT 1",
        (document_id,),
    ).get
    return None if path is None else os.fsdecode(path)


@dataclass(frozen=True, slots=True)
class LiveOrigin:
    """Why a document is here now. `since` in seconds since 1970."""

    id: int
    document_id: int
    kind: str
    path: str | None
    since: float


def live_of(connection: apsw.Connection, document_ids: Iterable[int]) -> list[LiveOrigin]:
    """Return every live origin of these documents."""
    rows = connection.execute(
        "SELECT id, document_id, kind, path, since FROM origins WHERE live = 1 "
        "AND document_id IN (SELECT value FROM json_each(?)) ORDER BY id",
        (json.dumps(list(document_ids)),),
    )
    return [
        LiveOrigin(int(number), int(document_id), str(kind), None if path is None else os.fsdecode(path), float(since))
        for number, document_id, kind, path, since in rows
    ]


def live_source_paths(connection: apsw.Connection, document_id: int) -> list[str]:
    """Return the paths in watched folders that hold this document now."""
    rows = connection.execute(
        "SELECT path FROM origins WHERE document_id = ? AND live = 1 AND kind = 'path' ORDER BY path", (document_id,)
    )
    return [os.fsdecode(path) for (path,) in rows]


def count_of_source(connection: apsw.Connection, source_id: int) -> int:
    """Return how many paths of a source hold a document now."""
    return int(
        connection.execute(
            "SELECT count(*) FROM origins WHERE source_id = ? AND kind = 'path' AND live = 1", (source_id,)
        ).get
    )


def lost_without(connection: apsw.Connection, paths: Iterable[str]) -> int:
    """Return how many of these paths of sources hold a document that nothing would hold without them."""
    held: dict[int, int] = {}
    for path in paths:
        row = _live_of_path(connection, os.fsencode(path))
        if row is not None:
            held[row[1]] = held.get(row[1], 0) + 1
    live = connection.execute(
        "SELECT document_id, count(*) FROM origins WHERE live = 1 "
        "AND document_id IN (SELECT value FROM json_each(?)) GROUP BY document_id",
        (json.dumps(list(held)),),
    )
    return sum(held[int(document_id)] for document_id, count in live if count == held[int(document_id)])


def held_by(connection: apsw.Connection, path: str) -> int | None:
    """Return the document that a source's path holds now, None where it holds nothing."""
    row = _live_of_path(connection, os.fsencode(path))
    return None if row is None else row[1]


def document_of(connection: apsw.Connection, path: str) -> int | None:
    """Return the document that a path (of any kind) brought most recently and still holds, None where there is none."""
    value = connection.execute(
        "SELECT document_id FROM origins WHERE path = ? AND live = 1 ORDER BY since DESC, id DESC LIMIT 1",
        (os.fsencode(path),),
    ).get
    return None if value is None else int(value)


def index_names(connection: apsw.Connection) -> None:
    """Fill `names_fts` (which must be empty) with every live origin's name."""
    rows: list[Any] = connection.execute("SELECT id, path FROM origins WHERE live = 1 AND path IS NOT NULL").fetchall()
    for origin_id, path in rows:
        _index_name(connection, origin_id, os.fsdecode(path))


def _index_name(connection: apsw.Connection, origin_id: int, path: str | None) -> None:
    if path is not None:
        connection.execute("INSERT INTO names_fts (rowid, name) VALUES (?, ?)", (origin_id, searchable_name(path)))


def searchable_name(path: str) -> str:
    """Return the file's name and its two nearest folders as text to search; bytes that are no UTF-8 become U+FFFD."""
    parts = [part for part in path.split(os.sep) if part][-3:]
    return os.fsencode(" ".join(parts)).decode("utf-8", "replace")


def _live_of_path(connection: apsw.Connection, path: bytes | None) -> tuple[int, int] | None:
    """Return (origin, document) of a source's path, None where it holds nothing."""
    row: Any = connection.execute(
        "SELECT id, document_id FROM origins WHERE kind = 'path' AND live = 1 AND path = ?", (path,)
    ).fetchone()
    return None if row is None else (int(row[0]), int(row[1]))


def end(connection: apsw.Connection, ids: Iterable[int], because: EndedBecause, now: float) -> None:
    """End origins by their row ids; their names are found no more, and their documents' states follow."""
    for origin_id in ids:
        connection.execute(
            "UPDATE origins SET live = 0, until = ?, ended_because = ? WHERE id = ?", (now, because, origin_id)
        )
        connection.execute("DELETE FROM names_fts WHERE rowid = ?", (origin_id,))
        document_id = connection.execute("SELECT document_id FROM origins WHERE id = ?", (origin_id,)).get
        refresh_state(connection, document_id)


def refresh_state(connection: apsw.Connection, document_id: int) -> None:
    """Current while any origin is live; else what ended its last one says: other content there, or nothing."""
    connection.execute(
        """
        UPDATE documents SET state = now.state FROM (SELECT CASE
            WHEN EXISTS (SELECT 1 FROM origins WHERE document_id = ?1 AND live = 1) THEN 'current'
            WHEN (SELECT ended_because FROM origins WHERE document_id = ?1
                  ORDER BY until DESC, id DESC LIMIT 1) = 'superseded' THEN 'superseded'
            ELSE 'missing' END AS state) AS now
        WHERE id = ?1 AND documents.state <> now.state
        """,
        (document_id,),
    )
    if connection.changes():
        meta.raise_vector_losses(connection)
