"""What stands in a damaged database alone comes over from it; nothing is converted or embedded twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbsync.knowledge_base import rebuilt
from kbsync.model import IngestOptions
from kbsync.reasons import FileState, Reason
from kbsync.store import vectors
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World
from tests.faults.damaged_library import behind_its_back
from tests.knowledge_base.damaged import PAPER, SCAN, anew, came_of_it, filled, spoil


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World.new(tmp_path / "home")


@pytest.fixture
def engine(world: World) -> Iterator[SimulatedEngine]:
    engine = filled(world)
    yield engine
    engine.close()


def test_the_index_is_the_same_and_nothing_is_converted_or_embedded_again(
    world: World, engine: SimulatedEngine
) -> None:
    before, embedded = engine.index(), len(engine.embedded())
    engine = anew(world, engine)
    assert engine.index() == before
    assert len(engine.embedded()) == embedded
    assert [request.kept is None for request in engine.cage.requests] == [False]
    assert came_of_it(engine).lost == 0
    engine.close()


def test_notes_keep_their_text_title_and_time(world: World, engine: SimulatedEngine) -> None:
    engine.note("Where the key is:\n\n  under the mat ", "Key")
    engine.note("untitled words")
    written = engine.read("SELECT title, title_source, content_hash, created_at FROM documents WHERE type = 'note'")
    engine.clock.advance(1000)
    engine = anew(world, engine)
    now = engine.read("SELECT title, title_source, content_hash, created_at FROM documents WHERE type = 'note'")
    assert sorted(now) == sorted(written)
    assert (came_of_it(engine).notes, came_of_it(engine).damaged_notes) == (2, 0)
    engine.close()


def test_what_was_added_keeps_its_place_its_settings_and_its_time(world: World, engine: SimulatedEngine) -> None:
    engine.add(PAPER, IngestOptions(title="Mine", type="text"))
    job_id = engine.kb.adding.add_upload("sent.md", 6, [b"# Sent"], IngestOptions())
    engine.settle()
    assert engine.job(job_id).state == "done"
    sql = (
        "SELECT kind, path, title, title_source, type, type_by_hand, original_filename, created_at FROM origins "
        "JOIN documents ON documents.id = document_id WHERE kind <> 'path' ORDER BY 1, 2"
    )
    before = engine.read(sql)
    world.fs.remove(PAPER)
    engine.clock.advance(1000)
    engine = anew(world, engine)
    assert engine.read(sql) == before
    assert came_of_it(engine).stored == 2
    assert sorted(os.listdir(world.locations.staging_dir)) == []
    assert len(os.listdir(world.locations.documents_dir)) == 2
    engine.close()


def test_a_stored_copy_that_the_database_says_nothing_of_is_taken_in_by_its_content(
    world: World, engine: SimulatedEngine
) -> None:
    engine.add(PAPER)
    engine.close()
    Path(world.locations.database).write_text("nothing of it is left")
    engine = SimulatedEngine(world)
    engine.settle(engine.daemon.rescan())
    assert "Paper" in [title for _, title, state in engine.documents("current")]
    assert engine.kb.check() == []
    engine.close()


def test_a_stored_copy_whose_job_fails_stays(world: World, engine: SimulatedEngine) -> None:
    paper = "/simulated/papers/paper.pdf"
    world.fs.write(paper, b"%PDF-1.7\nlong text")
    engine.clock.advance(10)
    engine.add(paper)
    engine.close()
    spoil(world)
    for path in Path(world.locations.conversions_dir).iterdir():
        path.unlink()
    engine = SimulatedEngine(world)
    engine.cage.refused.add("paper.pdf")
    engine.settle(engine.daemon.rescan())
    assert engine.kb.jobs(state="failed")[1] == 1
    engine.close()
    SimulatedEngine(world).close()
    assert len(os.listdir(world.locations.documents_dir)) == 1


def test_what_a_person_took_out_stays_out(world: World, engine: SimulatedEngine) -> None:
    engine.kb.remove_document(next(number for number, title, _ in engine.documents() if title == "Left out"))
    engine = anew(world, engine)
    assert engine.state(f"{NOTES}/left.md") == (FileState.SKIPPED, Reason.REMOVED_BY_YOU)
    engine.rename(f"{NOTES}/left.md", f"{NOTES}/moved.md")
    engine.rescan()
    assert engine.state(f"{NOTES}/moved.md") == (FileState.SKIPPED, Reason.REMOVED_BY_YOU)
    engine.close()


def test_a_folder_that_a_person_paused_stays_paused(world: World, engine: SimulatedEngine) -> None:
    engine.engine.source_control.pause(NOTES)
    engine = anew(world, engine)
    assert engine.source_state() == ("paused", "by_you")
    engine.engine.source_control.resume(NOTES)
    engine.rescan()
    assert "Locks" in [title for _, title, _ in engine.documents("current")]
    engine.close()


def test_what_waits_in_the_queue_waits_again(world: World, engine: SimulatedEngine) -> None:
    engine.kb.adding.add_file(PAPER, IngestOptions(title="Waits"))
    engine.kb.adding.add_note("a thought", "Thought")
    engine = anew(world, engine)
    assert {"Waits", "Thought"} <= {title for _, title, _ in engine.documents("current")}
    assert os.listdir(world.locations.staging_dir) == []
    engine.close()


def test_what_waits_is_not_lost_where_the_queue_cannot_be_read(world: World, engine: SimulatedEngine) -> None:
    engine.kb.adding.add_upload("sent.md", 12, [b"# Sent\n\nwords"], IngestOptions())
    engine.close()
    Path(world.locations.database).write_text("nothing of it is left")
    engine = SimulatedEngine(world)
    engine.settle(engine.daemon.rescan())
    assert "Sent" in [title for _, title, _ in engine.documents("current")]
    engine.close()


def test_the_history_goes_on(world: World, engine: SimulatedEngine) -> None:
    before = [(event.at, event.kind, event.path) for event in engine.kb.history(None, 1000)[0]]
    engine = anew(world, engine)
    now = [(event.at, event.kind, event.path) for event in engine.kb.history(None, 1000)[0]]
    assert now[-len(before) :] == before
    kept = next(event for event in engine.kb.history(None, 1000)[0] if event.kind == "rebuilt")
    assert kept.detail is not None
    assert came_of_it(engine).aside in kept.detail
    engine.close()


def test_a_document_that_is_nowhere_any_more_is_counted_and_named(world: World, engine: SimulatedEngine) -> None:
    engine.close()
    world.fs.remove(f"{NOTES}/locks.md")
    path = Path(world.locations.database)
    path.write_bytes(path.read_bytes().replace(b"steve 363", b"stev\xff 363"))
    spoil(world)
    engine = SimulatedEngine(world)
    assert (came_of_it(engine).lost, came_of_it(engine).whole) == (1, 0)
    lost = [event.path for event in engine.kb.history(None, 1000)[0] if event.kind == "lost"]
    assert lost == [f"{NOTES}/locks.md"]
    assert "1 document had no copy and no file" in str(engine.kb.set_aside(world.locations.data_dir))
    engine.close()


def test_a_file_that_went_meanwhile_is_gone_as_ever_and_its_text_is_kept(world: World, engine: SimulatedEngine) -> None:
    engine.close()
    world.fs.remove(f"{NOTES}/locks.md")
    spoil(world)
    engine = SimulatedEngine(world)
    assert (came_of_it(engine).whole, came_of_it(engine).lost) == (1, 0)
    assert engine.found("steve") == [f"{NOTES}/locks.md"]
    engine.rescan()
    engine.rescan()
    assert engine.found("steve") == []
    assert ("Locks", "missing") in [(title, state) for _, title, state in engine.documents()]
    assert engine.state(f"{NOTES}/locks.md")[0] == FileState.GONE
    engine.close()


def test_earlier_versions_come_over(world: World, engine: SimulatedEngine) -> None:
    engine.clock.advance(100)
    engine.write(f"{NOTES}/locks.md", "# Locks\n\nmary 363")
    engine.settle()
    engine.remove(f"{NOTES}/left.md")
    engine.rescan()
    engine.rescan()
    sql = (
        "SELECT title, documents.state, content_hash, kind, path, live, since, until, ended_because, text, embedding "
        "FROM documents JOIN origins ON origins.document_id = documents.id "
        "JOIN chunks ON chunks.document_id = documents.id "
        "JOIN vectors_1 ON chunk_id = chunks.id WHERE documents.state <> 'current' ORDER BY content_hash"
    )
    before, embedded = engine.read(sql), len(engine.embedded())
    assert sorted(row[1] for row in before) == ["missing", "superseded"]
    engine = anew(world, engine)
    assert engine.read(sql) == before
    assert len(engine.embedded()) == embedded
    assert engine.found("mary") == [f"{NOTES}/locks.md"]
    assert engine.found("steve") == []
    engine.write(f"{NOTES}/locks.md", "# Locks\n\nsteve 363")  # the first version again
    engine.settle()
    assert engine.found("steve") == [f"{NOTES}/locks.md"]
    assert len(engine.embedded()) == embedded
    assert engine.kb.check() == []
    engine.close()


def test_no_row_id_is_given_twice(world: World, engine: SimulatedEngine) -> None:
    highest = max(number for number, _, _ in engine.documents())
    engine = anew(world, engine)
    assert min(number for number, _, _ in engine.documents()) > highest
    engine.close()


def test_what_is_kept_for_the_time_after_goes_once_all_is_read(world: World, engine: SimulatedEngine) -> None:
    engine.close()
    spoil(world)
    engine = SimulatedEngine(world)
    engine.kb.prune()
    assert engine.engine.readers.read(vectors.count_salvaged) > 0
    engine.settle(engine.daemon.rescan())
    engine.kb.prune()
    assert engine.engine.readers.read(vectors.count_salvaged) == 0
    assert not engine.engine.readers.read(rebuilt.is_settling)
    engine.close()


def test_what_is_on_a_disk_that_is_away_is_waited_for(world: World) -> None:
    world.configure(NOTES)
    world.fs.attach_disk(NOTES)
    engine = SimulatedEngine(world)
    engine.write(SCAN, b"%PDF-1.7\nfirst and second page")
    engine.settle()
    engine.rescan()
    before, embedded = engine.index(), len(engine.embedded())
    assert len(os.listdir(world.locations.conversions_dir)) == 1
    engine.close()
    spoil(world)
    world.fs.unmount(NOTES)
    for _ in range(2):
        engine = SimulatedEngine(world)
        engine.settle(engine.daemon.rescan())
        assert engine.source_state()[0] == "paused"
        assert engine.found("second") == [SCAN]
        assert came_of_it(engine).lost == 0
        engine.kb.prune()
        engine.close()
    assert len(os.listdir(world.locations.conversions_dir)) == 1
    world.fs.mount(NOTES)
    engine = SimulatedEngine(world)
    engine.settle(engine.daemon.rescan())
    assert engine.index() == before
    assert len(engine.embedded()) == embedded
    assert [request.name for request in engine.cage.requests if request.kept is None] == []
    engine.close()


def test_after_a_month_nothing_is_waited_for(world: World, engine: SimulatedEngine) -> None:
    engine.engine.source_control.pause(NOTES)
    engine = anew(world, engine)
    engine.kb.prune()
    assert engine.engine.readers.read(rebuilt.is_settling)
    engine.clock.advance(31 * 86400)
    engine.kb.prune()
    assert not engine.engine.readers.read(rebuilt.is_settling)
    engine.close()


def test_documents_whose_place_cannot_be_read_are_not_called_lost(world: World, engine: SimulatedEngine) -> None:
    before, embedded = engine.index(), len(engine.embedded())
    with behind_its_back(world.locations.database) as connection:
        connection.execute("DELETE FROM origins")
    engine = anew(world, engine)
    assert (came_of_it(engine).lost, came_of_it(engine).unplaced) == (0, 3)
    assert "3 documents that only your folders can tell of again" in rebuilt.told(came_of_it(engine))
    assert engine.index() == before
    assert len(engine.embedded()) == embedded
    engine.close()
