"""Stored copies whose documents were deleted: promised in the same transaction, removed from the disk after it.

Were the process to end between the two, the copy would look like the only one of somebody's file, and come back.
"""

from __future__ import annotations

import json
import os

import apsw

from kbsync.store import meta


def promise(connection: apsw.Connection, stored_path: str) -> None:
    """Write down that a stored copy is to go. Its name counts: the data folder may be moved before it does."""
    name = os.path.basename(stored_path)
    meta.put(connection, meta.DISCARDS, json.dumps(sorted({*pending(connection), name})))


def pending(connection: apsw.Connection) -> list[str]:
    """Return the names of the stored copies that are to go."""
    found: list[str] = json.loads(meta.get(connection, meta.DISCARDS) or "[]")
    return found


def kept(connection: apsw.Connection) -> None:
    """Write that every promise is kept."""
    meta.remove(connection, meta.DISCARDS)
