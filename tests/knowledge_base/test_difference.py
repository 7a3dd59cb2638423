"""What a rescan would do is told without doing it, and is what the rescan then does."""

from __future__ import annotations

import errno

from kbsync.interfaces.operations import Operations
from kbsync.knowledge_base.difference import Change, Difference, differences
from kbsync.reasons import Reason
from kbsync.store import files
from tests.fakes.simulated_engine import NOTES, SimulatedEngine


def looked(engine: SimulatedEngine) -> Difference:
    whole = engine.engine
    now, most_share = engine.clock.now(), whole.settings.max_missing_share
    found = differences(engine.fs, whole.readers, whole.own, whole.sources.all(), now, most_share)
    return Difference(
        tuple(change for one in found for change in one.changes),
        tuple(notice for one in found for notice in one.notices),
    )


def told(engine: SimulatedEngine) -> list[tuple[str, str, str | None, str | None]]:
    return [
        (change.change, change.path.removeprefix(f"{NOTES}/"), change.before, change.reason)
        for change in looked(engine).changes
    ]


def test_each_kind_of_change_is_told_and_nothing_is_done(engine: SimulatedEngine) -> None:
    for name in ("stays", "changes", "goes", "moves"):
        engine.fs.write(f"{NOTES}/{name}.md", name.encode())
    engine.rescan()
    assert told(engine) == []
    engine.fs.write(f"{NOTES}/comes.md", b"comes")
    engine.fs.write(f"{NOTES}/odd.xyz", b"?")
    engine.fs.write(f"{NOTES}/changes.md", b"changed by now")
    engine.fs.remove(f"{NOTES}/goes.md")
    engine.fs.rename(f"{NOTES}/moves.md", f"{NOTES}/moved.md")
    before = engine.dump()
    assert told(engine) == [
        ("changed", "changes.md", None, None),
        ("new", "comes.md", None, None),
        ("gone", "goes.md", None, None),
        ("moved", "moved.md", f"{NOTES}/moves.md", None),
        ("new", "odd.xyz", None, Reason.UNSUPPORTED),
    ]
    assert engine.dump() == before
    engine.rescan()
    engine.rescan()
    assert told(engine) == []


def test_nothing_is_called_gone_where_not_all_can_be_looked_at(engine: SimulatedEngine) -> None:
    engine.fs.write(f"{NOTES}/sub/quince.md", b"quince")
    engine.fs.write(f"{NOTES}/medlar.md", b"medlar")
    engine.rescan()
    engine.fs.remove(f"{NOTES}/medlar.md")
    engine.fs.fail(NOTES, OSError(errno.EIO, "Input/output error"))
    found = looked(engine)
    assert found.changes == ()
    assert len(found.notices) == 1
    assert "Nothing of it is taken for gone." in found.notices[0]


def test_a_folder_that_is_empty_all_at_once_is_no_deletion(engine: SimulatedEngine) -> None:
    engine.fs.write(f"{NOTES}/medlar.md", b"medlar")
    engine.rescan()
    engine.fs.remove(f"{NOTES}/medlar.md")
    found = looked(engine)
    assert found.changes == ()
    assert "Is the disk attached?" in found.notices[0]


def test_a_rule_that_leaves_a_file_out_is_a_change_with_its_reason(engine: SimulatedEngine) -> None:
    engine.fs.write(f"{NOTES}/medlar.md", b"medlar")
    engine.fs.write(f"{NOTES}/quince.md", b"quince")
    engine.rescan()
    engine.configure(NOTES, ignore=["quince.md"])
    assert list(looked(engine).changes) == [Change(NOTES, f"{NOTES}/quince.md", "changed", None, Reason.IGNORED)]


def _fill(engine: SimulatedEngine, folder: str, files: int) -> None:
    for number in range(files):
        engine.fs.write(f"{folder}/n{number}.md", f"note {folder} {number}".encode())
    engine.rescan()
    engine.rescan()


def _same_after_walks(engine: SimulatedEngine, notice: str) -> None:
    """Nothing is called a change, somebody is told why, and walks do nothing either."""
    before, found = engine.index(), looked(engine)
    assert found.changes == ()
    assert any(notice in told for told in found.notices), found.notices
    for _ in range(2):
        engine.rescan()
    assert engine.index() == before


def test_a_file_that_is_read_once_more_to_be_sure_is_no_change(engine: SimulatedEngine) -> None:
    engine.write(f"{NOTES}/medlar.md", "medlar")
    engine.settle()
    engine.engine.writer.run(lambda connection: files.set_hash_due(connection, 1, f"{NOTES}/medlar.md"))
    assert told(engine) == []


def test_what_the_brake_holds_is_not_called_gone(engine: SimulatedEngine) -> None:
    _fill(engine, NOTES, 40)
    for number in range(30):
        engine.fs.remove(f"{NOTES}/n{number}.md")
    _same_after_walks(engine, "30 of 40 files are missing")
    engine.engine.source_control.confirm(NOTES)
    assert len(looked(engine).changes) == 30


def test_another_folder_in_its_place_and_one_that_is_paused_are_not_compared(engine: SimulatedEngine) -> None:
    _fill(engine, NOTES, 3)
    engine.engine.source_control.pause(NOTES)
    engine.fs.write(f"{NOTES}/new.md", b"medlar")
    _same_after_walks(engine, "paused by you")
    engine.engine.source_control.resume(NOTES)
    engine.rescan()
    engine.fs.rename(NOTES, "/simulated/away")
    engine.fs.write(f"{NOTES}/other.md", b"a stranger")
    _same_after_walks(engine, "Another folder")


def test_of_a_disk_below_that_is_away_nothing_is_gone_and_all_else_is_compared(engine: SimulatedEngine) -> None:
    engine.fs.attach_disk(f"{NOTES}/disk")
    _fill(engine, NOTES, 3)
    _fill(engine, f"{NOTES}/disk", 3)
    engine.fs.unmount(f"{NOTES}/disk")
    engine.fs.remove(f"{NOTES}/n1.md")
    found = looked(engine)
    assert [(change.change, change.path) for change in found.changes] == [("gone", f"{NOTES}/n1.md")]
    assert "is away" in found.notices[0]


def test_a_move_between_sources_is_one_change_whichever_of_them_is_asked_for(engine: SimulatedEngine) -> None:
    other = "/simulated/other"
    engine.fs.make_directory(other)
    engine.configure(NOTES, other)
    for number in range(3):
        engine.fs.write(f"{NOTES}/n{number}.md", f"note {number}".encode())
        engine.fs.write(f"{other}/o{number}.md", f"other {number}".encode())
    engine.rescan()
    engine.fs.rename(f"{NOTES}/n1.md", f"{other}/moved.md")
    move = Change(other, f"{other}/moved.md", "moved", f"{NOTES}/n1.md")
    assert list(looked(engine).changes) == [move]
    whole = Operations(engine.engine, None)
    for folder in (NOTES, other):
        record = whole.diff(folder)
        assert [(one["change"], one["from"], one["path"]) for one in record["changes"]] == [
            ("moved", move.before, move.path)
        ]


def test_many_that_moved_to_another_source_are_not_held(engine: SimulatedEngine) -> None:
    other = "/simulated/other"
    engine.fs.make_directory(other)
    engine.configure(NOTES, other)
    engine.fs.write(f"{other}/stays.md", b"medlar")
    _fill(engine, NOTES, 40)
    for number in range(30):
        engine.fs.rename(f"{NOTES}/n{number}.md", f"{other}/n{number}.md")
    found = looked(engine)
    assert {change.change for change in found.changes} == {"moved"}
    assert (len(found.changes), found.notices) == (30, ())
