"""Makes the index anew beside the one that is searched: every chunk's vector, and documents that older rules made.

What is to be done stands in the database, so that it goes on after any crash: chunks without a vector in the table that
is being made, and the document up to which stale ones were looked for. Search uses the live table until the new one is
whole; then one transaction switches over.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import structlog

from kbsync.clock import Clock
from kbsync.errors import FailFile, KbsyncError, RetryLater, SkipFile, Unready
from kbsync.failpoints import failpoint
from kbsync.knowledge_base import commits
from kbsync.knowledge_base.embedders import Embedders
from kbsync.knowledge_base.processing import Processor
from kbsync.log import ErrorLog
from kbsync.model import Priority, ReindexScope
from kbsync.reasons import Reason
from kbsync.store import chunks, documents, jobs, meta, reindexes, vectors
from kbsync.store.connection import Connection
from kbsync.store.documents import Document
from kbsync.store.reindexes import Missing, VectorTable
from kbsync.store.writer import Readers, Writer

if TYPE_CHECKING:
    from kbsync.model import Vectors

log = structlog.stdlib.get_logger(__name__)

# Chunks that are written together, so that stopping or dying costs few.
_BATCH = 64
# On a CPU a query waits for the batch before it: half of what a batch may hold, about 0.2 s of two cores.
_CPU_TOKENS = 1024
_ACCELERATOR_TOKENS = 32_768
# What the model failed on is tried again after this long.
_RETRY_S = 300.0
# A search that began before the switch has long read the old table by then.
_OLD_TABLE_S = 300.0


@dataclass(frozen=True, slots=True)
class ReindexStatus:
    """How far it is. Times are seconds since 1970; `left_s` is a guess, None where there is nothing to guess from.

    `waiting`: it goes on by itself, `error` says why it does not now. `finished_at`: when the live vectors became live.
    """

    state: Literal["idle", "running", "waiting"]
    model_name: str
    live_model_name: str
    chunks_done: int
    chunks_total: int
    stale_left: int
    begun_at: float | None
    finished_at: float | None
    left_s: float | None
    error: str | None


class Reindexing:
    """Any thread may ask for it and look at it; `step` is for one at a time. `on_live` hears of the switch."""

    def __init__(
        self,
        clock: Clock,
        writer: Writer,
        readers: Readers,
        embedders: Embedders,
        processor: Processor,
        error_log: ErrorLog,
        on_live: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._writer = writer
        self._readers = readers
        self._embedders = embedders
        self._processor = processor
        self._error_log = error_log
        self._on_live = on_live
        self._lock = threading.Lock()
        # Guarded by the lock: what the thread that steps and the threads that ask both use.
        self._error: str | None = None
        self._retry_at = float("-inf")
        self._pace: tuple[float, int] | None = None
        # The stepping thread's own.
        self._after = 0
        self._table_id: int | None = None
        self._failed = 0
        self._old_until: float | None = None

    def begin(self, scope: ReindexScope) -> None:
        """Ask for it; what is under way already goes on. A failure before is tried again at once.

        Raises Unready, nothing begun, where there is no model to make it with.
        """
        configured, now = self._embedders.configured, self._clock.now()
        if self._embedders.missing is not None:
            raise Unready(Reason.MODEL, self._embedders.missing)

        def begin(connection: Connection) -> None:
            if scope != "vectors":
                if scope == "all":
                    documents.mark_stale(connection)
                meta.put(connection, meta.REMAKING, json.dumps({"after": 0}))
            if scope != "stale":
                reindexes.begin(connection, configured.batcher, configured.folder, now)

        self._writer.run(begin)
        with self._lock:
            self._error, self._retry_at = None, float("-inf")

    def begin_where_stale(self) -> bool:
        """Ask for what older rules made, where there is any that was not tried in vain already; return whether.

        What the last try of this kind left exactly as it was, by the same rules, would only cost as much again.
        Raises Unready where there is no model to make it with.
        """

        def stale(connection: Connection) -> list[int]:
            kinds = {made for made in documents.counts_by_fingerprints(connection, 0) if self._processor.is_stale(made)}
            if not kinds or meta.get(connection, meta.REMAKING) is not None:
                return []
            return [document_id for document_id, made in documents.fingerprints_after(connection, 0) if made in kinds]

        found = self._readers.read(stale)
        if not found:
            return False
        tried = hashlib.sha256(json.dumps([self._processor.rules(), found]).encode()).hexdigest()
        if self._readers.read(lambda connection: meta.get(connection, meta.REMADE)) == tried:
            return False
        self.begin("stale")
        self._writer.run(lambda connection: meta.put(connection, meta.REMADE, tried))
        log.info("reindex_begun", count=len(found))
        return True

    def step(self) -> bool:
        """Make one stale document or one batch of vectors anew, or switch over; False where there is nothing to do now.

        Raises RetryLater and StopEngine for the database and for a batcher that stops.
        """
        now = self._clock.monotonic()
        if self._old_until is not None and now >= self._old_until:
            self._writer.run(reindexes.drop_replaced)
            self._old_until = None
        with self._lock:
            if now < self._retry_at:
                return False
        remaking, table = self._readers.read(
            lambda connection: (
                meta.get(connection, meta.REMAKING),
                reindexes.building(connection) or self._gaps(connection),
            )
        )
        if remaking is None and table is None:
            return False
        if (problem := self._embedders.problem()) is not None:
            self._wait(problem)
            return False
        if remaking is not None:
            return self._remake_next(int(json.loads(remaking)["after"]))
        return table is not None and self._embed_next(table)

    def fill_gaps(self) -> None:
        """Fill the gaps that a repair left among the live vectors, as far as the model can be used. Blocks.

        For a process without the loop that steps. What is left the next daemon fills.
        """
        with self._lock:
            self._retry_at = float("-inf")
        while (table := self._readers.read(self._gaps)) is not None and self._embedders.problem() is None:
            if not self._embed_next(table):
                return

    def _gaps(self, connection: Connection) -> VectorTable | None:
        """Return the live table where a repair left gaps in it, and it is the configured model's."""
        table = reindexes.gaps(connection)
        is_ours = table is not None and table.fingerprint == self._embedders.configured.batcher.fingerprint
        return table if is_ours else None

    def status(self) -> ReindexStatus:
        """Return how far it is."""

        def read(connection: Connection) -> tuple[VectorTable | None, VectorTable | None, tuple[int, int], int | None]:
            live, building = reindexes.live(connection), reindexes.building(connection)
            total = chunks.count(connection)
            building = building or self._gaps(connection)
            progress = (total, total) if building is None else (reindexes.filled(connection, building.id), total)
            remaking = meta.get(connection, meta.REMAKING)
            left = None
            if remaking is not None:
                after = int(json.loads(remaking)["after"])
                counts = documents.counts_by_fingerprints(connection, after)
                left = sum(count for made, count in counts.items() if self._processor.is_stale(made))
                left += jobs.low_due(connection, self._clock.now())
            return live, building, progress, left

        live, building, (done, total), stale_left = self._readers.read(read)
        with self._lock:
            error, pace = self._error, self._pace
        busy = building is not None or stale_left is not None
        left_s = None
        if building is not None and pace is not None and done > pace[1]:
            left_s = (self._clock.monotonic() - pace[0]) / (done - pace[1]) * (total - done)
        return ReindexStatus(
            state="idle" if not busy else "waiting" if error else "running",
            model_name=self._embedders.configured.batcher.model_name,
            live_model_name="" if live is None else live.model_name,
            chunks_done=done,
            chunks_total=total,
            stale_left=stale_left or 0,
            begun_at=None if building is None else building.created_at,
            finished_at=None if live is None else live.live_at,
            left_s=left_s,
            error=error if busy else None,
        )

    # ---- vectors ----

    def _embed_next(self, table: VectorTable) -> bool:
        if table.id != self._table_id:
            self._table_id, self._after, self._failed = table.id, 0, 0
            done = self._readers.read(lambda connection: reindexes.filled(connection, table.id))
            with self._lock:
                self._pace = (self._clock.monotonic(), done)
        batch = self._readers.read(lambda connection: reindexes.missing(connection, table.id, self._after, _BATCH))
        if not batch:
            return self._end_of_pass(table)
        try:
            done_chunks, rows = self._embedded(table.id, batch)
            failpoint("reindexing.embedded")
        except Unready as error:  # the model itself, not a text
            self._wait(str(error))
            return False
        if done_chunks:
            self._writer.run(lambda connection: reindexes.fill(connection, table.id, done_chunks, rows))
        elif len(batch) > 1 and self._failed:  # hardly the fault of these texts: all others would fail too
            return self._end_of_pass(table)
        self._after = batch[-1].chunk_id
        return True

    def _end_of_pass(self, table: VectorTable) -> bool:
        """Switch over where nothing is missing; else look at all chunks once more, now or after a while."""
        failed, self._after, self._failed = self._failed, 0, 0
        if failed:
            self._wait(
                f"{table.model_name} failed on {failed} of the chunks (the log tells more); search uses those before."
            )
            return False
        if self._readers.read(reindexes.building) is None:
            self._writer.run(reindexes.end_filling)
        elif self._writer.run(lambda connection: reindexes.finish(connection, self._clock.now())):
            failpoint("reindexing.switched")
            self._on_live()
            self._old_until = self._clock.monotonic() + _OLD_TABLE_S
            log.info("reindexed", model=table.model_name)
        return True

    def _embedded(self, table_id: int, batch: Sequence[Missing]) -> tuple[list[Missing], Vectors]:
        """Return the chunks that could be embedded, and their vectors. Raises Unready for a model that is no use."""
        import numpy as np

        texts = {chunk.enriched_text: chunk.tokens for chunk in batch}
        found = self._readers.read(lambda connection: vectors.known(connection, table_id, texts))
        missing = sorted((text for text in texts if text not in found), key=texts.__getitem__)
        for part in _parts(missing, texts, self._tokens_at_once()):
            found.update(self._vectors_of(part))
        done = [chunk for chunk in batch if chunk.enriched_text in found]
        return done, np.stack([found[chunk.enriched_text] for chunk in done]) if done else np.zeros((0, 0), np.float32)

    def _vectors_of(self, texts: Sequence[str]) -> dict[str, Vectors]:
        batcher = self._embedders.configured.batcher
        try:
            return dict(zip(texts, batcher.embed(texts, Priority.LOW), strict=True))
        except FailFile as error:
            if len(texts) > 1:
                return {text: row for one in texts for text, row in self._vectors_of([one]).items()}
            self._failed += 1
            log.error("reindex_text_failed", error=str(error), characters=len(texts[0]))
            return {}

    def _tokens_at_once(self) -> int:
        names = self._embedders.configured.batcher.device_names
        return _ACCELERATOR_TOKENS if names and "cpu" not in names else _CPU_TOKENS

    def _wait(self, error: str) -> None:
        log.error("reindex_waits", error=error)
        with self._lock:
            self._error, self._retry_at = error, self._clock.monotonic() + _RETRY_S

    # ---- documents ----

    def _remake_next(self, after: int) -> bool:
        """Find the next stale document and make it anew: from the stored copy, else by a job for its path.

        False where only jobs are left: the workers do these, and ring when they are done.
        """

        def next_stale(connection: Connection) -> Document | None:
            made = documents.fingerprints_after(connection, after)
            document_id = next((row for row, fingerprints in made if self._processor.is_stale(fingerprints)), None)
            return None if document_id is None else documents.by_id(connection, document_id)

        document = self._readers.read(next_stale)
        if document is None:
            if self._readers.read(lambda connection: jobs.low_due(connection, self._clock.now())):
                return False
            self._writer.run(lambda connection: meta.remove(connection, meta.REMAKING))
            return True
        if document.stored_path is not None:
            self._remake(document)
            failpoint("reindexing.remade")
        now = self._clock.now()

        def went_by(connection: Connection) -> None:
            if document.stored_path is None:
                commits.look_again(connection, document.id, now)
            meta.put(connection, meta.REMAKING, json.dumps({"after": document.id}))

        self._writer.run(went_by)
        return True

    def _remake(self, document: Document) -> None:
        try:
            self._processor.remake(document)
        except RetryLater:
            raise
        except (SkipFile, FailFile, KbsyncError) as error:
            # What is indexed of it stays, though older rules made it.
            where = document.stored_path or f"document {document.id}"
            self._error_log.record(where, str(error), self._clock.now())
            log.warning("remake_failed", document_id=document.id, error=str(error))


def _parts(texts: Sequence[str], tokens: dict[str, int], budget: int) -> list[list[str]]:
    """Return texts, sorted by length, in parts of at most `budget` tokens, or of one text."""
    parts: list[list[str]] = []
    room = 0
    for text in texts:
        if not parts or tokens[text] > room:
            parts.append([])
            room = budget
        parts[-1].append(text)
        room -= tokens[text]
    return parts
