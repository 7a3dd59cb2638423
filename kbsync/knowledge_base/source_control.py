"""What a person says about a folder: pause it, go on with it, yes, its files are gone on purpose."""

from __future__ import annotations

import os
from collections.abc import Callable

from kbsync.clock import Clock
from kbsync.errors import NotFound, UsageError
from kbsync.failpoints import failpoint
from kbsync.filesystem import as_text
from kbsync.store import events, origins, sources
from kbsync.store.connection import Connection
from kbsync.store.sources import SourceRow
from kbsync.store.writer import Readers, Writer


class SourceControl:
    """Writes a person's word about a source down, where restarts find it. Any thread may ask.

    Paused by a person, a folder is not looked at and none of its files is read; its jobs stay queued, what it held
    stays searchable.
    """

    def __init__(self, clock: Clock, writer: Writer, readers: Readers) -> None:
        self._clock = clock
        self._writer = writer
        self._readers = readers
        self._told: Callable[[int], None] = lambda source_id: None

    def tell(self, told: Callable[[int], None]) -> None:
        """Have `told` hear the id of each source that is to be walked now. Without it the next walk follows."""
        self._told = told

    def pause(self, path: str) -> SourceRow:
        """Pause a source until `resume`; one that is paused stays so. Raises NotFound."""
        row, now = self._row(path), self._clock.now()
        if row.paused_at is not None:
            return row

        def pause(connection: Connection) -> None:
            sources.pause(connection, row.id, now)
            events.record(connection, "paused", now, source_id=row.id, path=row.path, detail=sources.BY_YOU)

        self._writer.run(pause)
        return self._row(row.path)

    def resume(self, path: str) -> SourceRow:
        """Go on with a source that a person paused: it is walked at once. Raises NotFound and UsageError."""
        row, now = self._row(path), self._clock.now()
        if row.paused_at is None:
            why = f" It is paused by itself: {row.detail}" if row.state == "paused" and row.detail else ""
            raise UsageError(f"{as_text(row.path)} is not paused by you.{why}", hint=_next_step(row))

        def resume(connection: Connection) -> None:
            sources.resume(connection, row.id, now)
            events.record(connection, "resumed", now, source_id=row.id, path=row.path)

        self._writer.run(resume)
        self._told(row.id)
        return self._row(row.path)

    def confirm(self, path: str) -> SourceRow:
        """Say that what a source misses is gone on purpose: the walk that follows hides it.

        That ends what the brake holds, takes an emptied folder as empty, another folder in its place as the one to
        follow, and a disk below it as taken away. Raises NotFound, and UsageError where nothing waits for it.
        """
        row, now = self._row(path), self._clock.now()
        detached = row.state == "watching" and row.reason == "detached"
        another = row.state == "paused" and row.reason in ("empty", "replaced")
        if row.state != "held" and not another and not detached:
            raise UsageError(f"Nothing of {as_text(row.path)} waits for your word.", hint=_next_step(row))

        def confirm(connection: Connection) -> None:
            missing = origins.count_of_source(connection, row.id)
            if row.state == "held" and row.held is not None:
                missing = row.held.missing
            if another or detached:
                sources.set_identity(connection, row.id, None)
            sources.confirm(connection, row.id, missing)
            failpoint("source_control.confirmed")
            events.record(
                connection, "confirmed", now, source_id=row.id, path=row.path, detail=_confirmed(row, missing)
            )

        self._writer.run(confirm)
        self._told(row.id)
        return self._row(row.path)

    def _row(self, path: str) -> SourceRow:
        rows = {row.path: row for row in self._readers.read(sources.listed)}
        row = rows.get(path) or rows.get(os.path.realpath(path))
        if row is None:
            raise NotFound(f"{as_text(path)} is not a source.", hint="`kbsync sources list` shows them.")
        return row


def _confirmed(row: SourceRow, missing: int) -> str:
    """Return what a person said yes to: it is history, so without a next step."""
    if row.state == "held":
        return f"{missing} missing files are gone on purpose"
    if row.reason == "detached":
        return "a disk below it is taken away on purpose"
    return "another folder is in its place on purpose" if row.reason == "replaced" else "it is empty on purpose"


def _next_step(row: SourceRow) -> str:
    if row.paused_at is not None:
        return "`kbsync sources resume` goes on with it."
    if row.state == "paused" and row.reason in ("empty", "replaced"):
        return "`kbsync sources confirm` takes it as it is now."
    if row.state == "held":
        return "`kbsync sources confirm` hides what is missing."
    if row.state == "paused":
        return "It goes on by itself when it is back; `kbsync sources remove` takes it out."
    return "`kbsync sources list` shows how each one is doing."
