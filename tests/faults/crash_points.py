"""T3: the road broken off at every named place, in every way: `python -m tests.faults.crash_points [--all]`.

This process has everything imported and one thread only; each play is a child that it forks. A child that dies, or ends
because a loop of it did, is followed by another that starts the daemon on what is left and goes on with the scenario.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import json
import os
import pickle
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import apsw
import structlog

from kbsync import failpoints
from tests.faults.crash_databases import SCENARIOS
from tests.faults.crash_scenarios import Scenario
from tests.faults.crash_stage import Dump, Stage
from tests.faults.one_thread import begin_again_with_one_thread, threads

EXIT, FULL, RAISE = "exit", "full disk", "raise"
MODES = (EXIT, FULL, RAISE)
_KILLED, _ENDED = 9, 8
# A process that must be started more often than this does not get over it.
_MOST_LIVES = 6
# Places in a transaction: there it is SQLite that says that the disk is full.
_IN_DATABASE = (
    *("commits", "documents", "migrations", "moving", "queue", "reindexes", "vectors", "writer"),
    *("configured.origins_ended", "producer.accounted", "removal.deleted", "walk.brake_set", "walk.marked_gone"),
)
# Where nothing can be raised: the writer's thread would end and with it the process, or there is nothing that fails.
_ONLY_EXIT = ("writer.committed", "processing.note_committed", "processing.staged_committed")


# What the log says where a crash left something behind that is not made up for by the road itself.
_MENDED = ("repaired_at_start", "full_text_damaged", "stored_copies_unclaimed", "integrity", "database_damaged")


class MadeToFail(RuntimeError):
    """What a place raises that is made to fail."""


@dataclass(frozen=True, slots=True)
class Point:
    """The place at which a play is broken off: its name, at which hit of it, and how."""

    scenario: str
    name: str
    hit: int
    mode: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a scenario up to a deed: all that must be equal, and how often each text was embedded."""

    dump: Dump
    embedded: Counter[str]


@dataclass(slots=True)
class Report:
    """What came of all plays. `hits` of each scenario's clean run; `wrong` names the point and what did not hold."""

    hits: dict[str, dict[str, int]] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MODES, 0))
    lives: int = 0
    missed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0


class Trap:
    """Counts the hits of every place and breaks off at one."""

    def __init__(self, stage: Stage, point: Point | None) -> None:
        self._stage = stage
        self._point = point
        self.hits: Counter[str] = Counter()

    @contextlib.contextmanager
    def set(self) -> Iterator[None]:
        failpoints.listen(self._hit)
        try:
            yield
        finally:
            failpoints.listen(None)

    def _hit(self, name: str) -> None:
        self.hits[name] += 1
        point = self._point
        if point is None or self._stage.numbers["fired"] or (name, self.hits[name]) != (point.name, point.hit):
            return
        self._stage.numbers["fired"] = 1
        if point.mode == EXIT:
            os._exit(_KILLED)
        if point.mode == RAISE:
            raise MadeToFail(name)
        if name.startswith(_IN_DATABASE):
            raise apsw.FullError("database or disk is full")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)


def _live(stage: Stage, scenario: Scenario, trap: Trap, judge: Callable[[int], bool]) -> None:
    """Be one process: start, go on with the scenario where it was left, look at what came of it, and end.

    `judge` looks after each deed, when all is settled and every folder was walked; True: the play is over.
    """
    numbers, last = stage.numbers, len(scenario.deeds) - 1
    _listen_to_log(scenario)

    def act(deed: Callable[[Stage], None]) -> None:
        before = numbers["fired"]
        try:
            deed(stage)
        except Exception:
            if numbers["fired"] == before:
                raise
            deed(stage)  # a person who is told of a failure tries again

    with trap.set():
        stage.open()
        if numbers["fired"]:
            failed = stage.broken_promises(but_removed=scenario.removes)
            assert not failed, failed
            stage.engine.settle()
    if numbers["deed"] > last:  # it was the end that was broken off
        stage.engine.rescan()
        judge(last)
    is_over = False
    while not is_over and numbers["deed"] <= last:
        number = int(numbers["deed"])
        with trap.set():
            if not numbers["acted"]:
                act(scenario.deeds[number])
                numbers["acted"] = 1
            stage.engine.settle()
        numbers["deed"] += 1
        numbers["acted"] = 0
        stage.engine.rescan()
        is_over = judge(number)
    with trap.set():
        stage.close()


def _child(stage: Stage, scenario: Scenario, trap: Trap, judge: Callable[[int], bool], answer: Path) -> None:
    """Be one process and leave; what went wrong for another reason than the trap is written down."""
    fired, code = stage.numbers["fired"], 0
    try:
        _live(stage, scenario, trap, judge)
    except BaseException as error:  # noqa: BLE001 (told to the process that judges)
        code = 1
        if stage.numbers["fired"] and not fired and not isinstance(error, AssertionError):
            # A loop ended by what was raised: the daemon ends, and is started again.
            code = _ENDED
            with contextlib.suppress(Exception):
                stage.close()
        else:
            answer.write_bytes(pickle.dumps(traceback.format_exc(limit=-6)))
    finally:
        os._exit(code)


def _listen_to_log(scenario: Scenario) -> None:
    """Take log records. No play may need a repair where none was asked for: it would hide that something was lost."""

    def heard(_logger: object, _method: str, event: structlog.typing.EventDict) -> str:
        assert scenario.mends or event["event"] not in _MENDED, event
        return ""

    structlog.configure(processors=[heard], logger_factory=structlog.ReturnLoggerFactory())


class Theatre:
    """Plays scenarios in children of this process, one at a time, in one folder."""

    def __init__(self, folder: Path, report: Report) -> None:
        self._stage = Stage(folder / "stage")
        self._prepared = folder / "prepared"
        self._answer = folder / "answer"
        self._report = report

    def set_up(self, scenario: Scenario) -> None:
        """Prepare what every play of the scenario begins with."""
        self._stage.clear()
        shutil.rmtree(self._prepared, ignore_errors=True)
        _listen_to_log(scenario)
        if scenario.prepare is not None:
            scenario.prepare(self._stage)
            shutil.copytree(self._stage.home, self._prepared)

    def clean_run(self, scenario: Scenario) -> tuple[list[Outcome], Counter[str]]:
        """Play it undisturbed; return (what came of each deed, the hits of each place).

        In this process itself, so that what is imported and compiled when it is first needed is there in every child.
        """
        self._reset(scenario)
        trap = Trap(self._stage, None)
        outcomes: list[Outcome] = []

        def look(_number: int) -> bool:
            outcomes.append(Outcome(self._stage.dump(), self._stage.embedded()))
            return False

        _live(self._stage, scenario, trap, look)
        return outcomes, trap.hits

    def play(self, scenario: Scenario, point: Point, clean: Sequence[Outcome]) -> None:
        """Play it broken off at one place, and compare with the clean run what came of the deed that was under way."""
        self._reset(scenario)
        stage, code = self._stage, _ENDED
        trap = Trap(stage, point)

        def judge(number: int) -> bool:
            if not stage.numbers["fired"]:
                return False
            wrong = _differences(stage.dump(), clean[number].dump)
            again = sum((stage.embedded() - clean[number].embedded).values())
            if again > scenario.embedded_again:
                wrong.append(f"{again} texts were embedded again")
            assert not wrong, wrong
            return True

        lives = 0
        while code in (_ENDED, _KILLED) and lives < _MOST_LIVES:
            code = self._forked(lambda: _child(stage, scenario, trap, judge, self._answer))
            lives += 1
        self._report.lives += lives
        self._report.runs[point.mode] += 1
        told = f"{point.scenario}: {point.name} #{point.hit} {point.mode}"
        if code:
            self._report.wrong.append(f"{told}: {self._told() or f'it ended with {code} after {lives} starts'}")
        elif not stage.numbers["fired"]:
            self._report.missed.append(told)

    def _reset(self, scenario: Scenario) -> None:
        if scenario.prepare is None:
            self._stage.clear()
        else:
            shutil.rmtree(self._stage.home)
            shutil.copytree(self._prepared, self._stage.home)
            self._stage.begin()
        self._answer.unlink(missing_ok=True)

    def _forked(self, work: Callable[[], None]) -> int:
        assert threads() == 1, "only a process with one thread may be forked"
        child = os.fork()
        if child == 0:
            gc.disable()  # it would copy all of the parent's memory, to find nothing
            work()  # never returns
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def _told(self) -> str:
        return str(pickle.loads(self._answer.read_bytes())) if self._answer.exists() else ""


def _differences(dump: Dump, clean: Dump) -> list[str]:
    found = []
    for part, then in clean.items():
        now = dump[part]
        if now != then:
            rows, before = (list(one.items()) if isinstance(one, dict) else one for one in (now, then))
            more, less = [row for row in rows if row not in before], [row for row in before if row not in rows]
            found.append(f"{part}: more {more}, less {less}")
    return found


def chosen(hits: dict[str, dict[str, int]], most: int | None) -> list[Point]:
    """Return the points to be played: of each name's hits in all scenarios `most`, spread evenly, end the process.

    Of the other ways to fail each name gets one, in turn. With None every hit is played in every way.
    """
    points: list[Point] = []
    for turn, name in enumerate(sorted({name for counts in hits.values() for name in counts})):
        every = [(scenario, hit) for scenario, counts in hits.items() for hit in range(1, counts.get(name, 0) + 1)]
        others = () if name in _ONLY_EXIT else (FULL, RAISE) if most is None else ((FULL, RAISE)[turn % 2],)
        for mode in (EXIT, *others):
            count = len(every) if most is None else most if mode == EXIT else 1
            points += [Point(scenario, name, hit, mode) for scenario, hit in _spread(every, count)]
    return points


def _spread(every: Sequence[tuple[str, int]], count: int) -> list[tuple[str, int]]:
    if len(every) <= count:
        return list(every)
    if count == 1:
        return [every[len(every) // 2]]
    return [every[round(number * (len(every) - 1) / (count - 1))] for number in range(count)]


def run(most: int | None, only: str | None = None, name: str | None = None) -> Report:
    """Play all scenarios and return what came of it."""
    report, begun = Report(), time.process_time()
    memory = Path("/dev/shm")
    clean: dict[str, list[Outcome]] = {}
    with tempfile.TemporaryDirectory(prefix="kbsync-crash-", dir=memory if memory.is_dir() else None) as folder:
        theatre = Theatre(Path(folder), report)
        wanted = [scenario for scenario in SCENARIOS if only in (None, scenario.name)]
        for scenario in wanted:
            theatre.set_up(scenario)
            clean[scenario.name], hits = theatre.clean_run(scenario)
            report.hits[scenario.name] = dict(hits)
        gc.freeze()
        points = [point for point in chosen(report.hits, most) if name is None or point.name.startswith(name)]
        for scenario in wanted:
            theatre.set_up(scenario)
            for point in points:
                if point.scenario == scenario.name:
                    theatre.play(scenario, point, clean[scenario.name])
    times = os.times()
    report.seconds = time.process_time() - begun + times.children_user + times.children_system
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="every hit of every place")
    parser.add_argument("--most", type=int, default=2, help="hits of each place that end the process")
    parser.add_argument("--scenario", help="this one only")
    parser.add_argument("--name", help="places whose names begin so")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    report = run(None if options.all else options.most, options.scenario, options.name)
    if options.json:
        sys.stdout.write(json.dumps(asdict(report)))
        return 0
    names = {name for counts in report.hits.values() for name in counts}
    for line in (*report.wrong, *(f"never came to {told}" for told in report.missed)):
        sys.stdout.write(f"{line}\n")
    runs = ", ".join(f"{report.runs[mode]} {mode}" for mode in MODES)
    sys.stdout.write(
        f"{len(names)} places, {sum(report.runs.values())} plays ({runs}), {report.lives} processes, "
        f"{len(report.wrong)} lost something, {report.seconds:.0f} s of CPU\n"
    )
    return 1 if report.wrong or report.missed else 0


if __name__ == "__main__":
    begin_again_with_one_thread("tests.faults.crash_points")
    sys.exit(main())
