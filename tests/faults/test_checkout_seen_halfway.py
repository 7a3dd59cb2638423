"""W12, F18: a walk that comes by while branches are checked out concludes nothing from what is away for a moment."""

from __future__ import annotations

import pytest

from tests.fakes.simulated_engine import NOTES, SimulatedEngine

FILES, MOVED = 40, 25


def text_of(number: int) -> str:
    return f"leaf number {number} of the tree"


def current(engine: SimulatedEngine) -> int:
    return len(engine.documents("current"))


@pytest.fixture
def checked_out(engine: SimulatedEngine) -> SimulatedEngine:
    """Return an engine that knows a folder of old files."""
    for number in range(FILES):
        engine.fs.write(f"{NOTES}/{number}.md", text_of(number).encode())
    engine.rescan()
    engine.rescan()
    assert current(engine) == FILES
    return engine


def walk(engine: SimulatedEngine) -> None:
    engine.daemon.rescan()
    assert engine.loops.rescans.step()


def test_many_files_that_are_away_while_others_change_are_neither_hidden_nor_held(checked_out: SimulatedEngine) -> None:
    engine, embedded = checked_out, len(checked_out.embedded())
    for number in range(MOVED):
        engine.fs.remove(f"{NOTES}/{number}.md")
    walk(engine)
    engine.clock.advance(3.0)
    engine.fs.write(f"{NOTES}/39.md", text_of(39).encode())  # as it was, but just written
    walk(engine)
    assert engine.source_state() == ("watching", None)
    assert current(engine) == FILES
    for number in range(MOVED):
        engine.fs.write(f"{NOTES}/moved/{number}.md", text_of(number).encode())
    while not engine.daemon.settled(0):
        engine.turn()
        assert current(engine) == FILES
        engine.clock.advance(0.25)
    engine.rescan()
    assert current(engine) == FILES
    assert engine.found("leaf number 7")[0] == f"{NOTES}/moved/7.md"
    assert len(engine.embedded()) == embedded


def test_what_stays_away_is_concluded_about_once_nothing_changes_any_more(checked_out: SimulatedEngine) -> None:
    engine = checked_out
    for number in range(MOVED):
        engine.fs.remove(f"{NOTES}/{number}.md")
    engine.rescan()
    assert engine.source_state()[0] == "held"
    assert current(engine) == FILES


def test_a_folder_that_changes_for_ever_is_concluded_about_within_two_minutes(checked_out: SimulatedEngine) -> None:
    engine = checked_out
    for number in range(MOVED):
        engine.fs.remove(f"{NOTES}/{number}.md")
    for beat in range(40):
        engine.fs.write(f"{NOTES}/39.md", b"beat %d" % beat)
        walk(engine)
        engine.clock.advance(3.0)
    assert engine.source_state()[0] == "held"
