"""What follows when known files are not found: moves are followed, the rest is hidden, or held by the brake."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from kbsync.clock import Clock
from kbsync.failpoints import failpoint
from kbsync.filesystem import FileSystem, as_text
from kbsync.knowledge_base import commits, moving
from kbsync.knowledge_base.configured import ConfiguredSources
from kbsync.model import Priority, Source
from kbsync.sources import guard
from kbsync.sources.absence import Absences, has_left
from kbsync.sources.guard import Absent, Conclusion
from kbsync.sources.moves import IndexedFile, Move, WaitingFile, recognise
from kbsync.store import events, files, jobs, origins, sources
from kbsync.store.connection import Connection
from kbsync.store.sources import SourceRow
from kbsync.store.writer import Readers, Writer

# Paths written in one transaction: few enough that a fresh file's own commit is not kept waiting.
BATCH = 500


@dataclass(frozen=True, slots=True)
class Look:
    """What a whole look at a source came to. `begun` is monotonic; `young_sizes`: of new files that settle yet.

    `is_changing`: any file settles yet, new or known. `left_out`: missing for a rule or a setting, their folder is
    there; `missing`: all others that may be concluded about. `is_empty` and `is_sure` as in `guard.Absent`.
    """

    begun: float
    missing: tuple[str, ...]
    left_out: tuple[str, ...]
    young_sizes: frozenset[int]
    is_changing: bool
    is_empty: bool
    is_sure: bool


@dataclass(frozen=True, slots=True)
class Followed:
    """What was written: how many paths were hidden or moved, and jobs queued.

    `gone_lately`: as in `guard.is_too_much`; `again`: a second look is wanted soon.
    """

    conclusion: Conclusion
    gone_lately: int
    hidden: int
    queued: int
    again: bool


class Disappearances:
    """Concludes from what walks do not find. One thread at a time."""

    def __init__(
        self,
        fs: FileSystem,
        clock: Clock,
        writer: Writer,
        readers: Readers,
        configured: ConfiguredSources,
        own: frozenset[tuple[int, int]],
        longest_wait_s: float,
    ) -> None:
        self._fs = fs
        self._clock = clock
        self._writer = writer
        self._readers = readers
        self._configured = configured
        self._own = own
        self._longest_wait_s = longest_wait_s
        self._absences: dict[int, Absences] = {}

    def forget(self, source_id: int) -> None:
        """A source was taken out of the configuration."""
        self._absences.pop(source_id, None)

    def follow(self, source: Source, row: SourceRow, look: Look, most_share: float) -> Followed:
        """Follow moves, hide what is gone and count what is held; the state is the caller's to write."""
        absences = self._absences.setdefault(source.id, Absences())
        missing = absences.after_look(look.missing, look.begun, self._clock.monotonic())
        moved, waiting = self._recognised(source, missing.due, look.young_sizes, absences)
        many_while_others_change = look.is_changing and len(missing.due) > guard.FEW
        if row.held is None and (missing.early or look.young_sizes or many_while_others_change):
            # Files still go, or come: a checkout of branches removes many before it makes the first one anew.
            waiting = [path for path in missing.due if path not in moved and self._is_awaited(absences, path)]
        aside = {*moved, *waiting}
        absent = self._counted(
            source,
            row,
            Absent(
                tuple(path for path in missing.due if path not in aside),
                missing.early,
                waits=bool(waiting),
                is_empty=look.is_empty,
                is_sure=look.is_sure,
            ),
        )
        now = self._clock.now()
        conclusion = guard.conclude(absent, row.held, row.confirmed, most_share, now)
        hidden, queued = 0, 0
        going = (*look.left_out, *conclusion.hide)
        for start in range(0, len(going), BATCH):
            # Looked at once more right before the write: a sweep of very many takes long enough for files to be back.
            batch = going[start : start + BATCH]
            paths = [path for path in batch if has_left(self._fs, source, self._own, path)]
            hidden += len(paths)
            queued += self._hide(source, paths)
            failpoint("walk.batch_hidden")
            absences.forget(paths)
        absences.forget(moved)
        again = bool(missing.early or waiting)
        return Followed(conclusion, absent.gone_lately, hidden + len(moved), queued, again)

    def moved(self, moves: Sequence[Move]) -> list[Move]:
        """Write moves; return those that were still as they had been seen."""
        if not moves:
            return []
        now = self._clock.now()

        def write(connection: Connection) -> list[Move]:
            there = {move.source_id for move in moves if sources.exists(connection, move.source_id)}
            return [move for move in moves if move.source_id in there and moving.follow(connection, move, now)]

        return self._writer.run(write)

    def has_left(self, file: IndexedFile, paused: Collection[int]) -> bool:
        """Look whether an indexed file of any source is gone; no, where it cannot be looked at."""
        source = self._configured.by_id(file.source_id)
        if source is None or source.mode != "mirror" or source.id in paused:
            return False
        return has_left(self._fs, source, self._own, file.path)

    def _recognised(
        self, source: Source, due: Sequence[str], young_sizes: Collection[int], absences: Absences
    ) -> tuple[list[str], list[str]]:
        """Follow files that lie elsewhere now; return (their old paths, those that may be what is not read yet)."""
        if not due or (not young_sizes and not self._readers.read(files.any_waiting)):
            return [], []
        missing, waiting = self._readers.read(lambda connection: _candidates(connection, source.id, due))
        readable = [file for file in waiting if self._is_mirror(file.source_id)]
        found = recognise(self._fs, missing, readable)
        moved = [move.old.path for move in self.moved([move for move in found.moves if self._is_gone(source, move)])]
        sizes = found.unread_sizes.union(young_sizes)
        expected = [
            old.path
            for old in missing
            if old.path not in moved and old.stat.size in sizes and self._is_awaited(absences, old.path)
        ]
        unread = [(file.source_id, file.path) for file in readable if file.stat.size in found.unread_sizes]
        if expected and unread:
            self._writer.run(lambda connection: jobs.hasten(connection, unread, Priority.EVENT, self._clock.now()))
        return moved, expected

    def _is_awaited(self, absences: Absences, path: str) -> bool:
        """Return whether a path is not absent for so long that nothing is waited for any more."""
        now = self._clock.monotonic()
        return now - absences.since(path, now) < self._longest_wait_s

    def _is_mirror(self, source_id: int) -> bool:
        source = self._configured.by_id(source_id)
        return source is not None and source.mode == "mirror"

    def _is_gone(self, source: Source, move: Move) -> bool:
        return has_left(self._fs, source, self._own, move.old.path)

    def _counted(self, source: Source, row: SourceRow, absent: Absent) -> Absent:
        """Fill in how much would be lost, where it matters: the brake asks for no few files."""
        missing = (*absent.due, *absent.early)
        now = self._clock.now()
        since = now - guard.TOGETHER_S
        if row.counted_from <= now:  # else it was written while the clock was ahead
            since = max(row.counted_from, since)

        def count(connection: Connection) -> Absent:
            gone_lately = files.lost_since(connection, source.id, since, now)
            if not missing or not (absent.is_empty or len(missing) + gone_lately > guard.FEW):
                return absent
            return replace(
                absent,
                lost=origins.lost_without(connection, absent.due),
                lost_early=origins.lost_without(connection, missing),
                known=origins.count_of_source(connection, source.id),
                gone_lately=gone_lately,
            )

        return self._readers.read(count) if missing else absent

    def _hide(self, source: Source, paths: list[str]) -> int:
        """Hide what paths held that are gone; what they held stays current where another path holds it too."""
        now = self._clock.now()

        def hide(connection: Connection) -> int:
            if not sources.exists(connection, source.id):
                return 0  # taken out of the configuration while it was walked
            files.mark_gone(connection, source.id, paths, now)
            failpoint("walk.marked_gone")
            queued = 0
            for path in paths:
                document_id = origins.end_path(connection, path, "missing", now)
                elsewhere = None if document_id is None else self._arrived_at(connection, document_id, now)
                kind = "gone" if elsewhere is None else "moved"
                events.record(
                    connection,
                    kind,
                    now,
                    source_id=source.id,
                    path=path,
                    document_id=document_id,
                    detail=None if elsewhere is None else as_text(elsewhere),
                )
                if document_id is not None:
                    queued += commits.follow_first_path(connection, document_id, now)
            return queued

        return self._writer.run(hide) if paths else 0

    def _arrived_at(self, connection: Connection, document_id: int, now: float) -> str | None:
        """Return the path that holds a document since a moment: events told of the new name before the old one went."""
        begun = now - self._longest_wait_s
        held = origins.live_of(connection, [document_id])
        return next((one.path for one in reversed(held) if one.kind == "path" and one.since >= begun), None)


def _candidates(
    connection: Connection, source_id: int, due: Sequence[str]
) -> tuple[list[IndexedFile], list[WaitingFile]]:
    missing = [IndexedFile(*row) for row in files.indexed_at(connection, source_id, due)]
    sizes = {file.stat.size for file in missing}
    return missing, [WaitingFile(*row) for row in files.waiting_of_size(connection, sizes)]
