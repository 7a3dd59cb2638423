"""The live vectors as a matrix in memory, kept in step with the database by its vector generation."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbsync.search.fusion import Scored
from kbsync.store import meta, vectors
from kbsync.store.connection import Connection

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kbsync.model import Vectors


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The normalised vectors and chunk ids of all current documents at one generation; row i belongs to ids[i].

    Rows, once written, stay as they are. `rows` has room behind them, which the next snapshot may fill and share.
    """

    embedder_id: int
    generation: int
    ids: NDArray[np.int64]
    rows: Vectors

    @property
    def matrix(self) -> Vectors:
        """Return the vectors, shape (n, d)."""
        return self.rows[: len(self.ids)]


class VectorIndex:
    """Exact nearest neighbours over the vectors of current documents. Any thread may search."""

    def __init__(self) -> None:
        self._refreshing = threading.Lock()
        self._snapshot: _Snapshot | None = None

    def nearest(self, connection: Connection, embedder_id: int, query: Vectors, limit: int) -> list[Scored]:
        """Return the chunks nearest to a normalised query of shape (d,), best first, by cosine similarity.

        `connection` is inside a read transaction: the answer is of that moment or, where another search has read a
        later one already, of that.
        """
        import numpy as np

        snapshot = self._in_step(connection, embedder_id)
        if not len(snapshot.ids):
            return []
        scores = snapshot.matrix @ query
        count = min(limit, len(scores))
        best = np.argpartition(-scores, count - 1)[:count]
        best = best[np.lexsort((snapshot.ids[best], -scores[best]))]
        return [Scored(int(snapshot.ids[row]), float(scores[row])) for row in best]

    def _in_step(self, connection: Connection, embedder_id: int) -> _Snapshot:
        generation = meta.vector_generation(connection)
        snapshot = self._snapshot
        if snapshot is not None and snapshot.embedder_id == embedder_id and snapshot.generation >= generation:
            return snapshot
        with self._refreshing:
            before = self._snapshot
            if before is not None and before.embedder_id == embedder_id and before.generation >= generation:
                return before
            self._snapshot = _refreshed(connection, embedder_id, generation, before)
            return self._snapshot


def _refreshed(connection: Connection, embedder_id: int, generation: int, before: _Snapshot | None) -> _Snapshot:
    """Read only the vectors that came since; a chunk's vector never changes, and ids are never reused."""
    import numpy as np

    wanted = np.intersect1d(
        vectors.ids(connection, embedder_id), vectors.current_chunks(connection), assume_unique=True
    )
    if before is None or before.embedder_id != embedder_id:
        return _Snapshot(embedder_id, generation, wanted, vectors.load(connection, embedder_id, wanted))
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
    return _Snapshot(embedder_id, generation, ids, rows)
