"""A clock that is set, or stands still while the machine sleeps: nothing waits for years, nothing goes too soon."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from kbsync.reasons import FileState, Reason
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World
from tests.fakes.timetabled_machine import DUTY_S, WALK_S, Machine
from tests.fakes.travelling_clock import travelling

DAY_S = 86_400.0
YEAR_S = 365 * DAY_S
RESCAN_S = 300.0
# DST changes no UTC; who sets the local time wrong by it sets the clock by an hour.
LEAPS = {"a year on": YEAR_S, "a year back": -YEAR_S, "an hour on": 3600.0, "an hour back": -3600.0, "a step": 0.4}


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Return one that was started a while ago: all that never ran was done."""
    with travelling() as clock:
        machine = Machine(clock, {}, RESCAN_S)
        machine.awake(1_200.0)
        machine.done.clear()
        yield machine


def test_a_machine_that_slept_has_its_folders_looked_at_at_once(machine: Machine) -> None:
    """P15: eight hours in which the monotonic clock stood still; once, however long it was."""
    machine.sleep(8 * 3600.0)
    machine.awake(2)
    assert len(machine.runs("rescan")) == 1
    machine.awake(118)
    assert [done.name for done in machine.done] == ["rescan", "retry"]


def test_a_short_sleep_counts_too_where_a_walk_is_not_yet_due(machine: Machine) -> None:
    """P15: what another machine changed on a shared disk meanwhile sent no events."""
    machine.awake(10)
    machine.done.clear()
    machine.sleep(90.0)
    machine.awake(1)
    assert len(machine.runs("rescan")) == 1


def test_nothing_is_made_up_for_before_the_folders_were_looked_at(machine: Machine) -> None:
    """S07: what changed meanwhile is found first; then one thing after another."""
    machine.sleep(30 * 3600.0)
    machine.awake(WALK_S - 1)
    assert [done.name for done in machine.done] == ["rescan"]
    machine.awake(6 * (DUTY_S + 2))
    names = [done.name for done in machine.done if done.name != "rescan"]
    assert names == ["logs", "retry", "reindex", "retention", "compact", "check"]


@pytest.mark.parametrize("leap", LEAPS.values(), ids=LEAPS)
def test_wherever_the_clock_leaps_to_walks_and_upkeep_go_on_in_time(machine: Machine, leap: float) -> None:
    """P15: no busy loop right after it, no walk that comes years later."""
    machine.awake(10)
    machine.done.clear()
    machine.set_clock(leap)
    machine.awake(60)
    before = len(machine.runs("rescan"))
    assert before <= 1
    machine.awake(RESCAN_S + 31)
    assert len(machine.runs("rescan")) in (before + 1, before + 2)
    machine.awake(25 * 3600.0, step=60.0)
    assert len(machine.runs("check")) == (2 if leap >= DAY_S else 1)


def test_a_clock_that_was_set_back_sets_the_timetable_right(machine: Machine) -> None:
    """P15: what `status` promises as the next time is not a year away."""
    machine.set_clock(-YEAR_S)
    machine.awake(1)
    assert machine.runs("rescan") == []
    now = machine.clock.now()
    for entry in machine.scheduler.entries():
        assert entry.next is not None
        assert now < entry.next <= now + DAY_S, entry.name
    machine.awake(RESCAN_S + 31)
    assert 1 <= len(machine.runs("rescan")) <= 2


def test_a_wall_clock_that_hardly_moves_holds_up_no_walk(machine: Machine) -> None:
    """P15: set back a little again and again, by a time server or under a machine that is virtual."""
    for _ in range(int(RESCAN_S) + 31):
        machine.set_clock(-0.9)
        machine.awake(1)
    assert len(machine.runs("rescan")) == 1


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
