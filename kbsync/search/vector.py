"""The nearest vectors: a matrix in memory that keeps in step with the database, and exact search in SQL beside it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbsync.search.fusion import Scored
from kbsync.store import meta, vectors
from kbsync.store.connection import Connection
from kbsync.store.selection import CURRENT, Selection

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kbsync.model import Vectors

# So many vectors SQLite compares in a few milliseconds, without a pass over the whole matrix.
IN_SQL = 2000


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The normalised vectors and chunk ids of all current documents at one generation; row i belongs to ids[i].

    Rows, once written, stay as they are. `rows` has room behind them, which the next snapshot may fill and share.
    While `losses` stays the same, all that is new has ids above `newest`.
    """

    embedder_id: int
    generation: int
    losses: int
    newest: int
    ids: NDArray[np.int64]
    rows: Vectors

    @property
    def matrix(self) -> Vectors:
        """Return the vectors, shape (n, d)."""
        return self.rows[: len(self.ids)]


class VectorIndex:
    """Exact nearest neighbours over vectors that are of length one. Any thread may search.

    The first question is answered in SQL: a command asks only one, and reading every vector for it would not pay.
    """

    def __init__(self, in_sql: int = IN_SQL) -> None:
        self._in_sql = in_sql
        self._refreshing = threading.Lock()
        self._snapshot: _Snapshot | None = None
        self._asked = False

    def nearest(
        self,
        connection: Connection,
        embedder_id: int,
        query: Vectors,
        limit: int,
        selection: Selection = CURRENT,
        *,
        every_version: bool = False,
    ) -> list[Scored]:
        """Return the selected chunks nearest to a normalised query of shape (d,), best first, ties by id.

        Scores are cosine similarities. `connection` is inside a read transaction, and the answer is of that moment.
        `every_version`: the selection may hold chunks of superseded and missing documents.
        """
        snapshot = None if every_version else self._in_step(connection, embedder_id)
        if snapshot is None:
            return _exact(connection, embedder_id, query, limit, selection)
        if selection == CURRENT:
            return _best(snapshot.ids, snapshot.matrix @ query, limit)
        import numpy as np

        wanted = vectors.selected_chunks(connection, selection)
        if len(wanted) <= self._in_sql:
            return _exact(connection, embedder_id, query, limit, selection)
        inside = np.isin(snapshot.ids, wanted, assume_unique=True)
        return _best(snapshot.ids[inside], (snapshot.matrix @ query)[inside], limit)

    def _in_step(self, connection: Connection, embedder_id: int) -> _Snapshot | None:
        """Return the matrix of this transaction's moment, None where there is none: not yet, or a later one already."""
        generation = meta.vector_generation(connection)
        snapshot = self._snapshot
        if snapshot is None or snapshot.embedder_id != embedder_id or snapshot.generation < generation:
            with self._refreshing:
                snapshot = self._snapshot
                if snapshot is None and not self._asked:
                    self._asked = True
                    return None
                if snapshot is None or snapshot.embedder_id != embedder_id or snapshot.generation < generation:
                    snapshot = self._snapshot = _refreshed(connection, embedder_id, generation, snapshot)
        return snapshot if snapshot.generation == generation else None


def _exact(connection: Connection, embedder_id: int, query: Vectors, limit: int, selection: Selection) -> list[Scored]:
    found = vectors.nearest(connection, embedder_id, query.tobytes(), limit, selection)
    return [Scored(chunk_id, score) for chunk_id, score in found]


def _best(ids: NDArray[np.int64], scores: Vectors, limit: int) -> list[Scored]:
    import numpy as np

    if not len(ids):
        return []
    count = min(limit, len(scores))
    # All that tie with the last one are sorted too: which of them are within the limit is the ids' matter.
    last = np.partition(scores, len(scores) - count)[len(scores) - count]
    best = np.flatnonzero(scores >= last)
    best = best[np.lexsort((ids[best], -scores[best]))][:count]
    return [Scored(int(ids[row]), float(scores[row])) for row in best]


def _refreshed(connection: Connection, embedder_id: int, generation: int, before: _Snapshot | None) -> _Snapshot:
    """Read only the vectors that came since; a chunk's vector never changes, and ids are never reused."""
    import numpy as np

    losses, newest = meta.vector_losses(connection), vectors.newest(connection, embedder_id)
    if before is not None and (before.embedder_id, before.losses) == (embedder_id, losses):
        new = vectors.current_after(connection, embedder_id, before.newest)
        kept = np.ones(len(before.ids), dtype=np.bool_)
    else:
        wanted = np.intersect1d(
            vectors.ids(connection, embedder_id), vectors.current_chunks(connection), assume_unique=True
        )
        if before is None or before.embedder_id != embedder_id:
            rows = vectors.load(connection, embedder_id, wanted)
            return _Snapshot(embedder_id, generation, losses, newest, wanted, rows)
        kept = np.isin(before.ids, wanted, assume_unique=True)
        new = np.setdiff1d(wanted, before.ids, assume_unique=True)
    ids = np.concatenate([before.ids[kept], new])
    rows, begin = before.rows, len(ids) - len(new)
    if len(new) and not (kept.all() and len(ids) <= len(rows)):
        # While files come in, nearly every search finds a few new vectors: only now and then all are copied.
        rows = np.empty((len(ids) + len(ids) // 8, before.rows.shape[1]), dtype=np.float32)
        rows[:begin] = before.matrix[kept]
    elif not kept.all():
        rows = before.matrix[kept]
    if len(new):
        rows[begin : len(ids)] = vectors.load(connection, embedder_id, new)
    return _Snapshot(embedder_id, generation, losses, newest, ids, rows)
