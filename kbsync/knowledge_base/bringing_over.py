"""Brings documents of a damaged database over whole: earlier versions, and what is on a disk that is away.

Their text is proved; what they are found by, and why they are there, follows. A file that comes back is read once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kbsync.model import Origin
from kbsync.reasons import FileState, Reason
from kbsync.store import documents as documents_table
from kbsync.store import files, origins, sources, vectors
from kbsync.store.connection import Connection
from kbsync.store.origins import EndedBecause
from kbsync.store.salvage import Known
from kbsync.store.whole_documents import LedgerRow, Model, Place, WholeDocument

# Why a path does not hold a document any more; what else may stand there, nobody wrote.
_BECAUSE: dict[str | None, EndedBecause] = {"superseded": "superseded", "removed": "removed"}


@dataclass(frozen=True, slots=True)
class _Written:
    """A document that came over, and what is still to be written of it."""

    id: int
    content_hash: str
    reason: Reason | None
    places: tuple[Place, ...]
    ledger: tuple[LedgerRow, ...]


class BringingOver:
    """`wanted`: the documents that should come over, by content hash. `count`: so many did."""

    def __init__(self, wanted: Mapping[str, Known], now: float) -> None:
        self._wanted = wanted
        self._now = now
        self._written: list[_Written] = []

    @property
    def count(self) -> int:
        return len(self._written)

    def lost(self) -> list[str | None]:
        """Return a path of each current document that did not come over, None for one that never had any."""
        return [next(iter(known.paths), None) for known in self._left() if known.is_explained]

    def unplaced(self) -> int:
        """Return how many current documents did not come over of which nothing says where they lay."""
        return sum(not known.is_explained for known in self._left())

    def _left(self) -> list[Known]:
        here = {written.content_hash for written in self._written}
        left = (known for content_hash, known in sorted(self._wanted.items()) if content_hash not in here)
        return [known for known in left if known.is_current]

    def write(self, connection: Connection, documents: Sequence[WholeDocument], model: Model) -> None:
        """Write documents with their chunks and vectors; why they are there `place` writes when all are."""
        embedder_id = vectors.take_over(connection, model.fingerprint, model.model_name, model.dimension, self._now)
        for document in documents:
            if document.places:
                update = document.update
                number = documents_table.write(connection, update, embedder_id, document.updated_at)
                self._written.append(
                    _Written(number, update.content_hash, update.reason, document.places, document.ledger)
                )

    def place(self, connection: Connection) -> None:
        """Write why each document is there: what ended in the order of time, then what a path holds now."""
        ids = {row.path: row.id for row in sources.listed(connection)}
        for written, place in sorted(self._places(), key=lambda pair: _order(pair[1])):
            source_id = ids.get(place.folder)
            origins.add(connection, written.id, Origin("path", place.path, source_id), place.since)
            if place.until is not None:
                origins.end_path(connection, place.path, _BECAUSE.get(place.because, "missing"), place.until)
        for written in self._written:
            for row in written.ledger:
                self._account(connection, sources.ensure(connection, row.folder, self._now), written, row)

    def _places(self) -> Iterator[tuple[_Written, Place]]:
        return ((written, place) for written in self._written for place in written.places)

    def _account(self, connection: Connection, source_id: int, written: _Written, row: LedgerRow) -> None:
        files.account(
            connection,
            source_id,
            row.path,
            row.stat,
            FileState.GONE if row.is_gone else FileState.INDEXED,
            None if row.is_gone else written.reason,
            row.rules,
            row.at,
            content_hash=written.content_hash,
            document_id=written.id,
            hash_due=not row.is_gone,
        )


def _order(place: Place) -> tuple[bool, float]:
    return place.until is None, place.since
