"""One walk over a source: is it the folder it was, what is to be read, what moved, what is not there any more."""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import structlog

from kbsync.clock import Clock
from kbsync.daemon.disappearances import BATCH, Disappearances, Followed, Look
from kbsync.daemon.producer import write_decisions
from kbsync.daemon.wake import Wake
from kbsync.failpoints import failpoint
from kbsync.filesystem import FileSystem, as_text
from kbsync.knowledge_base.configured import ConfiguredSources
from kbsync.model import Change, Priority, RootIdentity, Source
from kbsync.reasons import FileState, Reason
from kbsync.sources import guard
from kbsync.sources.coverage import WalkedFolders, is_within
from kbsync.sources.moves import IndexedFile, Move, pair
from kbsync.sources.reconcile import Account, Enqueue, Settle, Unchanged, decide
from kbsync.sources.scanner import Seen, Walk, judge_path, scan
from kbsync.store import events, files, jobs, known_files, sources
from kbsync.store.connection import Connection
from kbsync.store.known_files import KnownFiles
from kbsync.store.sources import SourceRow
from kbsync.store.writer import Readers, Writer

log = structlog.stdlib.get_logger(__name__)

# What failed for these reasons is tried once more by the first walk of a process, though the file is the same.
_NOT_ITS_FAULT = (Reason.MODEL, Reason.IO, Reason.NO_SPACE)
# So many files, and half of those looked at, with nothing but another inode: the file system makes inodes up.
_FEW_INODES = 20

MAX_MISSING_SHARE, LONGEST_WAIT_S = 0.3, 60.0


@dataclass(frozen=True, slots=True)
class SourceScan:
    """What the last walk over a source came to. `state` and `reason` as in the table `sources`.

    `again`: what was not found is to be looked for once more, soon.
    """

    state: str
    reason: str | None
    detail: str | None
    begun_at: float
    seconds: float
    files: int
    queued: int
    again: bool = False


@dataclass(slots=True)
class _Walked:
    """What a walk gathers: how many jobs it queued, whether files settle, files with other inodes only."""

    known: KnownFiles
    queued: int = 0
    changed: bool = False
    inodes_only: int = 0
    settles: bool = False


class SourceWalks:
    """Walks sources, one thread at a time. `max_missing_share` follows the settings."""

    def __init__(
        self,
        fs: FileSystem,
        clock: Clock,
        writer: Writer,
        readers: Readers,
        configured: ConfiguredSources,
        own: frozenset[tuple[int, int]],
        settle: Callable[[Change], None],
        work: Wake,
        stop: threading.Event,
        walked: Callable[[int, WalkedFolders], None],
        is_polled: Callable[[int], bool],
        max_missing_share: float = MAX_MISSING_SHARE,
        longest_wait_s: float = LONGEST_WAIT_S,
    ) -> None:
        self._fs = fs
        self._clock = clock
        self._writer = writer
        self._readers = readers
        self._own = own
        self._settle = settle
        self._work = work
        self._stop = stop
        # The source's watcher follows what a walk saw; whether events come at all is part of the source's state.
        self._walked = walked
        self._is_polled = is_polled
        self.max_missing_share = max_missing_share
        self._gone = Disappearances(fs, clock, writer, readers, configured, own, longest_wait_s)

    def forget(self, source_id: int) -> None:
        """A source was taken out of the configuration."""
        self._gone.forget(source_id)

    def walk(self, source: Source, *, first: bool) -> SourceScan:
        """Walk a source and write what follows. `first`: of this process. Raises RetryLater for the database."""
        begun_at, begun = self._clock.now(), self._clock.monotonic()
        row = self._readers.read(lambda connection: sources.by_id(connection, source.id))
        if row is None or row.paused_at is not None:
            return SourceScan("paused", sources.BY_YOU, None, begun_at, 0.0, 0, 0)
        verdict, root = self._root(source, row.identity)
        if verdict == "same" and root is not None and row.identity is not None and root.device != row.identity.device:
            row = self._renumbered(row, row.identity, root.device)
        if verdict == "other":
            detail = (
                f"Another folder is at {source.path} than before; what was in it stays searchable. When it is back all "
                f"goes on by itself; `kbsync sources confirm {shlex.quote(source.path)}` follows the new one."
            )
            return self._recorded(source, row, SourceScan("paused", "replaced", detail, begun_at, 0.0, 0, 0), first)
        known, live = self._readers.read(
            lambda connection: (known_files.of_source(connection, source.id), jobs.live_paths(connection, source.id))
        )
        # What is indexed leaves an inbox: there every file is looked into.
        is_indexed = None if source.mode == "inbox" else known.take_indexed
        walk = scan(self._fs, source, self._own, self._stop.is_set, is_indexed)
        state = _Walked(known)
        failpoint("walk.begun")
        young = self._read(source, row, walk, state, live, first=first)
        failpoint("walk.read")
        if walk.entered and not self._stop.is_set():
            self._walked(source.id, WalkedFolders(walk.entered, frozenset(walk.left_out)))
        followed, identity = None, row.identity
        if walk.ended and root is not None and walk.entered.get(source.path) == root.inode:
            followed, identity = self._follow(source, row, walk, state, young, begun, root, is_sure=verdict == "same")
            state.queued += followed.queued
            failpoint("walk.swept")
        told = self._verdict(source, row, walk, followed, identity)
        seconds = self._clock.monotonic() - begun
        again = followed is not None and followed.again
        result = SourceScan(*told, begun_at, seconds, walk.files, state.queued, again)
        changed = bool(state.queued or state.changed or (followed is not None and followed.hidden))
        return self._recorded(source, row, result, changed or first, followed, identity)

    def _root(self, source: Source, remembered: RootIdentity | None) -> tuple[guard.SameRoot, RootIdentity | None]:
        try:
            return guard.look_at_root(self._fs, source.path, remembered)
        except OSError:
            return "same", None  # the walk tells what is wrong with it

    def _renumbered(self, row: SourceRow, identity: RootIdentity, device: int) -> SourceRow:
        """The disk has another number since the machine was started: its files are told by it when they move."""
        identity = replace(identity, device=device)
        self._writer.run(lambda connection: sources.set_identity(connection, row.id, identity))
        return replace(row, identity=identity)

    def _read(
        self, source: Source, row: SourceRow, walk: Walk, state: _Walked, live: set[str], *, first: bool
    ) -> set[int]:
        """Judge every path of a walk and write what follows in batches; return the sizes of new files that settle."""
        stable = row.identity is None or row.identity.stable_inodes
        in_inbox = source.mode == "inbox"
        batch: list[tuple[Seen, Enqueue | Account | Settle, bool]] = []
        young: set[int] = set()
        for seen in walk:
            before = state.known.take(seen.path)
            if first and before is not None and before.state is FileState.FAILED and before.reason in _NOT_ITS_FAULT:
                before = None  # what stood in its way may be mended by now
            decision = decide(
                seen,
                before,
                self._clock.now(),
                has_live_job=seen.path in live,
                in_inbox=in_inbox,
                stable_inodes=stable,
            )
            if isinstance(decision, Unchanged):
                continue
            if before is not None and before.stat is not None and guard.differs_in_inode_only(seen.stat, before.stat):
                state.inodes_only += 1
            is_new = before is None and seen.reason is None
            state.settles |= isinstance(decision, Settle)
            if is_new and isinstance(decision, Settle):
                young.add(seen.stat.size)
            batch.append((seen, decision, is_new and stable and not in_inbox))
            if len(batch) >= BATCH:
                self._write(source, batch, state)
                batch = []
        self._write(source, batch, state)
        return young

    def _write(
        self, source: Source, batch: Sequence[tuple[Seen, Enqueue | Account | Settle, bool]], state: _Walked
    ) -> None:
        if not batch or self._stop.is_set():
            return
        moves = self._gone.moved(self._moves(source, [seen for seen, _, may_be_moved in batch if may_be_moved]))
        arrived = {move.path for move in moves}
        for move in moves:
            if move.old.source_id == source.id:
                state.known.take(move.old.path)
        wanted = []
        for seen, decision, _ in batch:
            if seen.path in arrived:
                continue
            if isinstance(decision, Settle):
                self._settle(Change(source.id, seen.path, scanned=True))
            else:
                wanted.append((source, seen, decision))
        now = self._clock.now()
        if wanted:
            queued = self._writer.run(lambda connection: write_decisions(connection, wanted, Priority.SCAN, now))
            state.queued += queued
            state.changed = True
        if moves:
            state.changed = True
        if state.queued or moves:
            self._work.ring()

    def _moves(self, source: Source, arrived: Sequence[Seen]) -> list[Move]:
        if not arrived:
            return []
        inodes = {seen.stat.inode for seen in arrived}
        rows, paused = self._readers.read(
            lambda connection: (files.indexed_with(connection, inodes), sources.paused(connection))
        )
        indexed: dict[int, list[IndexedFile]] = {}
        for found in rows:
            indexed.setdefault(found[2].inode, []).append(IndexedFile(*found))
        pairs = ((source.id, seen) for seen in arrived)
        return pair(pairs, indexed, lambda file: self._gone.has_left(file, paused)) if indexed else []

    def _follow(
        self,
        source: Source,
        row: SourceRow,
        walk: Walk,
        state: _Walked,
        young: set[int],
        begun: float,
        root: RootIdentity,
        *,
        is_sure: bool,
    ) -> tuple[Followed, RootIdentity | None]:
        """Conclude from a whole walk over the right folder; return that, and how the folder is to be remembered."""
        left, root_path = state.known, source.path.rstrip(os.sep) + os.sep
        detached = self._detached(source, row, walk)
        unlooked = frozenset([path for path, _ in walk.errors] + [root_path + mount for mount in detached])
        ruled_out = frozenset(walk.left_out)
        missing, left_out = [], []
        for path in left:
            if source.mode == "inbox" or is_within(path, ruled_out) or _is_too_deep(source, path, root_path):
                left_out.append(path)
            elif not is_within(path, unlooked):
                missing.append(path)
        # A mount point may hold a hidden file: nothing that is told apart from any folder tells that the disk is there.
        is_empty = (walk.files == 0 or not is_sure) and bool(missing) and not walk.errors
        look = Look(begun, tuple(missing), tuple(left_out), frozenset(young), state.settles, is_empty, is_sure)
        followed = self._gone.follow(source, row, look, self.max_missing_share)
        if followed.conclusion.state != "watching":
            return followed, row.identity  # what is there now is not what it is to be known by
        stable = row.identity is None or row.identity.stable_inodes
        if state.inodes_only > max(_FEW_INODES, walk.files // 2):
            stable = False
            log.warning("inodes_made_up", path=source.path, count=state.inodes_only)
        return followed, replace(
            root,
            names=guard.told_names(walk.root_names),
            mounts=tuple(sorted(detached.union(walk.mounts))),
            stable_inodes=stable,
        )

    def _detached(self, source: Source, row: SourceRow, walk: Walk) -> frozenset[str]:
        """Return the folders (relative) whose disk is away: nothing follows from what is not found there."""
        root = source.path.rstrip(os.sep) + os.sep
        lost = guard.lost_mounts(row.identity, walk.mounts) if source.recursive else frozenset()
        return frozenset(mount for mount in lost if not self._is_left_out(source, root + mount))

    def _is_left_out(self, source: Source, folder: str) -> bool:
        try:
            seen = judge_path(self._fs, source, self._own, folder)
        except OSError:
            return False
        return seen is not None and seen.reason not in (None, Reason.PERMISSION, Reason.IO)

    def _verdict(
        self,
        source: Source,
        row: SourceRow,
        walk: Walk,
        followed: Followed | None,
        identity: RootIdentity | None,
    ) -> tuple[str, str | None, str | None]:
        """Return (state, reason, detail) of a source after a walk."""
        path = source.path
        for at, error in walk.errors:
            if at == path:
                if isinstance(error, FileNotFoundError | NotADirectoryError):
                    return "paused", "missing", f"{path} is not there; what was in it stays searchable."
                return "paused", "unreadable", f"{_unreadable(at, error)} cannot be read: {error.strerror}."
        if followed is None:
            return row.state, row.reason, row.detail  # stopped, or another folder all at once: the next walk says
        confirm = f"`kbsync sources confirm {shlex.quote(path)}`"
        if followed.conclusion.state == "empty":
            detail = f"{path} is empty; what was in it stays searchable. Is the disk attached? {confirm} hides it."
            return "paused", "empty", detail
        if followed.conclusion.state == "held":
            held = followed.conclusion.held
            count = f"{held.missing} of {held.known}" if held is not None else "Many"
            before = f", after {followed.gone_lately} within the last hour" if followed.gone_lately else ""
            missing = f"In {path} {count} files are missing{before}"
            return "held", None, f"{missing}; what was in them stays searchable. {confirm} hides it."
        watching = "polling" if self._is_polled(source.id) else "watching"
        lost = guard.lost_mounts(identity, walk.mounts)
        if lost:
            first = os.path.join(path, min(lost))
            more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
            detail = f"The disk at {first}{more} is away; what was on it stays searchable. {confirm} hides it."
            return watching, "detached", detail
        if walk.errors:
            at, error = walk.errors[0]
            detail = f"{_unreadable(at, error)} cannot be read: {error.strerror}."
            if len(walk.errors) > 1:
                detail = f"{len(walk.errors)} places cannot be read. The first: {detail}"
            return watching, "unreadable", detail
        return watching, None, None

    def _recorded(
        self,
        source: Source,
        row: SourceRow,
        result: SourceScan,
        changed: bool,
        followed: Followed | None = None,
        identity: RootIdentity | None = None,
    ) -> SourceScan:
        """Write the source's state where it differs: a rescan that finds nothing new writes nothing."""
        result = replace(result, detail=result.detail and as_text(result.detail))
        told = (result.state, result.reason, result.detail)
        same = told == (row.state, row.reason, row.detail)
        conclusion = None if followed is None else followed.conclusion
        held = row.held if conclusion is None else conclusion.held
        is_done = conclusion is not None and conclusion.is_done and (row.held or row.confirmed) is not None
        learnt = followed is not None and identity != row.identity
        counted = followed is None or row.files_seen == result.files
        if same and counted and not changed and not is_done and not learnt and held == row.held:
            return result
        # What a person or a day of looks said yes to is not counted once more with what goes next.
        agreed = conclusion is not None and (conclusion.held or row.confirmed) is not None
        now = self._clock.now()

        def record(connection: Connection) -> None:
            sources.set_state(connection, source.id, *told, now=now)
            if followed is not None:
                sources.set_scan(connection, source.id, result.begun_at, result.seconds, result.files)
            if learnt:
                sources.set_identity(connection, source.id, identity)
            if is_done:
                sources.end_hold(connection, source.id, counted_from=now if agreed else None)
            elif held != row.held:
                sources.set_held(connection, source.id, held)
                failpoint("walk.brake_set")
            if told[:2] != (row.state, row.reason):
                kind = {"paused": "paused", "held": "held"}.get(result.state, "resumed")
                if kind != "resumed" or row.state in ("paused", "held"):
                    events.record(connection, kind, now, source_id=source.id, path=source.path, detail=result.detail)

        self._writer.run(record)
        failpoint("walk.recorded")
        if not same:
            log.info("source", path=source.path, state=result.state, reason=result.reason, detail=result.detail)
        return result


def _unreadable(at: str, error: OSError) -> str:
    """Return what cannot be read where a walk could not go: the folder, or a rule file in it."""
    named = error.filename
    return named if isinstance(named, str) and os.path.dirname(named) == at else at


def _is_too_deep(source: Source, path: str, root_path: str) -> bool:
    return not source.recursive and os.sep in path.removeprefix(root_path)
