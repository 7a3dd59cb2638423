"""A damaged database is set aside, never opened for writing again, and another one is made in its place.

What can be read of the old one and stands nowhere else comes over: notes, what a person set, excluded, paused and sent,
the history, vectors. Everything else is read anew: folders by their walks, stored copies by jobs. Each step can be the
last one before a crash: what is under way is written down beside the database, and the next start goes on with it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import islice
from typing import Any, TypeVar

import structlog

from kbsync.clock import Clock
from kbsync.errors import DatabaseDamaged, RetryLater, StorageUnavailable
from kbsync.failpoints import failpoint
from kbsync.filesystem import FileSystem, sync_folder
from kbsync.ingest import note_hash
from kbsync.knowledge_base import rebuilt
from kbsync.knowledge_base.bringing_over import BringingOver
from kbsync.knowledge_base.rebuilt import Rebuilt
from kbsync.model import IngestOptions
from kbsync.queue import job_queue
from kbsync.reasons import FileState, Reason
from kbsync.store import damage, events, files, maintenance, soundness, sources, vectors
from kbsync.store.connection import Connection
from kbsync.store.damaged_file import DamagedFile
from kbsync.store.salvage import Known, Salvage, Salvager
from kbsync.store.stored_files import StoredFiles
from kbsync.store.writer import Writer

log = structlog.stdlib.get_logger(__name__)

T = TypeVar("T")

_HINT = "Start `kbsync run`, or do it with `kbsync check --repair`: the file is set aside and the index built anew."
# Beside what the old database takes: staged notes, the write-ahead log of the new one.
_SPARE_BYTES = 32 << 20
# Written in one transaction.
_VECTORS, _DOCUMENTS = 1000, 50
# Names of stored copies: the hash of their content and an ending.
_STORED_NAME = re.compile(r"[0-9a-f]{64}(\.\w+)?\Z")


def make_ready(
    database: str,
    stored: StoredFiles,
    fs: FileSystem,
    clock: Clock,
    *,
    may_rebuild: bool,
    ends: Callable[[], bool] = lambda: False,
    tells: Callable[[str], None] = lambda _doing: None,
) -> None:
    """Look at a database that is to be opened; set it aside and make another one where it is damaged.

    For the holder of the data folder's lock. `tells` hears what it is busy with. Raises DatabaseDamaged where that is
    to be done and not `may_rebuild`, StorageUnavailable where there is no room for a second database (nothing is
    touched then), RetryLater where `ends` says meanwhile that the process is to end, and what the look raises.
    """
    under_way = damage.pending(database)
    if under_way is None:
        tells("looking at the database")
        why = _looked_at(database, clock.now(), ends)
        if why is None:
            return
        if not may_rebuild:
            raise DatabaseDamaged(f"The database {database} is damaged: {why}.", hint=_HINT)
        _require_room(database)
        under_way = _decided(database, why, stored, clock.now())
    elif not may_rebuild:
        raise DatabaseDamaged(f"The database {database} is damaged, and being built anew.", hint=_HINT)
    aside = os.path.join(os.path.dirname(database), str(under_way["aside"]))
    log.error("database_damaged", path=database, error=under_way["why"], aside=aside)
    if not under_way.get("is_moved"):
        _set_aside(database, aside)
        under_way = {**under_way, "is_moved": True}
        damage.set_pending(database, under_way)
        failpoint("rebuild.moved")
    tells("building the database anew; what can be read of the damaged one comes over")
    if not os.path.exists(database):
        new = database + ".new"
        _remove(new)
        try:
            _build(new, aside, str(under_way["why"]), set(under_way["staged"]), stored, fs, clock, ends)
            failpoint("rebuild.built")
            os.rename(new, database)
            sync_folder(os.path.dirname(database))
        except BaseException:
            _remove(new)
            raise
        failpoint("rebuild.in_place")
    damage.forget(database)
    damage.end_pending(database)
    failpoint("rebuild.ended")


def _looked_at(database: str, now: float, ends: Callable[[], bool]) -> str | None:
    """Return why the database must be set aside, None where it can be worked with; a foreign log goes aside here."""
    verdict = soundness.look(database, now, ends)
    if verdict.foreign_log:
        aside = _free_name(database, now)
        for ending in ("-wal", "-shm"):
            _move(database + ending, aside + ending)
        sync_folder(os.path.dirname(database))
        log.error("foreign_log_set_aside", path=database + "-wal", aside=aside + "-wal")
    if verdict.damaged is None and damage.is_noted(database):
        damage.clear(database, now)
    if verdict.cleared is not None:
        log.warning("database_whole", path=database, why=verdict.cleared)
    return verdict.damaged


def _require_room(database: str) -> None:
    wanted = _SPARE_BYTES + sum(damage.size_of(database + ending) or 0 for ending in damage.COMPANIONS)
    there = os.statvfs(os.path.dirname(database))
    if there.f_bavail * there.f_frsize < wanted:
        raise StorageUnavailable(
            Reason.NO_SPACE,
            f"The database {database} is damaged, and its disk has no room for another one ({wanted >> 20} MB).",
            hint="Free some space: it is then set aside, and the index built anew. Nothing was touched.",
        )


def _decided(database: str, why: str, stored: StoredFiles, now: float) -> Mapping[str, Any]:
    staged, _stored = stored.names()
    under_way = {
        "aside": os.path.basename(_free_name(database, now)),
        "why": why,
        "staged": sorted(staged),
    }
    damage.set_pending(database, under_way)
    failpoint("rebuild.decided")
    return under_way


def _free_name(database: str, now: float) -> str:
    name = f"{database}.damaged-{datetime.fromtimestamp(now, UTC):%Y%m%d-%H%M%S}"
    candidates = (name, *(f"{name}-{number}" for number in range(2, 1000)))
    return next(free for free in candidates if not any(os.path.lexists(free + ending) for ending in damage.COMPANIONS))


def _set_aside(database: str, aside: str) -> None:
    """Rename the database and what belongs to it; what an earlier try has moved already stays where it is."""
    for ending in damage.COMPANIONS:
        if ending == "-shm":
            _discard(database + ending)  # made of the log, and never read again
        else:
            _move(database + ending, aside + ending)
        failpoint("rebuild.moving")
    sync_folder(os.path.dirname(database))


def _move(path: str, to: str) -> None:
    if os.path.lexists(path):
        os.rename(path, to)


def _remove(database: str) -> None:
    for ending in damage.COMPANIONS:
        _discard(database + ending)


def _discard(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # nothing was made yet, or an earlier try has removed it


def _build(
    new: str,
    aside: str,
    why: str,
    staged_before: set[str],
    stored: StoredFiles,
    fs: FileSystem,
    clock: Clock,
    ends: Callable[[], bool],
) -> None:
    """Make a database with what can be salvaged; it is whole, closed and on the disk when this returns."""
    writer = Writer(new, ends)
    writer.open()
    try:
        with DamagedFile(aside) as damaged:
            salvager = Salvager(damaged)
            found = salvager.read(note_hash)
            failpoint("rebuild.read")
            for batch in _batches(salvager.vectors()):
                _go_on_unless(ends)
                writer.run(partial(vectors.keep_salvaged, rows=batch))
                failpoint("rebuild.vectors_kept")
            rebuilding = _Rebuilding(found, stored, fs, staged_before, clock.now())
            writer.run(rebuilding.write_folders)
            bringing = BringingOver(rebuilding.away, clock.now())
            model = salvager.model()
            if model is not None and rebuilding.away:
                for documents in _batches(salvager.whole(model, sorted(rebuilding.away)), _DOCUMENTS):
                    _go_on_unless(ends)
                    writer.run(partial(bringing.write, documents=documents, model=model))
                    failpoint("rebuild.documents_kept")
                writer.run(bringing.place)
        rebuilding.stage()
        failpoint("rebuild.staged")
        told = writer.run(partial(rebuilding.write, aside=os.path.basename(aside), why=why, over=bringing))
        counts = {name: value for name, value in asdict(told).items() if isinstance(value, int)}
        log.error("database_rebuilt", aside=told.aside, error=told.why, counts=counts)
    finally:
        writer.close()


def _go_on_unless(ends: Callable[[], bool]) -> None:
    if ends():
        raise RetryLater(Reason.RETRY, "kbsync is stopping.", hint="The next start begins with it again.")


def _batches(rows: Iterator[T], size: int = _VECTORS) -> Iterator[list[T]]:
    while batch := list(islice(rows, size)):
        yield batch


class _Rebuilding:
    """Turns what was salvaged into rows and jobs of the new database."""

    def __init__(
        self, found: Salvage, stored: StoredFiles, fs: FileSystem, staged_before: set[str], now: float
    ) -> None:
        self._found = found
        self._stored = stored
        self._fs = fs
        self._now = now
        self._staged_before = staged_before
        staged, self._stored_names = stored.names()
        self._staged_names = staged & staged_before
        # (staged copy, path or name, what was set by hand)
        self._again: list[tuple[str, str, IngestOptions]] = []
        self._notes: list[tuple[str, int, IngestOptions]] = []

    def stage(self) -> None:
        """Make the copies that the jobs read; one whose job is never written goes at the next start."""
        found, stored = self._found, self._stored
        for note in found.notes:
            with stored.staging("note.txt") as (path, file):
                file.write(note.text.encode())
            self._notes.append((path, len(note.text), note.options))
        named = {kept.name: kept for kept in found.kept}
        for name in sorted(self._stored_names):
            kept = named.get(name)
            if kept is None and not _STORED_NAME.fullmatch(name):
                continue
            for place in (kept.places if kept is not None else ()) or (name,):
                self._again.append((stored.stage_again(name), place, kept.options if kept else IngestOptions()))
        waiting = {job.name: job for job in found.waiting}
        for name in sorted(self._staged_names):
            job, path = waiting.get(name), os.path.join(stored.staging_dir, name)
            if job is not None and job.kind == "note":
                self._notes.append((path, os.path.getsize(path), job.options))
            elif job is not None or (not found.knows_jobs and os.stat(path).st_nlink == 1):
                self._again.append((path, job.path if job else name, job.options if job else IngestOptions()))
        stored.sync_staging()

    @cached_property
    def away(self) -> dict[str, Known]:
        """Documents that neither a stored copy nor a file at one of their paths holds now, by content hash."""
        there = {name.partition(".")[0] for name in self._stored_names}
        return {
            content_hash: known
            for content_hash, known in self._found.documents.items()
            if content_hash not in there and not (known.is_current and any(map(self._is_there, known.paths)))
        }

    def write_folders(self, connection: Connection) -> None:
        """Write the sources, what of them is left out, and after which ids new rows begin."""
        maintenance.number_after(connection, self._found.highest)
        self._write_sources(connection)

    def write(self, connection: Connection, aside: str, why: str, over: BringingOver) -> Rebuilt:
        """Write history and jobs, and return what came of it. In one transaction."""
        found, now = self._found, self._now
        self._write_history(connection)
        for path, size, options in self._notes:
            job_queue.enqueue_note(connection, path, size, options, now)
        for staged_path, place, options in self._again:
            size = os.path.getsize(staged_path)
            job_queue.enqueue_staged(connection, place, staged_path, size, options, now)
        lost = over.lost()
        for gone in lost:
            events.record(connection, "lost", now, path=gone, detail="It had no copy and no file any more.")
        came_of_it = Rebuilt(
            at=now,
            aside=aside,
            why=why,
            notes=len(found.notes),
            damaged_notes=sum(not note.is_whole for note in found.notes),
            settings=sum(kept.options.title is not None or kept.options.type is not None for kept in found.kept),
            removed=len(found.removed),
            stored=len({staged_path for staged_path, _place, _options in self._again}),
            vectors=vectors.count_salvaged(connection),
            whole=over.count,
            lost=len(lost),
            unplaced=over.unplaced(),
            nothing_read=found.is_nothing and not vectors.count_salvaged(connection),
        )
        events.record(connection, "rebuilt", now, detail=f"{why}; {rebuilt.told(came_of_it)}; set aside: {aside}")
        rebuilt.write(connection, came_of_it)
        return came_of_it

    def _write_sources(self, connection: Connection) -> None:
        for folder in self._found.folders:
            source_id = sources.ensure(connection, folder.path, self._now)
            # A disk that is away is not taken for a folder that is empty.
            sources.set_identity(connection, source_id, folder.identity)
            if folder.paused_at is not None:
                sources.pause(connection, source_id, folder.paused_at)
        for one in self._found.removed:
            source_id = sources.ensure(connection, one.folder, self._now)
            state, reason = (FileState.SKIPPED, Reason.REMOVED_BY_YOU) if one.is_left_out else (FileState.GONE, None)
            files.account(connection, source_id, one.path, one.stat, state, reason, one.rules, one.at)
            if one.content_hash is not None:
                files.set_removed(connection, source_id, one.path, one.content_hash)

    def _write_history(self, connection: Connection) -> None:
        ids = {row.path: row.id for row in sources.listed(connection)}
        for event in self._found.history:
            path = event.path or event.folder
            source_id = ids.get(event.folder or "")
            events.record(connection, event.kind, event.at, source_id=source_id, path=path, detail=event.detail)

    def _is_there(self, path: str) -> bool:
        try:
            return self._fs.lstat(path).kind == "file"
        except OSError:
            return False
