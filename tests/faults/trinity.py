"""T2: trouble of every kind happens to a simulated world, and what must always hold is looked at."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path

from kbsync.errors import NotFound, RetryLater, UsageError
from kbsync.queue.backoff import MAX_ATTEMPTS
from tests.fakes.mortal import Fate, Killed, MortalClock, MortalFileSystem
from tests.fakes.simulated_engine import World
from tests.faults import independent
from tests.faults.trinity_disk import ARCHIVE, DISK, ROOTS, Disk, Seen
from tests.faults.trinity_engine import FaultyCage, FrugalDevice, TroubledEngine, Wrong
from tests.faults.trinity_steps import DEEDS, JUMPS_S, Step

STEPS = 60
_PATTERNS = ("*.txt", "a.md", "deep/")
_MOST_LOOKS = 60
_LONGEST_WAIT_S = 60.0
_SUSPENDED_S = 8 * 3600.0
_SETTINGS = "workers = 1\n"


@dataclass(slots=True)
class Counts:
    """What was played, so that nothing left out looks like something passed."""

    examples: int = 0
    steps: int = 0
    without_effect: int = 0
    settles: int = 0
    crashes: int = 0
    killed_at_a_look: int = 0
    full_disks: int = 0
    bad_deeds: int = 0
    documents: int = 0
    embedded: int = 0

    def __str__(self) -> str:
        return ", ".join(f"{getattr(self, one.name)} {one.name.replace('_', ' ')}" for one in fields(self))


@dataclass(slots=True)
class Play:
    """One world and what happens to it. `trace` has a line a step: what was done, and what had become of it."""

    folder: Path
    counts: Counts = field(default_factory=Counts)
    trace: list[str] = field(default_factory=list)

    def run(self, steps: Sequence[Step]) -> None:
        """Play the steps, mend everything and compare with a clean run. Raises Wrong."""
        Performance(self).run(steps)


class Performance:
    """The state of one play."""

    def __init__(self, play: Play) -> None:
        self.counts, self.trace, self._folder = play.counts, play.trace, play.folder
        self._fate = Fate()
        self._clock = MortalClock(self._fate)
        self._fs = MortalFileSystem(self._clock)
        self._disk = Disk(self._fs, self._clock)
        self._device, self._cage = FrugalDevice(), FaultyCage()
        self._device.having_vectors = self._having_vectors
        self._cage.on_bad, self._cage.on_late = self._tire, self._change_meanwhile
        self._world = World(play.folder / "home", self._clock, self._fs, self._device)
        self._watched, self._patterns = list(ROOTS), list[str]()
        self._late: list[Seen] = []
        self._tired: set[str] = set()
        # Of each place that cannot be looked at now, what was found in it before: (path, content hash).
        self._shields: dict[str, set[tuple[str, str]]] = {}
        # Of each text on the disk: which paths hold it, and since when it is these (monotonic).
        self._carriers: dict[str, tuple[frozenset[str], float]] = {}
        self._paused: set[str] = set()
        # Ignore rules were ever in force; they changed since the last settle.
        self._rules_written = self._rules_unsettled = False
        self._world.configure(*self._watched, text=_SETTINGS)
        self._engine = self._new_engine()

    def run(self, steps: Sequence[Step]) -> None:
        self.counts.examples += 1
        try:
            for number, step in enumerate(steps):
                self._play(number, step)
            self._mend()
            self._compare()
            self.counts.documents += len(self._engine.documents())
            self.counts.embedded += len(self._engine.embedded())
            self.counts.bad_deeds += self._cage.done
        finally:
            self._engine.close()

    # ---- one step ----

    def _play(self, number: int, step: Step) -> None:
        self.counts.steps += 1
        current = independent.current(self._engine.read)
        before = self._disk.shielded()
        if hasattr(self._disk, step.what):
            seen: list[Seen] = getattr(self._disk, step.what)(step.numbers)
            self.counts.without_effect += not seen and self._disk.shielded() == before
            self._rules_written |= step.what == "write_rules"
            self._tell(seen, step.told)
        else:
            getattr(self, step.what)(step)
        if step.what in ("ignore", "write_rules", "drop_source"):
            self._rules_unsettled = True
            self._lower_shields("/")  # what a person leaves out may go
            self._carriers.clear()
        self._follow_shields()
        self._clock.advance(step.wait)
        for _ in range(step.turns):
            self._engine.turn()
        self._look()
        self._look_for_flashes(current)
        states = sorted(self._engine.read("SELECT state, reason, count(*) FROM files GROUP BY 1, 2"), key=repr)
        self.trace.append(f"{number} {step} {self._fate.looks} {self._clock.steady_now():.1f} {states}")

    def _tell(self, seen: Sequence[Seen], told: str) -> None:
        if told == "late":
            self._late += seen
        if told == "overflow" and seen:
            self.lose_events()
        for event in list(seen) * {"told": 1, "twice": 2}.get(told, 0):
            self._engine.report(event.path, gone=event.gone, closed=not event.gone)

    def deliver_late_events(self, step: Step) -> None:
        random.Random(step.numbers[0]).shuffle(self._late)
        self._tell(self._late, "told")
        self._late.clear()

    def lose_events(self, _step: Step | None = None) -> None:
        for watcher in self._engine.watchers:
            watcher.lose_events()

    def kill_watcher(self, step: Step) -> None:
        running = [watcher for watcher in self._engine.watchers if watcher.running]
        running[step.numbers[0] % len(running)].alive = False

    def ignore(self, step: Step) -> None:
        pattern = _PATTERNS[step.numbers[0] % len(_PATTERNS)]
        if pattern in self._patterns:
            self._patterns.remove(pattern)
        else:
            self._patterns.append(pattern)
        self._configure()

    def drop_source(self, step: Step) -> None:
        root = (ARCHIVE, DISK)[step.numbers[0] % 2]
        if root in self._watched:
            self._watched.remove(root)
            self._configure()

    def bring_source(self, _step: Step) -> None:
        self._watched = list(ROOTS)
        self._configure()

    def pause(self, step: Step) -> None:
        root = ROOTS[step.numbers[0] % len(ROOTS)]
        if self._told(self._engine.engine.source_control.pause, root):
            self._paused.add(root)

    def resume(self, step: Step) -> None:
        root = ROOTS[step.numbers[0] % len(ROOTS)]
        if self._told(self._engine.engine.source_control.resume, root):
            self._paused.remove(root)

    def confirm(self, step: Step) -> None:
        root = ROOTS[step.numbers[0] % len(ROOTS)]
        if self._told(self._engine.engine.source_control.confirm, root):
            self._lower_shields(root)

    def _told(self, say: Callable[[str], object], root: str) -> bool:
        """Say something about a source; False where there was nothing to say, or the disk was full."""
        try:
            say(root)
        except (NotFound, UsageError, RetryLater):
            return False
        return True

    def jump(self, step: Step) -> None:
        self._clock.jump(JUMPS_S[step.numbers[0] % len(JUMPS_S)])

    def suspend(self, _step: Step) -> None:
        self._clock.jump(_SUSPENDED_S)  # the wall clock goes on, the monotonic one stands still

    def plan_deeds(self, step: Step) -> None:
        self._cage.plans.extend(DEEDS[number % len(DEEDS)] for number in step.numbers[:2])

    def fill_disk(self, step: Step) -> None:
        self._engine.limit_growth(step.numbers[0] % 3)
        self.counts.full_disks += 1

    def free_disk(self, _step: Step | None = None) -> None:
        self._engine.limit_growth()

    def crash(self, step: Step) -> None:
        """Kill the process at one of its next looks at the disk or the clock, then begin a new one."""
        self._fate.kill_at = self._fate.looks + 1 + step.numbers[0] % _MOST_LOOKS
        try:
            for _ in range(1 + step.numbers[1] % 4):
                self._engine.turn()
        except Killed:
            self.counts.killed_at_a_look += 1
        finally:
            self._fate.kill_at = None
        self.counts.crashes += 1
        self._engine.close()
        self._engine = self._new_engine()

    def settle(self, _step: Step | None = None) -> None:
        """Wait for what `kbsync wait` waits for, and look whether every file is accounted for."""
        self.free_disk()
        self._engine.rescan()
        self.counts.settles += 1
        wrong = independent.unaccounted(
            self._fs,
            self._engine.read,
            self._disk.shielded(),
            self._tired,
            bool(self._patterns) or self._rules_written,
        )
        self._refuse(wrong)
        self._refuse([f"{problem.kind}: {problem.detail}" for problem in self._engine.kb.check()])
        self._rules_unsettled = False

    # ---- what must always hold ----

    def _look(self) -> None:
        self._refuse(independent.mixed(self._engine.read))
        self._refuse(self._device.wrong)
        live = independent.live_paths(self._engine.read)
        for place, before in self._shields.items():
            watched = {(path, held) for path, held in before if any(path.startswith(f"{s}/") for s in self._watched)}
            self._refuse([f"lost while {place} cannot be looked at: {path}" for path, _ in sorted(watched - live)])
        tried = self._engine.read("SELECT path, attempts FROM jobs WHERE attempts > ?", MAX_ATTEMPTS)
        self._refuse([f"tried too often: {row}" for row in tried])

    def _look_for_flashes(self, before: set[str]) -> None:
        """What was found, and lies in the folders all the time, stays found while it moves from path to path.

        For a minute: who moves it on and on is not waited for.
        """
        roots, now = set(self._watched) - self._paused, self._clock.monotonic()
        carriers = independent.carriers(self._fs, roots, self._disk.away)
        known, self._carriers = self._carriers, {}
        for content_hash, paths in carriers.items():
            kept = content_hash in known and known[content_hash][0] == paths
            self._carriers[content_hash] = known[content_hash] if kept else (paths, now)
        if self._patterns or self._rules_written:
            return
        fresh = {one for one in known.keys() & carriers.keys() if now - self._carriers[one][1] < _LONGEST_WAIT_S}
        flashed = before & fresh - independent.current(self._engine.read)
        self._refuse([f"not found for a moment: {sorted(carriers[one])}" for one in sorted(flashed)])

    def _refuse(self, wrong: Collection[str]) -> None:
        if wrong:
            raise Wrong(f"after {len(self.trace)} steps: " + "; ".join(list(wrong)[:5]))

    def _follow_shields(self) -> None:
        now = self._disk.shielded() | (self._paused & set(self._watched))
        begun = not self._rules_unsettled and now - self._shields.keys()
        live = independent.live_paths(self._engine.read) if begun else set()
        self._shields = {
            place: self._shields.get(
                place, {(path, held) for path, held in live if path == place or path.startswith(place + "/")}
            )
            for place in now
        }

    def _lower_shields(self, root: str) -> None:
        self._shields = {
            place: {(path, held) for path, held in before if not path.startswith(root)}
            for place, before in self._shields.items()
        }

    def _having_vectors(self, texts: Sequence[str]) -> list[str]:
        [(table,)] = self._engine.read("SELECT max(id) FROM embedders")
        return [
            text
            for text in texts
            if self._engine.read(
                f"SELECT 1 FROM chunks JOIN vectors_{table} ON chunk_id = chunks.id WHERE enriched_text = ?", text
            )
        ]

    # ---- the end ----

    def _mend(self) -> None:
        """Undo every trouble, as a person would, and have all of it looked at again."""
        self._disk.mend()
        self._follow_shields()
        self._cage.plans.clear()
        self._watched = list(ROOTS)
        self._configure()
        for root in ROOTS:
            self._told(self._engine.engine.source_control.resume, root)
        self._paused.clear()
        self.settle()
        for root in ROOTS:
            self._told(self._engine.engine.source_control.confirm, root)
        self.settle()
        failed = self._engine.read(
            "SELECT max(j.id) FROM jobs j JOIN files f ON f.path = j.path AND f.source_id = j.source_id "
            "WHERE f.state <> 'gone' AND j.state = 'failed' GROUP BY j.path"
        )
        for (job_id,) in failed:
            self._engine.kb.retry_job(job_id)
        self._tired.clear()
        self.settle()

    def _compare(self) -> None:
        clean = World(self._folder / "clean", self._clock, self._fs, FrugalDevice())
        clean.configure(*ROOTS, ignore=self._patterns, text=_SETTINGS)
        engine = TroubledEngine(clean, FaultyCage())
        try:
            engine.settle()
            engine.rescan()
            wanted, reached = engine.index(), self._engine.index()
        finally:
            engine.close()
        for table, rows in wanted.items():
            lacking = [f"{table} lacks {row}" for row in rows if row not in reached[table]]
            self._refuse(lacking[:2] + [f"{table} has {row}" for row in reached[table] if row not in rows])
        states = {path: self._engine.source_state(path) for path in ROOTS}
        self._refuse([f"{path} is {state}" for path, state in states.items() if state != ("watching", None)])

    # ---- inside ----

    def _new_engine(self) -> TroubledEngine:
        return TroubledEngine(self._world, self._cage)

    def _configure(self) -> None:
        """Write the settings and have them followed; where the disk is full, as soon as it is not."""
        self._paused &= set(self._watched)  # taken out, a source forgets that
        try:
            self._engine.configure(*self._watched, ignore=self._patterns, text=_SETTINGS)
        except RetryLater:
            self.free_disk()
            self._engine.daemon.reload()

    def _job_path(self) -> str:
        return next(worker.job.path for worker in self._engine.loops.workers if worker.job is not None)

    def _tire(self) -> None:
        self._tired.add(self._job_path())

    def _change_meanwhile(self) -> None:
        """The file that is just being converted is written anew: its answer comes too late."""
        path = self._job_path()
        self._fs.write(path, b"changed while it was read %d" % self._cage.done)
        self._engine.report(path, closed=True)


@contextmanager
def playing(counts: Counts | None = None) -> Iterator[Play]:
    """Yield a play in a folder of its own, in memory where the system has such a place."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="kbsync-trinity-", dir=memory if memory.is_dir() else None) as folder:
        yield Play(Path(folder), counts or Counts())
