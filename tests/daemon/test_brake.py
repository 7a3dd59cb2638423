"""Deletes: two looks, the brake, a person's word; and what a person pauses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kbsync.errors import NotFound, UsageError
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

DAY_S = 86_400.0
HOUR_S = 3600.0


def _path(number: int, folder: str = NOTES) -> str:
    return f"{folder}/n{number}.md"


def word(number: int) -> str:
    """Return a word of letters only: what is counted in digits is found by its first part too."""
    return "quince" + "".join(chr(ord("a") + int(digit)) * 2 for digit in str(number))


def _fill(engine: SimulatedEngine, files: int = 60, folder: str = NOTES) -> None:
    for number in range(files):
        engine.fs.write(_path(number, folder), f"# Note {number}\n\n{word(number)} in {folder}".encode())
    engine.rescan()


def _remove(engine: SimulatedEngine, first: int, behind: int) -> None:
    for number in range(first, behind):
        engine.fs.remove(_path(number))


def _current(engine: SimulatedEngine) -> int:
    return len(engine.documents("current"))


@pytest.fixture
def filled(engine: SimulatedEngine) -> SimulatedEngine:
    """Sixty files, indexed."""
    _fill(engine)
    return engine


def test_one_deleted_file_is_hidden_within_some_three_seconds(filled: SimulatedEngine) -> None:
    filled.clock.advance(100)
    filled.remove(_path(1))
    waited = 0.0
    while filled.found(word(1)):
        filled.turn()
        filled.clock.advance(0.1)
        waited += 0.1
        assert waited < 4.0
    assert waited > 2.0


def test_a_file_that_is_away_at_one_look_only_is_never_hidden(filled: SimulatedEngine) -> None:
    """W12: however often it goes and comes."""
    for _ in range(5):
        filled.fs.rename(_path(1), "/simulated/aside.md")
        filled.clock.advance(100)
        filled.daemon.rescan()
        assert filled.loops.rescans.step()
        filled.fs.rename("/simulated/aside.md", _path(1))
        filled.clock.advance(2.1)
        assert filled.loops.rescans.step(), "the second look"
        assert filled.found(word(1)) == [_path(1)]
        assert not filled.loops.rescans.pending()
    assert filled.read("SELECT count(*) FROM events WHERE kind = 'gone'") == [(0,)]


def test_many_files_that_go_at_once_are_held_and_all_else_goes_on(
    filled: SimulatedEngine, started: Callable[[], SimulatedEngine]
) -> None:
    """F27"""
    engine = filled
    _remove(engine, 0, 25)
    engine.write(f"{NOTES}/new.md", "medlar")
    engine.write(_path(40), "sloe")
    for _ in range(3):
        engine.rescan()
        assert engine.source_state() == ("held", None)
        assert engine.found(word(1)) == [_path(1)]
        assert (engine.found("medlar"), engine.found("sloe")) == ([f"{NOTES}/new.md"], [_path(40)])
        row = engine.kb.sources()[0][0]
        assert row.held is not None
        assert (row.held.missing, row.held.known) == (25, 61)
        assert row.detail is not None
        assert "25 of 61 files" in row.detail
        assert f"kbsync sources confirm {NOTES}" in row.detail
        engine = started()
    before = engine.dump()
    engine.rescan()
    engine.rescan()
    assert engine.dump() == before, "held writes nothing"


def test_what_is_held_goes_when_a_person_says_so_and_counts_no_more(
    filled: SimulatedEngine, started: Callable[[], SimulatedEngine]
) -> None:
    """F27, F28"""
    _remove(filled, 0, 25)
    filled.rescan()
    filled.engine.source_control.confirm(NOTES)
    engine = started()  # a person's word outlives the process
    engine.settle()
    assert engine.source_state() == ("watching", None)
    assert _current(engine) == 35
    assert engine.read("SELECT held, confirmed FROM sources") == [(None, None)]
    _remove(engine, 25, 27)
    engine.rescan()
    assert engine.source_state() == ("watching", None)
    assert _current(engine) == 33


def test_a_yes_to_some_is_none_to_all(filled: SimulatedEngine) -> None:
    _fill(filled, 60, f"{NOTES}/more")
    filled.clock.advance(2 * HOUR_S)
    _remove(filled, 0, 40)
    filled.rescan()
    assert filled.source_state() == ("held", None)
    filled.engine.source_control.confirm(NOTES)
    filled.fs.remove(f"{NOTES}/more")
    filled.fs.write(f"{NOTES}/stays.md", b"stays")
    filled.rescan()
    assert filled.source_state() == ("held", None)
    assert _current(filled) == 121


def test_what_is_held_is_let_go_by_itself_when_the_files_are_back(filled: SimulatedEngine) -> None:
    filled.fs.rename(NOTES, "/simulated/aside")
    filled.fs.rename("/simulated/aside", NOTES)
    for number in range(30):
        filled.fs.rename(_path(number), f"/simulated/away/n{number}.md")
    filled.rescan()
    assert filled.source_state() == ("held", None)
    embedded = len(filled.embedded())
    for number in range(28):
        filled.fs.rename(f"/simulated/away/n{number}.md", _path(number))
    filled.rescan()
    assert filled.source_state() == ("watching", None)
    assert _current(filled) == 58, "two are gone, which is nothing special"
    assert len(filled.embedded()) == embedded
    assert filled.read("SELECT held FROM sources") == [(None,)]


def test_what_is_held_goes_after_three_looks_that_agree_over_a_day(
    filled: SimulatedEngine, started: Callable[[], SimulatedEngine]
) -> None:
    """F28: each look by another process."""
    engine = filled
    _remove(engine, 0, 25)
    for _ in range(6):
        engine.rescan()
        assert (engine.source_state(), _current(engine)) == (("held", None), 60)
        engine.clock.advance(4.5 * HOUR_S)
        engine = started()
        engine.settle()
    for _ in range(3):
        engine.clock.advance(9 * HOUR_S)
        engine.rescan()
    assert (engine.source_state(), _current(engine)) == (("watching", None), 35)


@pytest.mark.parametrize("jump_s", [365 * DAY_S, -365 * DAY_S])
def test_a_clock_that_jumps_hides_nothing_that_is_held(filled: SimulatedEngine, jump_s: float) -> None:
    """P15, I15"""
    _remove(filled, 0, 25)
    filled.rescan()
    filled.clock.jump(jump_s)
    for _ in range(3):
        filled.rescan()
        assert _current(filled) == 60


def test_what_is_held_is_let_go_soon_after_the_files_are_back_whatever_events_tell(filled: SimulatedEngine) -> None:
    _remove(filled, 0, 25)
    filled.rescan()
    assert filled.source_state() == ("held", None)
    filled.loops.rescans.mark_held()
    assert not filled.loops.rescans.pending(), "looked for a moment ago"
    for number in range(25):
        filled.fs.write(_path(number), f"# Note {number}\n\n{word(number)} in {NOTES}".encode())
    filled.clock.advance(11)
    filled.loops.rescans.mark_held()
    filled.settle()
    assert filled.source_state() == ("watching", None)
    assert _current(filled) == 60


def test_two_halves_within_an_hour_count_together(filled: SimulatedEngine) -> None:
    """F27: 18 of 60 may go, and not 18 more right after."""
    _remove(filled, 0, 18)
    filled.rescan()
    assert (filled.source_state(), _current(filled)) == (("watching", None), 42)
    _remove(filled, 18, 36)
    filled.rescan()
    assert (filled.source_state(), _current(filled)) == (("held", None), 42)
    assert "18 of 60 files are missing, after 18 within the last hour;" in str(filled.kb.sources()[0][0].detail)
    filled.clock.advance(2 * HOUR_S)
    filled.rescan()
    assert (filled.source_state(), _current(filled)) == (("watching", None), 24)


def test_what_moves_is_not_missing(filled: SimulatedEngine) -> None:
    """F27: after moves are paired, by inode and by content; and a document that is elsewhere too is not lost."""
    _fill(filled, 3, "/simulated/elsewhere")
    for number in range(30):
        filled.fs.rename(_path(number), f"{NOTES}/moved/n{number}.md")
    for number in range(30, 60):
        filled.fs.remove(_path(number))
        filled.fs.write(f"{NOTES}/anew/n{number}.md", f"# Note {number}\n\n{word(number)} in {NOTES}".encode())
    filled.watchers[-1].lose_events()
    for _ in range(60):
        filled.turn()
        assert filled.source_state() == ("watching", None)
        filled.clock.advance(0.25)
    filled.settle()
    assert _current(filled) == 60
    assert filled.found(word(7)) == [f"{NOTES}/moved/n7.md"]
    assert filled.found(word(37)) == [f"{NOTES}/anew/n37.md"]


def test_copies_that_go_while_others_stay_are_not_held_and_all_copies_at_once_are(engine: SimulatedEngine) -> None:
    """F17, F27"""
    for folder in ("one", "two"):
        for number in range(30):
            engine.fs.write(f"{NOTES}/{folder}/n{number}.md", f"# Note {number}\n\nquince".encode())
    engine.fs.write(f"{NOTES}/stays.md", b"stays")
    engine.rescan()
    engine.fs.rename(f"{NOTES}/one", "/simulated/one")
    engine.rescan()
    assert engine.source_state() == ("watching", None)
    engine.fs.rename("/simulated/one", f"{NOTES}/one")
    engine.rescan()
    engine.fs.remove(f"{NOTES}/one")
    engine.fs.remove(f"{NOTES}/two")
    engine.rescan()
    assert engine.source_state() == ("held", None)


def test_what_a_rule_or_a_setting_leaves_out_is_not_missing(filled: SimulatedEngine) -> None:
    _fill(filled, 60, f"{NOTES}/build")
    assert filled.found(word(7)) != []
    filled.configure(NOTES, ignore=["build/"])
    filled.settle()
    assert (filled.source_state(), _current(filled)) == (("watching", None), 60)
    filled.configure(NOTES)
    filled.settle()
    assert _current(filled) == 120
    text = (filled.world.home / "config.toml").read_text()
    (filled.world.home / "config.toml").write_text(text + "recursive = false\n")
    filled.daemon.reload()
    filled.settle()
    assert (filled.source_state(), _current(filled)) == (("watching", None), 60)


def test_the_share_is_a_setting_that_is_followed_while_running(filled: SimulatedEngine) -> None:
    filled.configure(NOTES, text="max_missing_share = 0.9\n")
    _remove(filled, 0, 50)
    filled.rescan()
    assert (filled.source_state(), _current(filled)) == (("watching", None), 10)


@pytest.mark.parametrize("files", [3, 60])
def test_a_folder_emptied_on_purpose_is_empty_once_a_person_says_so(engine: SimulatedEngine, files: int) -> None:
    """F28"""
    _fill(engine, files)
    _remove(engine, 0, files)
    engine.rescan()
    assert (engine.source_state(), _current(engine)) == (("paused", "empty"), files)
    engine.engine.source_control.confirm(NOTES)
    engine.settle()
    assert (engine.source_state(), _current(engine)) == (("watching", None), 0)
    engine.write(_path(1), "medlar")
    engine.settle()
    assert engine.found("medlar") == [_path(1)]


def test_a_folder_emptied_on_purpose_is_empty_after_a_day(engine: SimulatedEngine) -> None:
    """F28: the same folder on the same disk, three looks."""
    _fill(engine, 3)
    _remove(engine, 0, 3)
    engine.rescan()
    for _ in range(3):
        assert (engine.source_state(), _current(engine)) == (("paused", "empty"), 3)
        engine.clock.advance(9 * HOUR_S)
        engine.rescan()
    assert (engine.source_state(), _current(engine)) == (("watching", None), 0)


# ---- a person's pause ----


def test_a_paused_source_is_not_looked_at_and_its_jobs_wait_over_restarts(
    filled: SimulatedEngine, started: Callable[[], SimulatedEngine]
) -> None:
    filled.write(f"{NOTES}/queued.md", "medlar")
    for _ in range(8):
        filled.loops.producer.step()
        filled.clock.advance(0.25)
    filled.engine.source_control.pause(NOTES)
    engine = started()
    for _ in range(3):
        engine.fs.fail(NOTES, AssertionError("looked at"))  # type: ignore[arg-type]  # anything that nobody catches
        engine.report(_path(1), closed=True)
        engine.rescan()
        engine.fs.heal(NOTES)
        assert engine.source_state() == ("paused", "by_you")
        assert engine.found(word(1)) == [_path(1)]
        assert engine.found("medlar") == []
        assert engine.read("SELECT count(*) FROM jobs WHERE state = 'queued'") == [(1,)]
        engine.configure(NOTES, ignore=["*.tmp"])
        engine = started()
    engine.fs.remove(_path(1))
    engine.engine.source_control.resume(NOTES)
    engine.settle()
    assert engine.source_state() == ("watching", None)
    assert (engine.found(word(1)), engine.found("medlar")) == ([], [f"{NOTES}/queued.md"])


def test_a_pause_that_comes_during_a_walk_stays(filled: SimulatedEngine) -> None:
    filled.clock.advance(100)
    filled.daemon.rescan()
    filled.fs.write(f"{NOTES}/new.md", b"medlar")
    filled.engine.source_control.pause(NOTES)
    filled.loops.rescans.step()
    filled.settle()
    assert filled.source_state() == ("paused", "by_you")


def test_a_source_that_is_taken_out_while_paused_comes_back_as_a_new_one(filled: SimulatedEngine) -> None:
    filled.engine.source_control.pause(NOTES)
    filled.configure()
    filled.configure(NOTES)
    filled.settle()
    assert filled.source_state() == ("watching", None)
    assert filled.found(word(1)) == [_path(1)]


def test_a_persons_word_where_nothing_waits_for_it_is_refused_with_the_next_step(
    filled: SimulatedEngine, world: World
) -> None:
    control = filled.engine.source_control
    for ask in (control.pause, control.resume, control.confirm):
        with pytest.raises(NotFound, match="sources list"):
            ask("/simulated/nowhere")
    with pytest.raises(UsageError, match="not paused by you"):
        control.resume(NOTES)
    with pytest.raises(UsageError, match="Nothing of"):
        control.confirm(NOTES)
    control.pause(NOTES)
    control.pause(NOTES)
    with pytest.raises(UsageError, match="sources resume"):
        control.confirm(NOTES)
    control.resume(NOTES)
    _remove(filled, 0, 25)
    filled.rescan()
    with pytest.raises(UsageError, match="sources confirm"):
        control.resume(NOTES)
    world.fs.rename(NOTES, "/simulated/away")
    filled.rescan()
    with pytest.raises(UsageError, match="is not there"):
        control.resume(NOTES)
    with pytest.raises(UsageError, match="by itself when it is back"):
        control.confirm(NOTES)


def test_what_happens_to_a_source_is_in_its_history(filled: SimulatedEngine) -> None:
    control = filled.engine.source_control
    control.pause(NOTES)
    control.resume(NOTES)
    filled.settle()
    _remove(filled, 0, 25)
    filled.rescan()
    control.confirm(NOTES)
    filled.settle()
    filled.fs.rename(NOTES, "/simulated/away")
    filled.rescan()
    filled.fs.rename("/simulated/away", NOTES)
    filled.rescan()
    kinds = [kind for (kind,) in filled.read("SELECT kind FROM events WHERE path = CAST(? AS BLOB) ORDER BY id", NOTES)]
    assert kinds == ["source_added", "paused", "resumed", "held", "confirmed", "resumed", "paused", "resumed"]
