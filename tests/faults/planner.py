"""A small engine of the pure parts alone: what walks see, what is decided, and a ledger that is a dictionary."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256

from kbsync.filesystem import Stat
from kbsync.model import Held, KnownFile, RootIdentity, Source
from kbsync.reasons import FileState, Reason
from kbsync.sources import guard
from kbsync.sources.absence import Absences, has_left
from kbsync.sources.coverage import is_within
from kbsync.sources.moves import IndexedFile, Move, WaitingFile, pair, recognise
from kbsync.sources.reconcile import Account, Enqueue, Settle, decide, is_racy
from kbsync.sources.scanner import Seen, scan
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_filesystem import SimulatedFileSystem

ROOT = "/disk/notes"
SOURCE = Source(1, ROOT)
SHARE = 0.3
MOST_ROUNDS = 20
# From this round on nothing fails any more.
_CALM = 10
# Longer than a file is young, and than two looks must be apart.
_PAUSE_S = 2.5
_DEAD = frozenset({FileState.SKIPPED, FileState.FAILED})


@dataclass(frozen=True, slots=True)
class Read:
    """Read a path and index what it holds."""

    seen: Seen


@dataclass(frozen=True, slots=True)
class Left:
    """Write down why a path is not read."""

    seen: Seen
    account: Account


@dataclass(frozen=True, slots=True)
class Hide:
    """Write that a path is gone."""

    path: str


Operation = Read | Left | Hide | Move


@dataclass(slots=True)
class Row:
    """What the ledger says of a path, and the content that is searchable under it."""

    file: KnownFile
    content_hash: str | None = None


@dataclass(slots=True)
class Planned:
    """A disk, a ledger, and rounds of: look, plan, apply in any order, some of it failing."""

    draw: random.Random
    clock: ManualClock = field(default_factory=ManualClock)
    fs: SimulatedFileSystem = field(init=False)
    rows: dict[str, Row] = field(default_factory=dict)
    absences: Absences = field(default_factory=Absences)
    identity: RootIdentity | None = None
    held: Held | None = None
    confirmed: int | None = None
    state: str = "watching"
    embedded: list[str] = field(default_factory=list)
    rounds: int = 0
    operations: int = 0

    def __post_init__(self) -> None:
        self.fs = SimulatedFileSystem(self.clock)
        self.fs.attach_disk(ROOT)

    def plan(self) -> tuple[list[Operation], bool]:
        """Look once; return what is to be done, and whether a second look is wanted."""
        try:
            verdict, root = guard.look_at_root(self.fs, ROOT, self.identity)
        except OSError:
            self.state = "paused"
            return [], False
        if verdict == "other":
            self.state = "paused"
            return [], False
        begun, walk = self.clock.monotonic(), scan(self.fs, SOURCE)
        left = {path: row.file for path, row in self.rows.items()}
        operations: list[Operation] = []
        arrived: list[Seen] = []
        young: set[int] = set()
        for seen in walk:
            known = left.pop(seen.path, None)
            decision = decide(seen, known, self.clock.now(), has_live_job=False)
            if isinstance(decision, Settle):
                young.add(seen.stat.size)
            elif isinstance(decision, Account):
                operations.append(Left(seen, decision))
            elif isinstance(decision, Enqueue):
                operations.append(Read(seen))
                if known is None:
                    arrived.append(seen)
        if not walk.ended:
            self.state = "paused"
            return [], False
        moves = pair(((1, seen) for seen in arrived), self._by_inode(), self._has_left)
        unlooked = frozenset(path for path, _ in walk.errors)
        gone = {move.old.path for move in moves}
        missing = [path for path in left if path not in gone and not is_within(path, unlooked)]
        looked = self.absences.after_look(missing, begun, self.clock.monotonic())
        waiting = [
            WaitingFile(1, seen.path, seen.stat, seen.rules)
            for seen in arrived
            if seen.path not in {move.path for move in moves}
        ]
        found = recognise(self.fs, [file for path in looked.due if (file := self._indexed(path))], waiting)
        moves += found.moves
        aside = {move.old.path for move in moves}
        late = {
            path for path in looked.due if (row := self.rows[path]).file.stat and row.file.stat.size in young
        } - aside
        due = tuple(path for path in looked.due if path not in aside and path not in late)
        absent = guard.Absent(
            due,
            looked.early,
            self._lost(due),
            self._lost((*due, *looked.early)),
            sum(row.content_hash is not None for row in self.rows.values()),
            waits=bool(late),
            is_empty=(walk.files == 0 or verdict != "same") and bool(missing) and not walk.errors,
            is_sure=verdict == "same",
        )
        conclusion = guard.conclude(absent, self.held, self.confirmed, SHARE, self.clock.now())
        self.held, self.state = conclusion.held, conclusion.state
        if conclusion.is_done:
            self.held = self.confirmed = None
        if conclusion.state == "watching":
            self.identity = replace(root, names=guard.told_names(walk.root_names))
        operations += [Hide(path) for path in conclusion.hide]
        to = {move.path for move in moves}
        operations = [one for one in operations if not (isinstance(one, Read) and one.seen.path in to)]
        return [*operations, *moves], bool(young or looked.early or late)

    def converge(self, look: Callable[[list[Operation]], None]) -> None:
        """Plan and apply until nothing is left to do; `look` sees each plan."""
        for number in range(MOST_ROUNDS):
            self.rounds += 1
            operations, again = self.plan()
            look(operations)
            if not operations and not again:
                return
            self.draw.shuffle(operations)
            for operation in operations:
                self.operations += 1
                if number >= _CALM or self.draw.random() > 0.3:
                    self._apply(operation)
            self.clock.advance(_PAUSE_S)
        raise AssertionError(f"{MOST_ROUNDS} rounds and still {operations}")

    def _apply(self, operation: Operation) -> None:
        match operation:
            case Hide(path):
                if has_left(self.fs, SOURCE, frozenset(), path):
                    del self.rows[path]
                    self.absences.forget([path])
            case Left(seen, account):
                before = self.rows.get(seen.path)
                kept = before.content_hash if before and account.state is FileState.FAILED else None
                known = KnownFile(seen.path, seen.stat, account.state, account.reason, seen.rules)
                self.rows[seen.path] = Row(known, kept)
            case Read(seen):
                self._read(seen)
            case Move():
                row = self.rows.get(operation.old.path)
                if row is not None and row.content_hash == operation.old.content_hash:
                    del self.rows[operation.old.path]
                    self.absences.forget([operation.old.path])
                    self.rows[operation.path] = Row(
                        KnownFile(operation.path, operation.stat, FileState.INDEXED, None, operation.rules),
                        row.content_hash,
                    )

    def _read(self, seen: Seen) -> None:
        try:
            with self.fs.open_file(seen.path) as file:
                stat, content = file.fstat(), file.read(1 << 20)
        except FileNotFoundError:
            return
        except OSError:
            known = KnownFile(seen.path, seen.stat, FileState.FAILED, Reason.PERMISSION, seen.rules)
            self.rows[seen.path] = Row(known, None)
            return
        content_hash = sha256(content).hexdigest()
        if content_hash not in self.embedded:
            self.embedded.append(content_hash)
        due = is_racy(stat, self.clock.now())
        self.rows[seen.path] = Row(
            KnownFile(seen.path, stat, FileState.INDEXED, None, seen.rules, hash_due=due), content_hash
        )

    def _by_inode(self) -> dict[int, list[IndexedFile]]:
        found: dict[int, list[IndexedFile]] = {}
        for path in self.rows:
            if (file := self._indexed(path)) is not None:
                found.setdefault(file.stat.inode, []).append(file)
        return found

    def _indexed(self, path: str) -> IndexedFile | None:
        row = self.rows[path]
        stat: Stat | None = row.file.stat
        if row.file.state is not FileState.INDEXED or stat is None or row.content_hash is None:
            return None
        return IndexedFile(1, path, stat, row.content_hash, 0)

    def _has_left(self, file: IndexedFile) -> bool:
        return has_left(self.fs, SOURCE, frozenset(), file.path)

    def _lost(self, paths: tuple[str, ...]) -> int:
        without = set(paths)
        left = {row.content_hash for path, row in self.rows.items() if path not in without}
        return sum((held := self.rows[path].content_hash) is not None and held not in left for path in without)
