"""The door to a knowledge base: search it, look at what is in it, take things out, check it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kbsync.clock import Clock
from kbsync.errors import IndexDamaged, NotFound
from kbsync.failpoints import failpoint
from kbsync.knowledge_base import explain, rebuilt
from kbsync.knowledge_base.adding import Adding
from kbsync.knowledge_base.checkup import Checkup
from kbsync.knowledge_base.compaction import Compaction
from kbsync.knowledge_base.damage import Problem
from kbsync.knowledge_base.discarding import discard_promised
from kbsync.knowledge_base.retention import Retention
from kbsync.knowledge_base.statistics import statistics
from kbsync.model import Filter, SearchMode, SearchResult
from kbsync.queue import job_queue
from kbsync.reasons import FileState, Reason
from kbsync.search.filters import unmatched
from kbsync.search.hybrid import Search
from kbsync.search.query import parse
from kbsync.store import (
    chunks,
    documents,
    events,
    files,
    jobs,
    ledger,
    maintenance,
    meta,
    origins,
    sources,
    waiting_jobs,
)
from kbsync.store.chunks import StoredChunk
from kbsync.store.connection import Connection
from kbsync.store.documents import Document
from kbsync.store.jobs import JobRow
from kbsync.store.stored_files import StoredFiles
from kbsync.store.writer import JobListener, Readers, Writer


@dataclass(frozen=True, slots=True)
class Unmet:
    """Why a query found nothing: it has `no_words`, or nothing meets `filters`; and what sources and languages are."""

    no_words: bool
    filters: tuple[Filter, ...]
    sources: tuple[str, ...]
    languages: tuple[str, ...]


class KnowledgeBase:
    """Everything a program asks of a knowledge base that is open. Any thread may ask."""

    def __init__(
        self,
        clock: Clock,
        writer: Writer,
        readers: Readers,
        search: Search,
        adding: Adding,
        stored: StoredFiles,
        retention: Retention,
        checkup: Checkup,
        compaction: Compaction,
    ) -> None:
        self._clock = clock
        self._writer = writer
        self._readers = readers
        self._search = search
        self._stored = stored
        self.adding = adding
        self.retention = retention
        self.checkup = checkup
        self.compaction = compaction

    def use_search(self, search: Search) -> None:
        """Answer from other vectors from now on; what is being searched at this moment ends as it began."""
        self._search = search

    def search(
        self,
        query: str,
        mode: SearchMode = "hybrid",
        limit: int = 10,
        offset: int = 0,
        filters: Sequence[Filter] = (),
        *,
        every_version: bool = False,
    ) -> SearchResult:
        """Find documents by their words and by meaning, of those that meet every filter."""
        return self._search.search(query, mode, limit, offset, filters, every_version=every_version)

    def unmet(self, query: str, filters: Sequence[Filter] = (), *, every_version: bool = False) -> Unmet:
        """Return why a query may have found nothing: no words, or filters that nothing meets."""
        parsed = parse(query)

        def read(connection: Connection) -> Unmet:
            asked = (*parsed.filters, *filters)
            return Unmet(
                parsed.match is None and not asked,
                tuple(unmatched(connection, asked, every_version=every_version)),
                tuple(row.path for row in sources.listed(connection)),
                tuple(documents.languages(connection)),
            )

        try:
            return self._readers.read(read)
        except IndexDamaged:
            return Unmet(False, (), (), ())  # that is why

    def documents(
        self, *, state: str | None = "current", document_type: str | None = None, limit: int = 100, offset: int = 0
    ) -> tuple[list[tuple[Document, list[str]]], int]:
        """Return (documents with their live paths, newest first; how many there are in all)."""

        def listed(connection: Connection) -> tuple[list[tuple[Document, list[str]]], int]:
            found, total = documents.listed(
                connection, state=state, document_type=document_type, limit=limit, offset=offset
            )
            return [(document, origins.live_paths(connection, document.id)) for document in found], total

        return self._readers.read(listed)

    def document(self, document_id: int) -> tuple[Document, list[str], list[StoredChunk]]:
        """Return a document with its live paths and chunks. Raises NotFound."""

        def read(connection: Connection) -> tuple[Document, list[str], list[StoredChunk]]:
            document = documents.by_id(connection, document_id)
            if document is None:
                raise _no_document(document_id)
            return document, origins.live_paths(connection, document_id), chunks.of_document(connection, document_id)

        return self._readers.read(read)

    def remove_document(self, document_id: int) -> Document:
        """Take a document out of the index, its stored copy too; no file of a source is touched. Raises NotFound.

        Its paths in watched folders are left out from now on, until they are added by hand.
        """
        now = self._clock.now()

        def remove(connection: Connection) -> Document:
            document = documents.by_id(connection, document_id)
            if document is None:
                raise _no_document(document_id)
            left_out: dict[str, int] = {}
            for path in origins.live_source_paths(connection, document_id):
                row = files.by_path(connection, path)
                known = None if row is None else files.known(connection, row.source_id, row.path)
                if row is not None and known is not None:
                    files.account(
                        connection,
                        row.source_id,
                        row.path,
                        known.stat,
                        FileState.SKIPPED,
                        Reason.REMOVED_BY_YOU,
                        known.rules,
                        now,
                    )
                    files.set_removed(connection, row.source_id, row.path, document.content_hash)
                    left_out[path] = row.source_id
                    live = jobs.live_of_path(connection, row.source_id, row.path)
                    if live is not None:  # its file changed a moment ago: that version is not wanted either
                        jobs.end(connection, live[0], "skipped", now, reason=Reason.REMOVED_BY_YOU)
            places: list[str | None] = [*origins.live_paths(connection, document_id)]
            documents.delete(connection, document_id)
            failpoint("removal.deleted")
            for place in places or [None]:
                events.record(
                    connection,
                    "removed",
                    now,
                    source_id=left_out.get(place or ""),  # by which a ledger that lost it is put right
                    path=place,
                    document_id=document_id,
                    detail=document.title,
                )
            return document

        document = self._writer.run(remove)
        failpoint("removal.committed")
        discard_promised(self._writer, self._readers, self._stored)
        return document

    def sources(self) -> tuple[list[sources.SourceRow], dict[int, dict[str, int]]]:
        """Return the folders known to the database and, for each, how many paths are in each state."""
        return self._readers.read(lambda connection: (sources.listed(connection), files.counts(connection)))

    def jobs(self, *, state: str | None = None, limit: int = 100) -> tuple[list[JobRow], int]:
        """Return (newest jobs, how many there are in all)."""
        return self._readers.read(lambda connection: jobs.listed(connection, state, limit))

    def jobs_by_id(self, job_ids: list[int]) -> list[JobRow]:
        """Return the jobs that exist among the ids."""
        return self._readers.read(lambda connection: jobs.by_ids(connection, job_ids))

    def retry_job(self, job_id: int) -> JobRow:
        """Have a failed job run again; return the job that does. Raises NotFound and UsageError."""
        now = self._clock.now()
        again = self._writer.run(lambda connection: job_queue.retry_by_hand(connection, job_id, now))
        return self.jobs_by_id([again])[0]

    def listen_to_jobs(self, listener: JobListener) -> Callable[[], None]:
        """Have `listener` hear the ids of jobs that changed, after each commit; return how to end that.

        It is called in the writer's thread: it must be quick, and never raise.
        """
        return self._writer.listen(listener)

    def retry_failed(self) -> tuple[list[JobRow], int]:
        """Have every file of a source that could not be read be read again; return (jobs, how many had no file).

        What was added by hand and failed has none: its copy is gone.
        """
        now = self._clock.now()
        queued, by_hand = self._writer.run(lambda connection: job_queue.retry_all_failed(connection, now))
        return self.jobs_by_id(queued), by_hand

    def history(self, path: str | None, limit: int) -> tuple[list[events.Event], int]:
        """Return (newest events, how many there are in all) of a path and what is below it; None: of everything."""
        places = None if path is None else spellings(path)
        return self._readers.read(lambda connection: events.listed(connection, places, limit))

    def failures(self) -> tuple[list[ledger.Failures], dict[int, str]]:
        """Return (files that failed, by source and reason; the path of each source)."""

        def read(connection: Connection) -> tuple[list[ledger.Failures], dict[int, str]]:
            return ledger.failures(connection), {row.id: row.path for row in sources.listed(connection)}

        return self._readers.read(read)

    def size_bytes(self) -> int:
        """Return the size of the database in bytes, without its write-ahead log."""
        return self._readers.read(maintenance.size_bytes)

    def waiting_for_room(self) -> int:
        """Return how many jobs wait for room on our own disk, those left out that are tried again by now."""
        now = self._clock.now()
        return self._readers.read(lambda connection: waiting_jobs.waiting_for(connection, Reason.NO_SPACE, now))

    def unsettled(self) -> int:
        """Return how many jobs are queued or processing, those of paused sources left out."""
        return self._readers.read(jobs.unsettled)

    def progress(self) -> tuple[int, int]:
        """Return (how many paths of all sources are dealt with, how many wait)."""

        def read(connection: Connection) -> tuple[int, int]:
            counts = files.counts(connection).values()
            done = sum(count.get(state, 0) for count in counts for state in ("indexed", "skipped", "failed"))
            return done, sum(count.get("waiting", 0) for count in counts)

        return self._readers.read(read)

    def why(self, path: str, keep_days: float | None = None) -> explain.Explanation:
        """Say why a path is in its state. Raises NotFound for one that was never seen.

        `keep_days`: for how long what is gone is kept, to be told; None: for ever.
        """
        return self._readers.read(lambda connection: explain.why(connection, path, keep_days))

    def held_up(self, path: str) -> str | None:
        """Say that the source of a path is not followed as it should be; None where it is."""
        return self._readers.read(lambda connection: explain.held_up(connection, path))

    def check(self) -> list[Problem]:
        """Check that all is whole, kbsync's own files too; everything goes on meanwhile. Raises RetryLater."""
        return self.checkup.check()

    def repair(self) -> list[Problem]:
        """Mend what is not whole; return what was wrong, and what became of it. Raises RetryLater."""
        return self.checkup.repair()

    def statistics(self) -> dict[str, object]:
        """Return the parts of `status` that the database knows: `database`, `queue`, `files`, `last_check`."""

        return self._readers.read(statistics)

    def prove_storage(self, *, has_more_room: bool) -> None:
        """Write to our own disk and database; with `has_more_room` have the jobs run that it was too full for.

        Raises StorageUnavailable.
        """
        self._stored.prove_room()
        now = self._clock.now()

        def prove(connection: Connection) -> None:
            meta.put(connection, meta.LAST_OUTAGE, str(now))
            if has_more_room:
                job_queue.storage_is_back(connection, now)

        self._writer.run(prove)

    def set_aside(self, data_dir: str) -> str | None:
        """Say that the database was damaged and built anew, as long as the damaged file is kept; None else."""
        return rebuilt.notice(self._readers.read(rebuilt.read), data_dir)

    def unread(self) -> rebuilt.Unread:
        """Return what is still to be read, after a rebuild or for a repair."""
        return self._readers.read(rebuilt.unread)

    def prune(self) -> None:
        """Forget ended jobs and events that are old or too many, and what a rebuild or a repair needed until now."""
        now = self._clock.now()
        self._writer.run(lambda connection: maintenance.prune(connection, now))
        if self._readers.read(lambda connection: rebuilt.is_settling(connection) or rebuilt.keeps_vectors(connection)):
            self._writer.run(lambda connection: rebuilt.end_settling(connection, now))


def spellings(path: str) -> list[str]:
    """Return a path as it was typed and in both forms of Unicode: file systems differ in which one they keep."""
    return list(dict.fromkeys((path, *(unicodedata.normalize(form, path) for form in ("NFC", "NFD")))))


def _no_document(document_id: int) -> NotFound:
    return NotFound(f"There is no document {document_id}.", hint="`kbsync documents list` shows them.")
