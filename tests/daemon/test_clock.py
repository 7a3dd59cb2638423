"""A clock that is set, or stands still while the machine sleeps: nothing waits for years, nothing goes too soon."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kbsync.daemon.scheduler import Scheduler
from kbsync.reasons import FileState, Reason
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

DAY_S = 86_400.0
YEAR_S = 365 * DAY_S
RESCAN_S = 300.0
# DST changes no UTC; who sets the local time wrong by it sets the clock by an hour.
LEAPS = {"a year on": YEAR_S, "a year back": -YEAR_S, "an hour on": 3600.0, "an hour back": -3600.0, "a step": 0.4}


class Bells:
    """A timetable whose clock is turned by hand, and how often each bell rang."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.rescans = self.upkeeps = 0
        self.scheduler = Scheduler(self.clock, RESCAN_S, self._rescan, self._upkeep)

    def _rescan(self) -> None:
        self.rescans += 1

    def _upkeep(self) -> None:
        self.upkeeps += 1

    def awake(self, seconds: float) -> None:
        """Let time pass as it does, with a tick each second; APScheduler itself does not run here."""
        for _ in range(int(seconds)):
            self.clock.advance(1.0)
            self.scheduler.tick()


@pytest.fixture
def bells() -> Bells:
    return Bells()


def test_while_all_goes_well_it_leaves_the_ringing_to_the_timetable(bells: Bells) -> None:
    bells.awake(RESCAN_S + 25)
    assert bells.rescans == 0


def test_what_the_timetable_forgets_is_made_up_for_again_and_again(bells: Bells) -> None:
    bells.awake(4 * (RESCAN_S + 31))
    assert bells.rescans == 4


def test_a_machine_that_slept_has_its_folders_looked_at_within_two_minutes(bells: Bells) -> None:
    """P15: eight hours in which the monotonic clock stood still; once, however long it was."""
    bells.awake(10)
    bells.clock.jump(8 * 3600.0)
    bells.awake(2)
    assert bells.rescans == 1
    bells.awake(118)
    assert (bells.rescans, bells.upkeeps) == (1, 0)


def test_a_short_sleep_counts_too_where_a_walk_is_not_yet_due(bells: Bells) -> None:
    """P15: what another machine changed on a shared disk meanwhile sent no events."""
    bells.awake(10)
    bells.clock.jump(90.0)
    bells.awake(1)
    assert bells.rescans == 1


@pytest.mark.parametrize("leap", LEAPS.values(), ids=LEAPS)
def test_wherever_the_clock_leaps_to_walks_and_upkeep_go_on_in_time(bells: Bells, leap: float) -> None:
    """P15: no busy loop right after it, no walk that comes years later."""
    bells.awake(10)
    bells.clock.jump(leap)
    bells.awake(60)
    assert bells.rescans <= 1
    before = bells.rescans
    bells.awake(RESCAN_S + 31)
    assert bells.rescans == before + 1
    for _ in range(25):
        bells.clock.advance(3600.0)
        bells.scheduler.tick()
    assert bells.upkeeps == (2 if leap >= DAY_S else 1)
    assert bells.rescans == before + 26, "once an hour: it was asked once an hour"


def test_a_clock_that_was_set_back_sets_the_timetable_right(bells: Bells) -> None:
    """P15: what `status` promises as the next time is not a year away."""
    bells.clock.jump(-YEAR_S)
    bells.scheduler.tick()
    assert bells.rescans == 0
    bells.awake(RESCAN_S + 31)
    assert bells.rescans == 1


def test_a_wall_clock_that_hardly_moves_holds_up_no_walk(bells: Bells) -> None:
    """P15: set back a little again and again, by a time server or under a machine that is virtual."""
    for _ in range(int(RESCAN_S) + 31):
        bells.clock.jump(-0.9)
        bells.awake(1)
    assert bells.rescans == 1


# ---- the engine ----


@pytest.mark.parametrize("leap", LEAPS.values(), ids=LEAPS)
def test_a_job_that_waits_for_its_next_try_gets_it_wherever_the_clock_leaps(
    engine: SimulatedEngine, leap: float
) -> None:
    """P15: put back for some seconds, set back by a year, it would wait for a year."""
    path = f"{NOTES}/a.md"
    engine.write(path, "# A\n\nThe medlar ripens late.")
    engine.fs.break_at(path, 3)
    for _ in range(8):
        engine.clock.advance(0.5)
        engine.turn()
    assert engine.state(path) == (FileState.WAITING, Reason.RETRY)
    engine.fs.break_at(path, None)
    engine.clock.jump(leap)
    engine.clock.advance(5.0)
    engine.settle()
    assert engine.state(path) == (FileState.INDEXED, None)


def test_no_worker_waits_a_negative_time_or_turns_in_circles(engine: SimulatedEngine) -> None:
    """P15: however far not_before lies from the clock."""
    worker = engine.loops.workers[0]
    for leap in (0.0, YEAR_S, -2 * YEAR_S):
        engine.clock.jump(leap)
        assert 0.05 <= worker._pause() <= 5.0
        assert 0.01 <= engine.loops.rescans._pause() <= 5.0


@pytest.mark.parametrize("seed", range(6))
def test_the_index_is_the_same_whatever_the_clock_says(
    started: Callable[[], SimulatedEngine], world: World, seed: int
) -> None:
    """P15: leaps of any size in the middle of a day of work, and lives that end meanwhile."""
    at_random = random.Random(seed)
    engine = started()
    leapt = 0.0

    def leap() -> None:
        nonlocal leapt
        by = at_random.choice([YEAR_S, -YEAR_S, 8 * 3600.0, -3600.0, at_random.uniform(-100, 100)])
        leapt += by
        engine.clock.jump(by)

    for number in range(12):
        name = f"{NOTES}/{number % 5}.md"
        engine.write(name, f"# {name}\n\nWords {at_random.random()} and {number}.")
        if number == 7:
            engine.remove(f"{NOTES}/1.md")
        if number == 8:
            engine.rename(f"{NOTES}/2.md", f"{NOTES}/moved.md")
        for _ in range(at_random.randrange(6)):
            engine.turn()
            engine.clock.advance(at_random.uniform(0, 1.5))
            if at_random.random() < 0.4:
                leap()
        if at_random.random() < 0.2:
            engine = started()
    engine.clock.advance(10.0)
    engine.settle(engine.daemon.rescan())
    engine.rescan()
    found = engine.index()
    engine.clock.jump(-leapt)
    engine.rescan()
    assert engine.index() == found
    fresh = World(world.home.parent / "fresh", world.clock, world.fs, world.device)
    fresh.configure(NOTES)
    clean = SimulatedEngine(fresh)
    clean.rescan()
    assert clean.index() == found
    clean.close()
