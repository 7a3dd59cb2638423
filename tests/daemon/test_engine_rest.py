"""While the engine rests, changes are noticed and wait; what a person asks for is done; nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from kbsync.compose import build_daemon
from kbsync.daemon.rest import stored_pause
from kbsync.errors import NotFound, UsageError
from kbsync.interfaces.operations import Operations
from kbsync.reasons import FileState, Reason
from kbsync.store import meta
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

FIRST, SECOND, PAPER = f"{NOTES}/first.md", f"{NOTES}/second.md", f"{NOTES}/paper.pdf"
ELSEWHERE = "/simulated/elsewhere.md"
HOUR, DAY = 3600.0, 86_400.0
WAITING = (FileState.WAITING, Reason.QUEUED)
INDEXED = (FileState.INDEXED, None)


@pytest.fixture(autouse=True)
def with_its_thread(engine: SimulatedEngine) -> None:
    engine.engine.writer.start()  # the daemon's look after everything wants it


def turn_for(engine: SimulatedEngine, seconds: int) -> None:
    """Let everything happen that happens in so many seconds."""
    for _ in range(seconds):
        while engine.turn():
            pass
        engine.daemon.tick()
        engine.clock.advance(1.0)


def quiet_hours(engine: SimulatedEngine, begin: float, end: float) -> str:
    """Return a setting for the hours from and to these moments, in local time."""
    hours = "-".join(time.strftime("%H:%M", time.localtime(at)) for at in (begin, end))
    return f'[resources]\nquiet_hours = ["{hours}"]\n'


def test_files_wait_while_a_person_paused_and_are_worked_after(engine: SimulatedEngine) -> None:
    engine.write(FIRST, "quince")
    engine.settle()
    operations = Operations(engine.engine, engine.daemon)
    answer = operations.pause(None)
    assert answer["rest"]["reason"] == "paused"
    engine.write(SECOND, "medlar")
    engine.write(PAPER, "sloe")
    engine.remove(FIRST)
    turn_for(engine, 20)
    assert [engine.state(path) for path in (SECOND, PAPER)] == [WAITING, WAITING]
    assert engine.found("quince") == [], "what went is hidden at once: that is no work"
    status = operations.status()
    assert status["rest"] == answer["rest"] | {"until": None}
    assert status["notices"][0] == status["rest"]["detail"]
    assert operations.search("medlar", "lexical")["notices"][0] == status["rest"]["detail"]
    assert str(status["rest"]["detail"]) in operations.why(SECOND)["detail"]
    idle = engine.dump()
    turn_for(engine, 60)
    assert engine.dump() == idle, "at rest nothing is written"

    assert operations.resume() == {"was_paused": True, "rest": None}
    engine.settle()
    assert [engine.found(word) for word in ("medlar", "sloe")] == [[SECOND], [PAPER]]
    assert {job.attempts for job in engine.kb.jobs(state="done", limit=9)[0]} == {1}
    assert operations.resume() == {"was_paused": False, "rest": None}


def test_what_a_person_asks_for_is_done_at_once(engine: SimulatedEngine) -> None:
    engine.engine.rest.pause(None)
    engine.write(FIRST, "quince")
    engine.fs.write(ELSEWHERE, b"medlar")
    added = engine.kb.adding.add_note("The sloe is bitter.", "Sloe")
    turn_for(engine, 5)
    assert engine.job(added).state == "done"
    assert engine.found("sloe") == [None]
    assert engine.state(FIRST) == WAITING
    assert engine.kb.check() == []


def test_who_waits_hears_why_nothing_goes_on(engine: SimulatedEngine) -> None:
    operations = Operations(engine.engine, engine.daemon)
    engine.engine.rest.pause(None)
    engine.write(FIRST, "quince")
    turn_for(engine, 5)
    note = engine.kb.adding.add_note("The sloe is bitter.", "Sloe")
    assert operations.settled(0)["held_up"] is None, "a note is on its way"
    turn_for(engine, 5)
    assert engine.job(note).state == "done"
    answer = operations.settled(0)
    assert (answer["settled"], answer["waiting"]) == (False, 1)
    assert answer["held_up"] == answer["rest"]["detail"]
    operations.resume()
    assert operations.settled(0)["held_up"] is None


def test_a_pause_ends_by_itself_and_is_forgotten(engine: SimulatedEngine) -> None:
    engine.engine.rest.pause(2 * HOUR)
    engine.write(FIRST, "quince")
    turn_for(engine, 5)
    engine.clock.advance(2 * HOUR - 10.0)
    turn_for(engine, 2)
    assert engine.state(FIRST) == WAITING
    turn_for(engine, 10)
    assert engine.state(FIRST) == INDEXED
    assert engine.engine.readers.read(stored_pause) is None


def test_a_pause_outlives_a_restart_and_its_end_too(started: Callable[[], SimulatedEngine]) -> None:
    engine = started()
    engine.engine.rest.pause(HOUR)
    engine = started()
    engine.engine.writer.start()
    resting = engine.engine.rest.now()
    assert resting is not None
    assert resting.until == engine.clock.now() + HOUR
    engine.clock.advance(HOUR)
    engine = started()
    assert engine.engine.rest.now() is None


@pytest.mark.parametrize("years", [-20, 20])
@pytest.mark.parametrize("restart", [False, True])
def test_a_clock_that_is_set_prolongs_no_pause(
    started: Callable[[], SimulatedEngine], years: int, restart: bool
) -> None:
    engine = started()
    engine.engine.rest.pause(HOUR)
    engine.clock.jump(years * 365 * DAY)
    if restart:
        engine = started()
    engine.engine.writer.start()
    if years < 0:
        resting = engine.engine.rest.now()
        assert resting is not None
        assert resting.until == pytest.approx(engine.clock.now() + HOUR)
    engine.clock.advance(HOUR + 1.0)
    assert engine.engine.rest.now() is None
    engine.write(FIRST, "quince")
    turn_for(engine, 5)
    assert engine.found("quince") == [FIRST]


@pytest.mark.parametrize(
    "stored",
    [
        *("", "no JSON", "[]", '{"since": 1}', '{"since": "x", "until": null}', "NaN"),
        *('{"since": -1e300, "until": null}', '{"since": 1, "until": 1e300}'),
    ],
)
def test_a_pause_that_cannot_be_read_holds_nothing_up(started: Callable[[], SimulatedEngine], stored: str) -> None:
    engine = started()
    engine.engine.writer.run(lambda connection: meta.put(connection, meta.PAUSE, stored))
    assert started().engine.rest.now() is None


def test_a_new_pause_takes_the_place_of_the_one_before(engine: SimulatedEngine) -> None:
    operations = Operations(engine.engine, engine.daemon)
    operations.pause(60.0)
    operations.pause(HOUR)
    turn_for(engine, 90)
    assert operations.status()["rest"] is not None
    for seconds in (0.0, -1.0, 400 * DAY, float("nan")):
        with pytest.raises(UsageError):
            operations.pause(seconds)


def test_in_quiet_hours_files_wait_and_a_changed_setting_is_followed_at_once(engine: SimulatedEngine) -> None:
    now = engine.clock.now()
    engine.configure(NOTES, text=quiet_hours(engine, now - HOUR, now + HOUR))
    engine.write(FIRST, "quince")
    turn_for(engine, 5)
    assert engine.state(FIRST) == WAITING
    rest = Operations(engine.engine, engine.daemon).status()["rest"]
    assert rest["reason"] == "quiet_hours"
    assert "until " + time.strftime("%H:%M", time.localtime(now + HOUR)) in rest["detail"]
    engine.configure(NOTES)
    turn_for(engine, 5)
    assert engine.state(FIRST) == INDEXED


def test_quiet_hours_end_by_themselves(engine: SimulatedEngine) -> None:
    now = engine.clock.now()
    engine.configure(NOTES, text=quiet_hours(engine, now - HOUR, now + HOUR))
    engine.write(FIRST, "quince")
    turn_for(engine, 5)
    assert engine.state(FIRST) == WAITING
    engine.clock.advance(HOUR)
    turn_for(engine, 5)
    assert engine.state(FIRST) == INDEXED


def test_on_the_battery_files_wait_where_that_is_wanted(engine: SimulatedEngine) -> None:
    """S07: a machine that is plugged in again goes on within half a minute."""
    engine.configure(NOTES, text='[resources]\non_battery = "pause"\n')
    engine.world.power.on_battery = True
    turn_for(engine, 31)
    engine.write(FIRST, "quince")
    turn_for(engine, 5)
    assert engine.state(FIRST) == WAITING
    rest = Operations(engine.engine, engine.daemon).status()["rest"]
    assert (rest["reason"], rest["until"]) == ("battery", None)
    looks = engine.world.power.looks
    turn_for(engine, 60)
    assert engine.world.power.looks - looks <= 3, "every worker asks; the system is asked seldom"
    engine.world.power.on_battery = False
    turn_for(engine, 31)
    assert engine.state(FIRST) == INDEXED


def test_on_the_battery_one_file_at_a_time_is_read_and_what_can_wait_waits(engine: SimulatedEngine) -> None:
    """S07: as it is set without a word."""
    engine.world.power.on_battery = True
    for number in range(6):
        engine.fs.write(f"{NOTES}/{number}.md", b"quince")
    engine.clock.advance(31.0)
    engine.daemon.rescan()
    assert engine.loops.rescans.step()
    while engine.loops.producer.step():
        engine.clock.advance(1.0)
    assert [worker.step() for worker in engine.loops.workers].count(True) == 1
    operations = Operations(engine.engine, engine.daemon)
    status = operations.status()
    assert (status["slowed"], status["rest"]) == (True, None)
    operations.reindex("vectors")
    assert not engine.loops.reindexer.step()
    reindex = operations.reindex_status()
    assert (reindex["state"], "battery" in reindex["error"]) == ("waiting", True)
    turn_for(engine, 5)
    assert engine.kb.unsettled() == 0
    engine.world.power.on_battery = False
    turn_for(engine, 31)
    engine.settle()
    assert operations.reindex_status()["state"] == "idle"


def test_the_index_is_made_anew_after_the_rest(engine: SimulatedEngine) -> None:
    engine.write(FIRST, "quince")
    engine.settle()
    operations = Operations(engine.engine, engine.daemon)
    operations.pause(None)
    answer = operations.reindex("vectors")
    turn_for(engine, 5)
    assert (answer["state"], answer["error"]) == ("waiting", operations.status()["rest"]["detail"])
    assert operations.reindex_status()["state"] == "waiting"
    operations.resume()
    engine.settle()
    assert operations.reindex_status()["state"] == "idle"


def test_a_job_that_a_person_wants_again_goes_ahead(engine: SimulatedEngine) -> None:
    engine.engine.rest.pause(None)
    engine.write(FIRST, "quince")
    engine.write(SECOND, "medlar")
    turn_for(engine, 5)
    job = next(job for job in engine.kb.jobs(state="queued", limit=9)[0] if job.path == FIRST)
    engine.kb.retry_job(job.id)
    turn_for(engine, 5)
    assert [engine.state(path) for path in (FIRST, SECOND)] == [INDEXED, WAITING]


def test_a_run_that_somebody_waits_for_rests_not(world: World) -> None:
    engine = SimulatedEngine(world)
    engine.engine.rest.pause(None)
    engine.write(FIRST, "quince")
    assert build_daemon(engine.engine, rests=False).loops.rest.now() is None
    engine.settle()
    assert engine.found("quince") == [FIRST]
    assert engine.engine.readers.read(stored_pause) is not None, "the pause stands for the daemon"
    engine.close()


def test_timed_walks_rest_too_and_are_made_up_for(engine: SimulatedEngine) -> None:
    engine.daemon.scheduler.start({}, 0.0)
    engine.engine.rest.pause(HOUR)
    engine.fs.write(FIRST, b"quince")  # nobody tells
    engine.clock.advance(1000.0)
    turn_for(engine, 5)
    with pytest.raises(NotFound):
        engine.state(FIRST)
    schedule = {entry["name"]: entry for entry in Operations(engine.engine, engine.daemon).status()["schedule"]}
    assert schedule["rescan"]["state"] == "waiting"
    assert "Paused by you" in schedule["rescan"]["detail"]
    engine.daemon.rescan()
    turn_for(engine, 5)
    assert engine.state(FIRST) == WAITING, "somebody asked"
    engine.fs.write(SECOND, b"medlar")
    engine.clock.advance(HOUR)
    turn_for(engine, 10)
    assert [engine.state(path) for path in (FIRST, SECOND)] == [INDEXED, INDEXED]
