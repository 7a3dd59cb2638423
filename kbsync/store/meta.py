"""The table `meta`: single values about the database itself."""

from __future__ import annotations

import apsw

TOKENIZER = "tokenizer"
SCHEMA = "kbsync_schema"
REBUILT = "rebuilt"
LIVE_EMBEDDER = "live_embedder"
BUILDING_EMBEDDER = "building_embedder"
REMAKING = "remaking"
VECTOR_GENERATION = "vector_generation"
VECTOR_LOSSES = "vector_losses"
LAST_CHECK = "last_check"
SCRUB = "scrub"
DISCARDS = "discards"
# JSON: what the last check found, and what became of it.
CHECKED = "checked"
# The content hash up to which stored copies were read again in their turn.
STORED_SCRUB = "stored_scrub"
# The live vectors have gaps that are being filled.
FILLING = "filling"
# When our own disk could be written again after it could not.
LAST_OUTAGE = "last_outage"
STEADINESS = "steadiness"
# JSON: when each job of the timetable ran last.
LAST_RUNS = "last_runs"
# When a daemon saw this database first: what never ran counts from there.
TIMETABLE_SINCE = "timetable_since"
# Which stale documents the timetable had made anew last, and by which rules.
REMADE = "remade"
# JSON: since when, and until when if that is set, a person has all of kbsync rest (seconds since 1970).
PAUSE = "pause"


def get(connection: apsw.Connection, key: str) -> str | None:
    """Return the value, None where it was never put."""
    value = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).get
    return None if value is None else str(value)


def put(connection: apsw.Connection, key: str, value: str) -> None:
    """Insert or replace a value."""
    connection.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, value),
    )


def remove(connection: apsw.Connection, key: str) -> None:
    """Take a value out; one that was never put is fine."""
    connection.execute("DELETE FROM meta WHERE key = ?", (key,))


def vector_generation(connection: apsw.Connection) -> int:
    """Return the number that rises with every change of what vector search sees."""
    return int(get(connection, VECTOR_GENERATION) or 0)


def raise_vector_generation(connection: apsw.Connection) -> None:
    """Say that a vector came or went, or that a document was hidden or shown."""
    put(connection, VECTOR_GENERATION, str(vector_generation(connection) + 1))


def vector_losses(connection: apsw.Connection) -> int:
    """Return the number that rises when what vector search sees changes otherwise than by new chunks at the end."""
    return int(get(connection, VECTOR_LOSSES) or 0)


def raise_vector_losses(connection: apsw.Connection) -> None:
    """Say that a vector went, came for an older chunk, or that a document was hidden or shown."""
    put(connection, VECTOR_LOSSES, str(vector_losses(connection) + 1))
    raise_vector_generation(connection)
