"""The parts of `status` that the database knows, daemon or not."""

from __future__ import annotations

from kbsync.store import chunks, documents, files, jobs, maintenance, meta
from kbsync.store.connection import Connection


def statistics(connection: Connection) -> dict[str, object]:
    """Return `database`, `queue`, `files` and `last_check` as `status` shows them."""
    states: dict[str, int] = {}
    for counts in files.counts(connection).values():
        for state, count in counts.items():
            states[state] = states.get(state, 0) + count
    return {
        "database": {
            "documents_by_type": documents.count_by_type(connection),
            "total_chunks": chunks.count(connection),
            "size_bytes": maintenance.size_bytes(connection),
        },
        "queue": jobs.counts(connection),
        "files": {"states": states, "reasons": files.reason_counts(connection)},
        "last_check": meta.get(connection, meta.LAST_CHECK),
    }
