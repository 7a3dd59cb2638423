"""From hints to jobs: a path is queued once it is quiet, judged as a walk judges it; the rest is a walk's to say."""

from __future__ import annotations

import errno

import pytest

from kbsync.errors import StopEngine
from kbsync.model import Change, Priority
from kbsync.reasons import FileState, Reason
from tests.fakes.simulated_engine import NOTES, SimulatedEngine

PATH = f"{NOTES}/quince.md"


def _queued(engine: SimulatedEngine) -> list[str]:
    return [
        row[0].decode()
        for row in engine.read("SELECT path FROM jobs WHERE state = 'queued' ORDER BY priority, sequence, id")
    ]


def _step_for(engine: SimulatedEngine, seconds: float, every: float = 0.05) -> None:
    for _ in range(round(seconds / every)):
        engine.loops.producer.step()
        engine.clock.advance(every)
    engine.loops.producer.step()


def test_a_closed_file_is_queued_after_a_third_of_a_second(engine: SimulatedEngine) -> None:
    engine.write(PATH, "quince")
    _step_for(engine, 0.25)
    assert _queued(engine) == []
    _step_for(engine, 0.1)
    assert _queued(engine) == [PATH]
    assert engine.state(PATH) == (FileState.WAITING, Reason.QUEUED)


def test_a_file_of_which_nobody_said_that_it_is_closed_waits_the_whole_quiet_time(engine: SimulatedEngine) -> None:
    engine.fs.write(PATH, b"quince")
    engine.report(PATH)
    _step_for(engine, 0.9)
    assert _queued(engine) == []
    _step_for(engine, 0.15)
    assert _queued(engine) == [PATH]


def test_a_file_that_is_written_for_ever_is_queued_after_the_longest_wait(engine: SimulatedEngine) -> None:
    for number in range(59):
        engine.write(PATH, "line\n" * number)
        engine.loops.producer.step()
        assert _queued(engine) == []
        engine.clock.advance(1.0)
        engine.report(PATH)
    _step_for(engine, 1.5, 0.5)
    assert _queued(engine) == [PATH]


def test_a_file_emptied_for_a_moment_is_never_taken_for_empty(engine: SimulatedEngine) -> None:
    engine.write(PATH, "quince")
    engine.settle()
    engine.write(PATH, "")
    _step_for(engine, 0.6)
    engine.write(PATH, "medlar")
    engine.settle()
    assert engine.found("medlar") == [PATH]
    assert engine.read("SELECT count(*) FROM events WHERE kind = 'skipped'") == [(0,)]


def test_many_events_of_one_path_make_one_job(engine: SimulatedEngine) -> None:
    engine.fs.write(PATH, b"quince")
    for _ in range(50):
        engine.report(PATH)
    _step_for(engine, 1.2)
    engine.report(PATH, closed=True)
    _step_for(engine, 0.5)
    assert _queued(engine) == [PATH]


def test_the_newest_change_goes_first(engine: SimulatedEngine) -> None:
    for name in ("first.md", "second.md", "third.md"):
        engine.write(f"{NOTES}/{name}", name)
        _step_for(engine, 0.4)
    assert _queued(engine) == [f"{NOTES}/{name}" for name in ("third.md", "second.md", "first.md")]


def test_a_fresh_change_goes_before_what_a_walk_found_and_of_that_the_small_before_the_large(
    engine: SimulatedEngine,
) -> None:
    for name, size in (("large.md", 900), ("small.md", 9), ("middle.md", 90)):
        engine.fs.write(f"{NOTES}/{name}", b"q" * size)
    engine.clock.advance(10)
    engine.daemon.rescan()
    assert engine.loops.rescans.step()
    engine.write(PATH, "fresh" * 1000)
    _step_for(engine, 0.4)
    assert _queued(engine) == [f"{NOTES}/{name}" for name in ("quince.md", "small.md", "middle.md", "large.md")]


@pytest.mark.parametrize(
    "path",
    [
        f"{NOTES}/node_modules/deep/er.md",
        f"{NOTES}/.git/config.md",
        "/simulated/elsewhere/quince.md",
        f"{NOTES}/../elsewhere/quince.md",
    ],
)
def test_a_path_that_no_walk_would_come_by_is_not_queued(engine: SimulatedEngine, path: str) -> None:
    engine.fs.write(path.replace(f"{NOTES}/..", "/simulated"), b"quince")
    engine.loops.producer.take(Change(engine.watchers[-1].source.id, path, closed=True))
    _step_for(engine, 2)
    assert _queued(engine) == []
    engine.settle()
    assert engine.documents() == []


def test_a_path_behind_a_link_out_of_the_source_is_never_read(engine: SimulatedEngine) -> None:
    engine.fs.write("/simulated/elsewhere/quince.md", b"quince")
    engine.fs.symlink(f"{NOTES}/link", "/simulated/elsewhere")
    engine.loops.producer.take(Change(engine.watchers[-1].source.id, f"{NOTES}/link/quince.md", closed=True))
    engine.settle()
    engine.rescan()
    assert engine.documents() == []
    assert engine.state(f"{NOTES}/link") == (FileState.SKIPPED, Reason.SYMLINK)


def test_a_change_of_a_source_that_is_not_configured_is_dropped(engine: SimulatedEngine) -> None:
    engine.fs.write(PATH, b"quince")
    engine.loops.producer.take(Change(99, PATH, closed=True))
    _step_for(engine, 2)
    assert _queued(engine) == []
    assert engine.loops.producer.idle()


def test_a_gone_path_is_left_to_a_walk(engine: SimulatedEngine) -> None:
    engine.write(PATH, "quince")
    engine.write(f"{NOTES}/stays.md", "medlar")
    engine.settle()
    engine.remove(PATH)
    _step_for(engine, 2)
    assert engine.found("quince") == [PATH], "an event alone deletes nothing"
    assert engine.loops.rescans.step(), "the walk is due"
    assert engine.found("quince") == [PATH], "one look deletes nothing either"
    engine.clock.advance(2.1)
    assert engine.loops.rescans.step(), "the second look is due"
    assert engine.found("quince") == []


def test_a_path_that_cannot_be_looked_at_is_left_to_a_walk(engine: SimulatedEngine) -> None:
    engine.write(PATH, "quince")
    engine.settle()
    engine.fs.fail(NOTES, OSError(errno.EIO, "Input/output error"))
    engine.report(PATH, closed=True)
    _step_for(engine, 2)
    assert engine.loops.rescans.step()
    assert engine.found("quince") == [PATH]


def test_it_is_idle_only_when_nothing_is_on_its_way(engine: SimulatedEngine) -> None:
    producer = engine.loops.producer
    assert producer.idle()
    engine.write(PATH, "quince")
    assert not producer.idle()
    producer.step()
    assert not producer.idle()
    _step_for(engine, 0.5)
    assert producer.idle()
    assert not engine.daemon.settled(0), "its job waits now"


def test_changes_that_could_not_be_queued_are_found_by_a_walk(engine: SimulatedEngine) -> None:
    engine.write(PATH, "quince")
    engine.loops.producer.step()
    engine.clock.advance(0.5)
    engine.engine.writer.close()
    with pytest.raises(StopEngine):
        engine.loops.producer.step()
    engine.engine.writer.open()
    engine.rescan()
    assert engine.found("quince") == [PATH]


def test_an_ignored_file_that_was_indexed_is_hidden_by_its_next_event(engine: SimulatedEngine) -> None:
    engine.write(PATH, "quince")
    engine.settle()
    engine.fs.write(f"{NOTES}/.kbignore", b"quince.md")
    engine.write(PATH, "quince and medlar")
    _step_for(engine, 0.5)
    assert engine.state(PATH) == (FileState.SKIPPED, Reason.IGNORED)
    assert engine.found("quince") == []


@pytest.mark.parametrize("name", [".kbignore", ".gitignore"])
def test_a_changed_rule_file_has_its_source_walked(engine: SimulatedEngine, name: str) -> None:
    engine.write(PATH, "quince")
    engine.settle()
    engine.write(f"{NOTES}/{name}", "quince.md\n")
    engine.settle()
    assert engine.state(PATH) == (FileState.SKIPPED, Reason.IGNORED)
    engine.remove(f"{NOTES}/{name}")
    engine.settle()
    assert engine.found("quince") == [PATH]


def test_what_a_walk_hands_to_the_debounce_does_not_push_ahead_of_a_fresh_change(engine: SimulatedEngine) -> None:
    for number in range(3):
        engine.fs.write(f"{NOTES}/copied-{number}.md", b"# Copied\n\na moment before the walk")
    engine.daemon.rescan()
    assert engine.loops.rescans.step()
    for _ in range(4):
        engine.loops.producer.step()
        engine.clock.advance(0.5)
    engine.write(f"{NOTES}/fresh.md", "# Fresh\n\nquince")
    for _ in range(4):
        engine.loops.producer.step()
        engine.clock.advance(0.5)
    assert engine.read("SELECT count(*) FROM jobs WHERE state = 'queued'") == [(4,)]
    assert engine.loops.workers[0].step()
    assert engine.found("quince") == [f"{NOTES}/fresh.md"]
    priorities = engine.read("SELECT DISTINCT priority FROM jobs WHERE state = 'queued'")
    assert priorities == [(int(Priority.SCAN),)]
