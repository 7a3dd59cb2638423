"""Looks into a knowledge base's tables without kbsync's code: what is searchable in them, and what cannot be right."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import apsw

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Tables:
    """A database that no process has open for writing while it is looked at."""

    connection: apsw.Connection

    def rows(self, sql: str, values: Sequence[Any] = ()) -> Rows:
        return self.connection.execute(sql, values).fetchall()

    def searchable(self, folders: Sequence[str]) -> dict[str, Rows]:
        """Return what these folders hold, in a form that two databases can be compared in: no ids, no times."""
        below = " OR ".join("o.path BETWEEN ? AND ?" for _ in folders)
        values = [end for folder in folders for end in (os.fsencode(folder + "/"), os.fsencode(folder + "0"))]
        held = f"SELECT DISTINCT o.document_id FROM origins o WHERE o.live = 1 AND o.kind = 'path' AND ({below})"
        files = below.replace("o.path", "path")
        return {
            "paths": self.rows(
                "SELECT o.path, d.content_hash FROM origins o JOIN documents d ON d.id = o.document_id "
                f"WHERE o.live = 1 AND o.kind = 'path' AND ({below}) ORDER BY 1, 2",
                values,
            ),
            "documents": self.rows(
                "SELECT content_hash, state, title, type, language, reason, page_count FROM documents "
                f"WHERE id IN ({held}) ORDER BY 1",
                values,
            ),
            "chunks": self.rows(
                "SELECT d.content_hash, c.position, c.text, c.enriched_text, c.metadata, c.token_count, v.embedding "
                f"FROM chunks c JOIN documents d ON d.id = c.document_id LEFT JOIN {self.vectors()} v "
                f"ON v.chunk_id = c.id WHERE d.id IN ({held}) ORDER BY 1, 2",
                values,
            ),
            "files": self.rows(
                f"SELECT path, state, reason, content_hash FROM files WHERE state <> 'gone' AND ({files}) ORDER BY 1",
                values,
            ),
        }

    def vectors(self) -> str:
        """Return the table of the live vectors."""
        (number,) = self.rows("SELECT value FROM meta WHERE key = 'live_embedder'")[0]
        return f"vectors_{number}"

    def damages(self) -> list[str]:
        """Return what is wrong with the database itself, and between its three stores."""
        complaints = [str(row[0]) for row in self.rows("PRAGMA integrity_check") if row[0] != "ok"]
        complaints += [f"foreign key: {row}" for row in self.rows("PRAGMA foreign_key_check")]
        chunks = self._ids("SELECT id FROM chunks")
        for name, ids in (
            ("full text", self._ids("SELECT id FROM chunks_fts_docsize")),
            ("vectors", self._ids(f"SELECT chunk_id FROM {self.vectors()}")),
        ):
            if ids != chunks:
                complaints.append(f"{name}: {len(chunks - ids)} missing, {len(ids - chunks)} extra")
        names, live = (
            self._ids("SELECT id FROM names_fts_docsize"),
            self._ids("SELECT id FROM origins WHERE live = 1 AND path IS NOT NULL"),
        )
        if names != live:
            complaints.append(f"names: {len(live - names)} missing, {len(names - live)} extra")
        for what, sql in (
            ("half a document", "SELECT document_id FROM chunks GROUP BY 1 HAVING max(position) + 1 <> count(*)"),
            (
                "a document that is found and held by nothing, or the reverse",
                "SELECT id, title, state FROM documents WHERE (state = 'current') <> "
                "EXISTS (SELECT 1 FROM origins WHERE document_id = documents.id AND live = 1)",
            ),
            (
                "two jobs of one path",
                "SELECT path FROM jobs WHERE state IN ('queued', 'processing') AND kind = 'path' "
                "GROUP BY source_id, path HAVING count(*) > 1",
            ),
        ):
            complaints += [f"{what}: {row}" for row in self.rows(sql)]
        return complaints

    def _ids(self, sql: str) -> set[int]:
        return {int(number) for (number,) in self.rows(sql)}


@contextmanager
def tables_of(database: str) -> Iterator[Tables]:
    """Open a database for reading; what a killed process left in its log is part of it."""
    connection = apsw.Connection(database, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        connection.set_busy_timeout(5000)
        yield Tables(connection)
    finally:
        connection.close()
