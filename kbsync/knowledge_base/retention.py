"""How long what is not current is kept, and how it goes: by the daemon in its time, or at once and for good.

A document of which kbsync keeps a copy is never deleted by the clock: that copy may be the only one. And a clock that
is wrong deletes nothing: where it was seen to leap, the whole time must pass again in small steps.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from kbsync.clock import Clock
from kbsync.errors import NotFound, UsageError
from kbsync.failpoints import failpoint
from kbsync.knowledge_base.discarding import discard_promised
from kbsync.store import documents, events, ledger, maintenance, meta
from kbsync.store.connection import Connection
from kbsync.store.kept_conversions import KeptConversions
from kbsync.store.ledger import Leftover
from kbsync.store.stored_files import StoredFiles
from kbsync.store.writer import Readers, Writer

log = structlog.stdlib.get_logger(__name__)

DAY_S = 86400.0
# Documents deleted in one transaction: a fresh file's own commit is not kept waiting.
_BATCH = 50
# The clock is seen once a day, and after a start. Meanwhile it may have gone on by half the time that things are kept,
# or by this; more is a leap: a machine that was off for long, or a clock that is wrong.
_SHORTEST_LEAP_S = 2 * DAY_S
# Nothing goes sooner, whatever is set: who brakes mass deletions counts what went within the last hour.
_GONE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Steadiness:
    """When the clock was seen last, and since when it goes on in small steps (0: since ever). Seconds since 1970."""

    seen: float
    since: float

    def after(self, now: float, kept_s: float) -> Steadiness:
        """Return what one more look says, where what is kept goes after `kept_s` seconds."""
        if now - self.seen > max(kept_s / 2, _SHORTEST_LEAP_S):
            return Steadiness(now, now)
        return Steadiness(now, min(self.since, now))


@dataclass(frozen=True, slots=True)
class Purge:
    """What a purge deletes. `kept`: documents that it leaves, since kbsync's copy may be the only one."""

    documents: tuple[Leftover, ...]
    kept: tuple[Leftover, ...]


class Retention:
    """Deletes documents that nothing holds any more. Any thread may ask."""

    def __init__(
        self, clock: Clock, writer: Writer, readers: Readers, stored: StoredFiles, conversions: KeptConversions
    ) -> None:
        self._clock = clock
        self._writer = writer
        self._readers = readers
        self._stored = stored
        self._conversions = conversions

    def note_time(self, keep_days: float | None) -> Steadiness:
        """Look at the clock and write down whether it leapt since the last look: for a start, and once a day."""
        now, kept_s = self._clock.now(), _kept_s(keep_days)

        def note(connection: Connection) -> Steadiness:
            told = meta.get(connection, meta.STEADINESS)
            before = Steadiness(now, 0.0) if told is None else Steadiness(*json.loads(told))
            after = before.after(now, kept_s)
            meta.put(connection, meta.STEADINESS, json.dumps([after.seen, after.since]))
            if after.since == now:
                log.warning("clock_leapt", seconds=round(now - before.seen))
            return after

        return self._writer.run(note)

    def expire(self, keep_days: float | None) -> int:
        """Delete what is over its time, rows of paths that are gone too; return how many documents. None: for ever."""
        steady = self.note_time(keep_days)
        if keep_days is None:
            return 0
        until = self._clock.now() - _kept_s(keep_days)
        if steady.since > until:
            return 0  # the clock leapt, and has not been right for as long as things are kept
        deleted = 0
        while found := self._readers.read(
            lambda connection: ledger.leftovers(connection, until, with_copies=False, limit=_BATCH)
        ):
            deleted += self._delete(found, until, with_copies=False, for_good=False)
        self._writer.run(lambda connection: ledger.forget_gone(connection, until))
        failpoint("retention.gone_forgotten")
        if deleted:
            log.info("expired", count=deleted)
        return deleted

    def to_purge(self, older_than_days: float = 0.0, document_id: int | None = None) -> Purge:
        """Return what a purge would delete: what nothing holds since so many days, or one document of that kind.

        Raises NotFound for a document that is not there, UsageError for one that is current.
        """
        until = self._clock.now() - older_than_days * DAY_S
        found = self._readers.read(lambda connection: self._leftovers(connection, until, document_id))
        if document_id is not None:
            return Purge(tuple(found), ())
        bare = self._readers.read(lambda connection: ledger.leftovers(connection, until, with_copies=False))
        wanted = {leftover.id for leftover in bare}
        return Purge(tuple(bare), tuple(leftover for leftover in found if leftover.id not in wanted))

    def purge(self, older_than_days: float = 0.0, document_id: int | None = None) -> tuple[Purge, bool]:
        """Delete what `to_purge` returns, for good: no byte of it is left in the database's files.

        Return (what was deleted, whether all is overwritten: a long search may hold on to the log). The whole database
        is written anew; indexing waits meanwhile. Raises as `to_purge`, and RetryLater where the disk is full.
        """
        purge = self.to_purge(older_than_days, document_id)
        until = self._clock.now() - older_than_days * DAY_S
        for start in range(0, len(purge.documents), _BATCH):
            batch = purge.documents[start : start + _BATCH]
            self._delete(batch, until, with_copies=document_id is not None, for_good=True)
        self._writer.run(lambda connection: events.forget_details(connection, []))
        return purge, self._writer.run_alone(maintenance.rewrite)

    def _leftovers(self, connection: Connection, until: float, document_id: int | None) -> list[Leftover]:
        if document_id is None:
            return ledger.leftovers(connection, until, with_copies=True)
        document = documents.by_id(connection, document_id)
        if document is None:
            raise NotFound(f"There is no document {document_id}.", hint="`kbsync documents list` shows them.")
        if document.state == "current":
            raise UsageError(
                f"Document {document_id} is current: files or you still hold it.",
                hint=f"`kbsync documents remove {document_id}` takes it out, `kbsync purge` then overwrites it.",
            )
        return ledger.leftovers(connection, until, with_copies=True, only=[document_id])

    def _delete(self, found: Sequence[Leftover], until: float, *, with_copies: bool, for_good: bool) -> int:
        """Delete those that still are what they were when they were looked for; return how many."""
        now = self._clock.now()
        wanted = [leftover.id for leftover in found]

        def delete(connection: Connection) -> list[Leftover]:
            still = ledger.leftovers(connection, until, with_copies=with_copies, only=wanted)
            ids = [leftover.id for leftover in still]
            if for_good:
                maintenance.delete_for_good(connection)
                events.forget_details(connection, ids)
                ledger.forget_options(connection, ids)
            for document_id in ids:
                documents.delete(connection, document_id)
                events.record(connection, "purged" if for_good else "expired", now, document_id=document_id)
            if for_good:
                maintenance.delete_as_before(connection)
            return still

        deleted = self._writer.run(delete)
        failpoint("retention.deleted")
        for leftover in deleted:
            self._conversions.forget(leftover.content_hash)
            failpoint("retention.conversion_forgotten")
        discard_promised(self._writer, self._readers, self._stored)
        return len(deleted)


def _kept_s(keep_days: float | None) -> float:
    return max((keep_days or 0.0) * DAY_S, _GONE_S)
