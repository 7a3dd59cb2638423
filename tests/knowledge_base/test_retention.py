"""What nothing holds any more goes in its time, or at once and for good; no only copy goes by the clock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kbsync.errors import NotFound, UsageError
from tests.fakes.simulated_engine import NOTES, SimulatedEngine

PATH = f"{NOTES}/quince.md"
# Stemming leaves it alone, so that it stands in the full-text index as it is.
CANARY = "zyxquomber"
DAY_S = 86400.0

LOOK = """
import pathlib, sys
needle = sys.argv[2].encode()
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*")):
    if path.is_file() and needle in path.read_bytes().lower():
        print(path.name)
"""


def files_with(home: Path, word: str) -> list[str]:
    """Return the files in which a word stands, read by another process: this one may hold connections to them."""
    outcome = subprocess.run([sys.executable, "-c", LOOK, home, word], capture_output=True, text=True, check=True)
    return outcome.stdout.split()


def superseded(engine: SimulatedEngine) -> int:
    """Have a document replaced by another version and return its number."""
    engine.write(PATH, "quince jam")
    engine.settle()
    (document_id, *_), *_ = engine.documents()
    engine.write(PATH, "medlar jelly")
    engine.settle()
    engine.clock.advance(10)
    return document_id


def states(engine: SimulatedEngine) -> list[str]:
    return [state for _, _, state in engine.documents()]


def test_an_older_version_is_deleted_when_its_time_is_over_and_not_before(engine: SimulatedEngine) -> None:
    superseded(engine)
    engine.clock.advance(29 * DAY_S)
    assert engine.kb.retention.expire(30) == 0
    engine.clock.advance(2 * DAY_S)
    assert engine.kb.retention.expire(30) == 1
    assert states(engine) == ["current"]
    assert engine.kb.check() == []
    assert engine.found("medlar") == [PATH]


def test_what_is_kept_for_ever_is_never_deleted(engine: SimulatedEngine) -> None:
    superseded(engine)
    engine.clock.advance(10_000 * DAY_S)
    assert engine.kb.retention.expire(None) == 0
    assert "superseded" in states(engine)


def test_a_file_that_is_gone_goes_with_its_row_in_the_ledger(engine: SimulatedEngine) -> None:
    engine.write(f"{NOTES}/stays.md", "medlar")
    engine.write(PATH, "quince")
    engine.settle()
    engine.remove(PATH)
    engine.settle()
    engine.rescan()
    assert sorted(states(engine)) == ["current", "missing"]
    engine.clock.advance(31 * DAY_S)
    assert engine.kb.retention.expire(30) == 1
    assert engine.read("SELECT count(*) FROM files WHERE state = 'gone'") == [(0,)]
    assert [row[0] for row in engine.read("SELECT kind FROM events ORDER BY id DESC LIMIT 1")] == ["expired"]


def test_what_was_added_by_hand_is_never_deleted_by_the_clock(engine: SimulatedEngine) -> None:
    engine.fs.write("/simulated/desk/quince.md", b"quince")
    engine.add("/simulated/desk/quince.md")
    engine.note("a note of medlars")
    # As if everything that brought them had ended: kbsync's copy is still the only one.
    engine.engine.writer.run(lambda connection: connection.execute("UPDATE documents SET state = 'missing'").fetchall())
    engine.clock.advance(1000 * DAY_S)
    assert engine.kb.retention.expire(1) == 0
    assert len(engine.documents()) == 2
    purge, _ = engine.kb.retention.purge()
    assert (purge.documents, len(purge.kept)) == ((), 2)
    assert len(os.listdir(engine.world.locations.documents_dir)) == 1


def test_very_many_are_deleted_in_small_steps_until_none_is_left(engine: SimulatedEngine) -> None:
    engine.write(f"{NOTES}/stays.md", "medlar")
    for number in range(120):
        engine.write(f"{NOTES}/{number}.md", f"quince {number}")
    engine.settle()
    for number in range(120):
        engine.write(f"{NOTES}/{number}.md", f"medlar {number}")
    engine.settle()
    engine.clock.advance(31 * DAY_S)
    assert engine.kb.retention.expire(30) == 120
    assert engine.kb.check() == []


def test_the_daemon_deletes_what_is_over_its_time_in_its_upkeep(engine: SimulatedEngine) -> None:
    superseded(engine)
    engine.clock.advance(31 * DAY_S)
    engine.daemon.upkeep.ask()
    engine.daemon.upkeep.step()
    assert states(engine) == ["current"]


def test_a_setting_decides_how_long_versions_are_kept(engine: SimulatedEngine) -> None:
    superseded(engine)
    engine.configure(NOTES, text='keep_versions_days = "forever"\n')
    engine.clock.advance(1000 * DAY_S)
    engine.daemon.upkeep.ask()
    engine.daemon.upkeep.step()
    assert "superseded" in states(engine)
    engine.configure(NOTES, text="keep_versions_days = 3\n")
    engine.daemon.upkeep.ask()
    engine.daemon.upkeep.step()
    assert states(engine) == ["current"]


def test_a_purge_leaves_no_byte_of_what_was_deleted(engine: SimulatedEngine) -> None:
    """A11: neither in rows, full-text segments, free pages nor the log; titles and kept conversions included."""
    home = engine.world.home
    engine.write(f"{NOTES}/stays.md", "# Stays\n\nA medlar.")
    # One whose file goes, one that is replaced, one that a person removed, and a document that was converted.
    engine.write(f"{NOTES}/goes.md", f"# {CANARY} heading\n\nThe {CANARY} of the one that goes.")
    engine.write(PATH, f"# Old\n\nThe {CANARY} of the older version.")
    engine.fs.write(
        f"{NOTES}/removed.md", f"# {CANARY} removed\n\n{f'The {CANARY} that nobody wants. ' * 400}".encode()
    )
    engine.fs.write(f"{NOTES}/paper.pdf", f"{CANARY} on paper".encode())
    engine.rescan()
    wanted = next(number for number, title, _ in engine.documents() if title.endswith("removed"))
    engine.kb.remove_document(wanted)
    engine.write(PATH, "# New\n\nA quince.")
    engine.remove(f"{NOTES}/goes.md")
    engine.remove(f"{NOTES}/paper.pdf")
    engine.settle()
    engine.rescan()
    engine.clock.advance(10)
    assert files_with(home, CANARY), "the test looks where nothing is"
    purge, complete = engine.kb.retention.purge()
    assert (len(purge.documents), complete) == (3, True)
    assert engine.kb.check() == []
    assert engine.found("quince medlar") != []
    assert files_with(home, CANARY) == []
    engine.close()
    assert files_with(home, CANARY) == []


def test_a_purge_takes_what_is_older_or_the_one_that_is_named(engine: SimulatedEngine) -> None:
    first = superseded(engine)
    engine.clock.advance(5 * DAY_S)
    engine.write(PATH, "a third version")
    engine.settle()
    engine.clock.advance(10)
    retention = engine.kb.retention
    assert [one.id for one in retention.to_purge(older_than_days=4).documents] == [first]
    assert len(retention.to_purge().documents) == 2
    assert len(engine.documents()) == 3, "asking deletes nothing"
    second = max(one.id for one in retention.to_purge().documents)
    retention.purge(document_id=second)
    assert [number for number, _, state in engine.documents() if state != "current"] == [first]
    current = next(number for number, _, state in engine.documents() if state == "current")
    with pytest.raises(UsageError, match="current"):
        retention.purge(document_id=current)
    with pytest.raises(NotFound):
        retention.purge(document_id=second)


def test_a_purge_of_a_document_that_only_kbsync_holds_takes_its_copy_too(engine: SimulatedEngine) -> None:
    engine.fs.write("/simulated/desk/quince.md", b"quince")
    document_id = engine.add("/simulated/desk/quince.md").document_id
    engine.engine.writer.run(
        lambda connection: connection.execute(
            "UPDATE origins SET live = 0, until = 1, ended_because = 'missing'"
        ).fetchall()
    )
    engine.engine.writer.run(lambda connection: connection.execute("UPDATE documents SET state = 'missing'").fetchall())
    engine.engine.writer.run(lambda connection: connection.execute("DELETE FROM names_fts").fetchall())
    engine.kb.retention.purge(document_id=document_id)
    assert os.listdir(engine.world.locations.documents_dir) == []
    assert engine.documents() == []


# ---- a clock that is wrong ----


def small_steps(engine: SimulatedEngine, days: int) -> list[int]:
    """Let days pass, with the daily upkeep; return how many documents went on each."""
    gone = []
    for _ in range(days):
        engine.clock.advance(DAY_S)
        gone.append(engine.kb.retention.expire(30))
    return gone


@pytest.mark.parametrize("at_a_start", [True, False])
def test_a_clock_that_leaps_a_year_deletes_nothing_before_the_whole_time_passed_again(
    engine: SimulatedEngine, at_a_start: bool
) -> None:
    """P15: all older versions would be gone at once; wrong or right, they are kept as long as was promised."""
    engine.kb.retention.note_time(30)
    superseded(engine)
    assert small_steps(engine, 3) == [0, 0, 0]
    engine.clock.jump(365 * DAY_S)
    if at_a_start:
        engine.kb.retention.note_time(30)
    assert small_steps(engine, 29) == [0] * 29
    assert sum(small_steps(engine, 3)) == 1
    assert states(engine) == ["current"]


def test_a_clock_that_was_wrong_for_a_while_costs_nothing_when_it_is_right_again(engine: SimulatedEngine) -> None:
    """P15: a year on and back; what was due goes when it is due, not a year later."""
    engine.kb.retention.note_time(30)
    superseded(engine)
    small_steps(engine, 3)
    engine.clock.jump(365 * DAY_S)
    assert small_steps(engine, 2) == [0, 0]
    engine.clock.jump(-365 * DAY_S)
    assert sum(small_steps(engine, 31)) == 1


def test_a_clock_that_is_set_back_deletes_nothing_sooner(engine: SimulatedEngine) -> None:
    """P15: what was due in two days is due in two days and a year, unless the clock is set right."""
    engine.kb.retention.note_time(30)
    superseded(engine)
    small_steps(engine, 28)
    engine.clock.jump(-365 * DAY_S)
    assert small_steps(engine, 10) == [0] * 10


@pytest.mark.parametrize("keep_days", [0, 1, 3])
def test_a_short_time_is_kept_too_by_who_looks_once_a_day(engine: SimulatedEngine, keep_days: int) -> None:
    """P15: a day between two looks is no leap; and a machine that is off over the weekend deletes on the next day."""
    engine.kb.retention.note_time(keep_days)
    superseded(engine)
    engine.clock.advance(3 * DAY_S)
    gone = engine.kb.retention.expire(keep_days)
    for _ in range(keep_days + 2):
        engine.clock.advance(DAY_S)
        gone += engine.kb.retention.expire(keep_days)
    assert gone == 1
