"""F22: what changed without a sign is found, within a week, at little cost; and the place is kept over restarts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kbsync.daemon import scrub
from kbsync.reasons import FileState
from tests.fakes.simulated_engine import NOTES, SimulatedEngine

HOUR = 3600.0


def week(engine: SimulatedEngine) -> int:
    """Let a week of hours pass; return how many files were read."""
    read = 0
    for _ in range(7 * 24):
        engine.clock.advance(HOUR)
        while engine.loops.scrub.step():
            read += 1
    return read


def test_a_change_that_no_stat_shows_is_found_within_a_week(engine: SimulatedEngine) -> None:
    for number in range(60):
        engine.fs.write(f"{NOTES}/{number}.md", b"# Page\n\nthe larch %02d" % number)
    engine.rescan()
    embedded = len(engine.embedded())
    engine.fs.spoil(f"{NOTES}/7.md", b"# Page\n\nthe mapel 07")
    engine.rescan()
    assert engine.found("mapel") == [], "no walk can see it"
    assert week(engine) >= 60
    engine.settle()
    assert engine.found("mapel") == [f"{NOTES}/7.md"]
    assert len(engine.embedded()) == embedded + 1
    assert engine.kb.check() == []


def test_nothing_is_read_in_a_paused_folder(engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.fs.write(f"{NOTES}/a.md", b"# A\n\nthe larch")
    engine.rescan()
    engine.fs.spoil(f"{NOTES}/a.md", b"# A\n\nthe mapel")
    engine.engine.source_control.pause(NOTES)
    with monkeypatch.context() as patched:
        patched.setattr(engine.fs, "open_file", lambda path: pytest.fail(f"{path} was read"))
        week(engine)
    engine.engine.source_control.resume(NOTES)
    engine.rescan()
    week(engine)
    engine.settle()
    assert engine.found("mapel") == [f"{NOTES}/a.md"]


def test_what_did_not_change_costs_no_job_and_one_row_an_hour(engine: SimulatedEngine) -> None:
    engine.fs.write(f"{NOTES}/a.md", b"# A\n\nthe larch")
    engine.rescan()
    before = engine.dump()
    week(engine)
    after = engine.dump()
    assert {name for name in after if after[name] != before[name]} <= {"meta"}


def test_work_is_bounded_and_every_file_has_its_turn(engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "_MOST_BYTES", 100)
    monkeypatch.setattr(scrub, "_FEWEST_FILES", 4)
    for number in range(10):
        engine.fs.write(f"{NOTES}/{number}.md", b"# %d\n\n" % number + b"x " * 20)
    engine.rescan()
    opened: list[str] = []
    known = engine.fs.open_file

    def counted(path: str) -> object:
        opened.append(path)
        return known(path)

    monkeypatch.setattr(engine.fs, "open_file", counted)
    for _ in range(5):
        before = len(opened)
        engine.clock.advance(HOUR)
        while engine.loops.scrub.step():
            pass
        assert len(opened) - before <= 2, "of about 46 bytes each"
    assert len(set(opened)) == 10


def test_its_place_is_kept_over_a_restart(
    started: Callable[[], SimulatedEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrub, "_FEWEST_FILES", 1)
    life = started()
    life.settle()
    for number in range(3):
        life.fs.write(f"{NOTES}/{number}.md", b"# Page\n\nthe larch %d" % number)
    life.rescan()
    life.clock.advance(HOUR)
    assert life.loops.scrub.step()
    life.fs.spoil(f"{NOTES}/0.md", b"# Page\n\nthe mapel 0")
    life.fs.spoil(f"{NOTES}/1.md", b"# Page\n\nthe mapel 1")
    life = started()
    life.settle()
    assert not life.loops.scrub.step(), "its hour has not come"
    life.clock.advance(HOUR)
    life.settle()
    assert life.found("mapel") == [f"{NOTES}/1.md"], "it goes on where it was"


def test_what_cannot_be_read_or_changes_openly_is_left_to_the_walks(engine: SimulatedEngine) -> None:
    engine.fs.write(f"{NOTES}/a.md", b"# A\n\nthe larch")
    engine.fs.write(f"{NOTES}/b.md", b"# B\n\nthe alder")
    engine.rescan()
    engine.fs.break_at(f"{NOTES}/a.md", 3)
    engine.fs.write(f"{NOTES}/b.md", b"# B\n\nthe aspen")
    jobs = engine.read("SELECT count(*) FROM jobs")
    week(engine)
    assert engine.read("SELECT count(*) FROM jobs") == jobs
    assert engine.state(f"{NOTES}/a.md") == (FileState.INDEXED, None)
    assert engine.found("larch") == [f"{NOTES}/a.md"]


def test_a_clock_that_was_wrong_does_not_end_it(engine: SimulatedEngine) -> None:
    """P15: written by a clock a year ahead, then set right."""
    engine.fs.write(f"{NOTES}/a.md", b"# A\n\nthe larch")
    engine.rescan()
    engine.loops.scrub._due_at = engine.clock.now() + 365 * 86400
    assert engine.loops.scrub.step()
