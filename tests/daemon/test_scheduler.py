"""The timetable only asks; when, the settings say. No thread, no wait: what is due comes with a tick."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from kbsync.config.settings import Settings
from kbsync.daemon.scheduler import Entry, Scheduler
from tests.fakes.timetabled_machine import DUTY_S, WALK_S, Machine, in_zone, travel_to
from tests.fakes.travelling_clock import TravellingClock, travelling

DAY_S = 86_400.0
ALL = ("logs", "retry", "reindex", "retention", "compact", "check")
# A start is over by then: the walk, five minutes, and one duty after another.
SETTLED_S = 300.0 + len(ALL) * (DUTY_S + 2)


@pytest.fixture
def clock() -> Iterator[TravellingClock]:
    with travelling() as clock:
        yield clock


@pytest.fixture
def machine(clock: TravellingClock) -> Machine:
    return Machine(clock, {})


def entry(machine: Machine, name: str) -> Entry:
    return next(entry for entry in machine.scheduler.entries() if entry.name == name)


def test_it_asks_for_a_walk_again_and_again(machine: Machine) -> None:
    machine.awake(3 * 300 + 3)
    assert [round(done.true - machine.done[0].true) for done in machine.runs("rescan")] == [0, 300, 600]


def test_the_walk_of_the_start_is_the_first_one_that_is_told(machine: Machine) -> None:
    begun = machine.clock.now()
    machine.awake(WALK_S / 2)
    assert (entry(machine, "rescan").state, entry(machine, "rescan").last) == ("running", None)
    machine.awake(WALK_S)
    assert (entry(machine, "rescan").state, entry(machine, "rescan").last) == ("scheduled", begun)


def test_what_was_missed_is_done_once_after_the_start_one_thing_after_another(machine: Machine) -> None:
    machine.awake(299)
    assert [done.name for done in machine.done] == []
    machine.awake(SETTLED_S)
    duties = [done for done in machine.done if done.name != "rescan"]
    assert [done.name for done in duties] == list(ALL)
    assert all(later.true - earlier.true >= DUTY_S for earlier, later in pairwise(duties))


def test_nothing_of_a_new_installation_was_missed_each_job_comes_when_it_is_first_due(clock: TravellingClock) -> None:
    with in_zone("UTC"):
        now = datetime(2026, 3, 2, 9, 0, tzinfo=UTC).timestamp()  # a Monday
        clock.jump(now - clock.now())
        machine = Machine(clock, {"compact": "sun 04:00", "check": "12:00", "retry": "6h"}, known_s=0)
        assert [entry(machine, name).next for name in ("compact", "check", "retry")] == [
            datetime(2026, 3, 8, 4, 0, tzinfo=UTC).timestamp(),
            now + 3 * 3600.0,
            now + 6 * 3600.0,
        ]
        machine.awake(2 * 3600.0, step=10)
        assert {done.name for done in machine.done} == {"rescan"}
        machine.off(5.0)
        machine.awake(2 * 3600.0, step=10)
        assert {done.name for done in machine.done} == {"rescan", "check"}


def test_a_machine_that_is_on_for_a_while_each_morning_gets_everything_done(clock: TravellingClock) -> None:
    machine = Machine(clock, {"compact": "sun 04:00"}, known_s=0)
    for _ in range(8):
        machine.awake(10 * 60.0, step=5)
        machine.off(86_400.0 - 10 * 60.0)
    assert {name for name in ALL if not machine.runs(name)} == set()


def test_nothing_is_done_before_the_first_walk_has_ended(machine: Machine) -> None:
    machine.walks[0] = float("inf")
    machine.awake(3_500)
    assert {done.name for done in machine.done} == {"rescan"}
    assert entry(machine, "check").detail == "the folders are looked through first"
    machine.awake(200)
    assert {done.name for done in machine.done} > {"rescan"}, "a disk that hangs holds up nothing for ever"


def test_a_restart_every_morning_gets_each_job_done_and_none_twice(machine: Machine) -> None:
    for _ in range(5):
        machine.awake(4 * 3600.0, step=5)
        machine.off(20 * 3600.0)
    # A duty comes a little later each day, so that of five mornings four or five are right.
    for name in set(ALL) - {"retry"}:
        assert 4 <= len(machine.runs(name)) <= 5, name
    assert len(machine.runs("retry")) == 5, "every six hours: once a morning"


def test_a_restart_right_after_does_nothing_again(machine: Machine) -> None:
    machine.awake(SETTLED_S)
    before = len(machine.done)
    for _ in range(3):
        machine.off(5.0)
        machine.awake(290.0)
        machine.off(5.0)
        machine.awake(SETTLED_S)
    assert {done.name for done in machine.done[before:]} == {"rescan"}


def test_what_was_broken_off_is_done_after_the_next_start(machine: Machine) -> None:
    machine.awake(302.0)
    assert [done.name for done in machine.done if done.name != "rescan"] == ["logs"]
    machine.off(5.0)
    machine.awake(SETTLED_S)
    assert len(machine.runs("logs")) == 2


def test_a_changed_setting_holds_from_the_next_tick_on(machine: Machine) -> None:
    machine.awake(SETTLED_S)
    now = machine.clock.now()
    machine.scheduler.follow(
        Settings(rescan_s=30, schedule={"check": "1h", "retry": "off"}).timetable()  # type: ignore[arg-type]
    )
    machine.awake(1)
    assert (entry(machine, "retry").state, entry(machine, "retry").next) == ("off", None)
    assert (entry(machine, "check").every, entry(machine, "rescan").every) == ("1h", "30s")
    machine.awake(3600.0)
    assert len(machine.runs("check")) == 2
    assert len([done for done in machine.runs("rescan") if done.at > now]) >= 118
    machine.scheduler.follow(Settings(rescan_s=300).timetable())
    machine.awake(7 * 3600.0, step=10)
    assert len(machine.runs("retry")) == 2, "it was off, and is on again"


def test_while_the_machine_is_spared_only_light_things_are_done_and_the_rest_is_made_up_for(machine: Machine) -> None:
    machine.holds = "on battery"
    machine.awake(SETTLED_S)
    assert [done.name for done in machine.done if done.name != "rescan"] == ["logs", "retry", "retention"]
    assert (entry(machine, "check").state, entry(machine, "check").detail) == ("waiting", "on battery")
    machine.awake(3 * DAY_S, step=60)
    assert machine.runs("check") == []
    machine.holds = None
    machine.awake(SETTLED_S)
    for name in ("reindex", "compact", "check"):
        assert len(machine.runs(name)) == 1, name


def test_what_cannot_be_done_is_asked_for_once_and_holds_up_nothing(machine: Machine) -> None:
    machine.failing = {"retry"}
    machine.awake(SETTLED_S)
    assert [done.name for done in machine.done if done.name != "rescan"] == list(ALL)
    assert (entry(machine, "retry").state, entry(machine, "retry").detail) == ("failed", "The database is busy.")


def test_one_that_takes_longer_than_its_interval_holds_up_no_other(clock: TravellingClock) -> None:
    machine = Machine(clock, dict.fromkeys(ALL, "60s"))
    machine.awake(SETTLED_S + 10 * len(ALL) * (DUTY_S + 2))
    assert {name: len(machine.runs(name)) >= 10 for name in ALL} == dict.fromkeys(ALL, True)


def test_a_journey_is_noticed_within_a_minute(clock: TravellingClock) -> None:
    with in_zone("Europe/Berlin"):
        machine = Machine(clock, {"check": "03:30"})
        machine.awake(SETTLED_S)
        before = entry(machine, "check").next
        assert before is not None
        travel_to("Asia/Tokyo")
        machine.awake(61)
        assert entry(machine, "check").next == before - 7 * 3600.0


def test_a_duty_that_ends_while_its_next_time_is_planned_is_not_done_again(machine: Machine) -> None:
    """It ends in another thread, between the two halves of a tick."""
    machine.awake(302.0)
    assert machine.doing() == "logs"
    machine.scheduler._plan(["logs"], machine.clock.now())
    machine.end_duty()
    machine.scheduler._hands.process()
    machine.awake(SETTLED_S)
    assert len(machine.runs("logs")) == 1


def test_status_tells_what_was_what_comes_and_what_is(machine: Machine) -> None:
    began = machine.clock.now()
    machine.awake(1)
    machine.awake(WALK_S)
    assert entry(machine, "rescan") == Entry("rescan", "300s", began, began + 300, "scheduled")
    assert entry(machine, "logs") == Entry("logs", "24h", None, began + 300, "waiting", "kbsync has just been started")
    machine.awake(305 - WALK_S)
    assert entry(machine, "logs").state == "running"
    assert (entry(machine, "retry").state, entry(machine, "retry").detail) == ("waiting", "one after another")
    machine.awake(SETTLED_S)
    ran = machine.runs("logs")[0].at
    assert entry(machine, "logs") == Entry("logs", "24h", ran, ran + DAY_S, "scheduled")
    assert machine.scheduler.status() == {
        "rescan": entry(machine, "rescan").next,
        "upkeep": machine.runs("retention")[0].at + DAY_S,
    }


def test_before_the_start_and_after_the_end_it_does_nothing(clock: TravellingClock) -> None:
    machine = Machine(clock, {})
    before = threading.active_count()
    machine.scheduler.stop()
    machine.scheduler.stop()
    machine.awake(1_000)
    assert machine.done == []
    fresh = Scheduler(clock, machine.settings.timetable(), machine.rescan, machine.walked, machine, machine.kept.update)
    fresh.tick()
    assert set(fresh.status()) == {"rescan", "upkeep"}
    fresh.stop()
    assert machine.done == []
    assert threading.active_count() == before, "it has no thread"
