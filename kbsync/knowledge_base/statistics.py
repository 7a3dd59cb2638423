"""The parts of `status` that the database knows, daemon or not."""

from __future__ import annotations

from kbsync.store import chunks, documents, files, jobs, ledger, maintenance, meta
from kbsync.store.connection import Connection

# The states that add up to what was seen; what is gone does not count.
_SEEN = ("indexed", "waiting", "skipped", "failed")


def statistics(connection: Connection) -> dict[str, object]:
    """Return `database`, `queue`, `files`, `added` (by hand), `taken_in` and `last_check` as `status` shows them."""
    states: dict[str, int] = {}
    for counts in files.counts(connection).values():
        for state, count in counts.items():
            states[state] = states.get(state, 0) + count
    added = {str(state): count for state, count in ledger.by_hand(connection).items()}
    return {
        "database": {
            "documents_by_type": documents.count_by_type(connection),
            "total_chunks": chunks.count(connection),
            "size_bytes": maintenance.size_bytes(connection),
        },
        "queue": jobs.counts(connection),
        "files": {
            "states": states,
            "reasons": files.reason_counts(connection),
            "seen": sum(states.get(state, 0) for state in _SEEN),
        },
        "added": {**added, "seen": sum(added.values())},
        "taken_in": ledger.taken_in(connection),
        "last_check": meta.get(connection, meta.LAST_CHECK),
    }
