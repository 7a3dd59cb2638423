"""The configured sources and their rows: config.toml says which there are, the database how they do."""

from __future__ import annotations

import threading

from kbsync.clock import Clock
from kbsync.config.settings import Settings
from kbsync.failpoints import failpoint
from kbsync.knowledge_base import commits
from kbsync.model import Source
from kbsync.sources.ignore import rules_for
from kbsync.store import events, files, jobs, origins, sources
from kbsync.store.connection import Connection
from kbsync.store.writer import Readers, Writer


class ConfiguredSources:
    """The current set. `follow` swaps it whole; every other method may be called from any thread."""

    def __init__(self, writer: Writer, readers: Readers, clock: Clock) -> None:
        self._writer = writer
        self._readers = readers
        self._clock = clock
        self._lock = threading.Lock()
        self._current: dict[int, Source] = {}

    def follow(self, settings: Settings, *, forget: bool = True) -> tuple[list[Source], list[Source]]:
        """Make the set what the settings say and return (new or changed, gone or changed) sources.

        What came from a folder that is configured no more is hidden from search and kept, and its paths are forgotten;
        without `forget` (there is no configuration to say so) everything stays as it is.
        Raises ConfigurationError, nothing changed, for a pattern that cannot be used.
        """
        for entry in settings.sources:
            rules_for(Source(0, entry.path, include=entry.include, ignore=entry.ignore))
        with self._lock:
            wanted = {}
            rows = {row.path: row.id for row in self._readers.read(sources.listed)}
            for entry in settings.sources:
                if entry.mode == "project":
                    continue  # files that know no index
                source_id = rows.pop(entry.path, None)
                if source_id is None:
                    source_id = self._insert(entry.path)
                wanted[source_id] = Source(
                    source_id,
                    entry.path,
                    entry.mode,
                    entry.recursive,
                    entry.include,
                    entry.ignore,
                    entry.ocr,
                    entry.password_file,
                    entry.watch,
                )
            for path, source_id in rows.items() if forget else ():
                self._forget(source_id, path)
            before, self._current = self._current, wanted
        begun = [source for source in wanted.values() if before.get(source.id) != source]
        ended = [source for source in before.values() if wanted.get(source.id) != source]
        return begun, ended

    def all(self) -> list[Source]:
        """Return the sources, by path."""
        return sorted(self._current.values(), key=lambda source: source.path)

    def by_id(self, source_id: int) -> Source | None:
        """Return a source, None where it is not configured (any more)."""
        return self._current.get(source_id)

    def _insert(self, path: str) -> int:
        now = self._clock.now()

        def insert(connection: Connection) -> int:
            source_id = sources.ensure(connection, path, now)
            events.record(connection, "source_added", now, source_id=source_id, path=path)
            return source_id

        source_id = self._writer.run(insert)
        failpoint("configured.source_inserted")
        return source_id

    def _forget(self, source_id: int, path: str) -> None:
        now = self._clock.now()

        def forget(connection: Connection) -> None:
            left = origins.end_source(connection, source_id, now)
            failpoint("configured.origins_ended")
            jobs.delete_of_source(connection, source_id)
            if files.delete_of_source(connection, source_id):
                sources.take_out(connection, source_id)
            else:
                sources.delete(connection, source_id)
            for document_id in left:  # some are in another source too
                commits.follow_first_path(connection, document_id, now)
            events.record(connection, "source_removed", now, path=path)

        self._writer.run(forget)
        failpoint("configured.source_forgotten")
