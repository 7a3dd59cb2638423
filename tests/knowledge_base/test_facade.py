"""The door: search, lists, what is taken out and put back, sums that agree."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from kbsync.errors import NotFound
from kbsync.reasons import FileState, Reason
from tests.fakes.simulated_engine import NOTES, SimulatedEngine

PATH, OTHER = f"{NOTES}/quince.md", f"{NOTES}/medlar.md"
REMOVED = (FileState.SKIPPED, Reason.REMOVED_BY_YOU)


@pytest.fixture
def filled(engine: SimulatedEngine) -> SimulatedEngine:
    engine.write(PATH, "# Quince\n\nIt ripens late.")
    engine.settle()
    engine.write(OTHER, "# Medlar\n\nIt ripens later.")
    engine.settle()
    return engine


def test_a_removed_document_is_gone_and_its_path_left_out_until_it_is_added_again(filled: SimulatedEngine) -> None:
    removed = filled.kb.remove_document(1)
    assert removed.title == "Quince"
    assert filled.found("quince") == []
    assert filled.state(PATH) == REMOVED
    assert filled.fs.lstat(PATH).size > 0, "the file itself is not touched"
    assert filled.kb.check() == []
    filled.rescan()
    filled.write(PATH, "# Quince\n\nAnd changed too.")
    filled.settle()
    filled.rescan()
    assert filled.state(PATH) == REMOVED
    assert filled.found("quince") == []
    filled.add(PATH)
    filled.rescan()
    assert filled.found("quince") == [PATH]
    assert filled.state(PATH) == (FileState.INDEXED, None)
    filled.write(PATH, "# Quince\n\nFollowed again.")
    filled.settle()
    assert PATH in filled.found("followed")


def test_a_removal_holds_over_a_restart(filled: SimulatedEngine, started: Callable[[], SimulatedEngine]) -> None:
    filled.kb.remove_document(1)
    engine = started()
    engine.settle()
    assert engine.state(PATH) == REMOVED
    assert engine.found("quince") == []


def test_a_removal_takes_every_path_of_the_document_out(filled: SimulatedEngine) -> None:
    filled.write(f"{NOTES}/copy.md", "# Quince\n\nIt ripens late.")
    filled.settle()
    filled.kb.remove_document(1)
    filled.rescan()
    assert filled.state(PATH) == filled.state(f"{NOTES}/copy.md") == REMOVED
    assert filled.found("quince") == []


def test_a_removed_document_that_was_queued_again_does_not_come_back(filled: SimulatedEngine) -> None:
    filled.write(PATH, "# Quince\n\nChanged.")
    filled.loops.producer.step()
    filled.clock.advance(0.4)
    filled.loops.producer.step()
    assert filled.state(PATH) == (FileState.WAITING, Reason.QUEUED)
    filled.kb.remove_document(1)
    filled.settle()
    assert filled.state(PATH) == REMOVED
    assert filled.found("quince") == []


def test_what_a_person_removed_stays_out_when_its_file_goes_and_comes_back_or_moves(filled: SimulatedEngine) -> None:
    content = filled.fs.open_file(PATH).read(1000)
    moved, elsewhere = f"{NOTES}/moved/a.md", f"{NOTES}/moved/again.md"
    filled.kb.remove_document(1)
    filled.remove(PATH)
    filled.rescan()
    assert filled.state(PATH)[0] is FileState.GONE
    embedded = len(filled.embedded())
    filled.write(PATH, content)  # a checkout there and back
    filled.rescan()
    assert filled.state(PATH) == REMOVED
    filled.rename(PATH, moved)  # with an event
    filled.rescan()
    filled.fs.rename(f"{NOTES}/moved", f"{NOTES}/other")  # without
    filled.rescan()
    assert filled.state(f"{NOTES}/other/a.md") == REMOVED
    assert len(filled.embedded()) == embedded
    filled.add(f"{NOTES}/other/a.md")
    filled.rescan()
    assert filled.state(f"{NOTES}/other/a.md") == (FileState.INDEXED, None)
    assert not {moved, elsewhere} & set(filled.found("quince"))


def test_a_file_that_is_followed_stays_followed_when_its_text_becomes_one_that_was_removed(
    filled: SimulatedEngine,
) -> None:
    content = filled.fs.open_file(PATH).read(1000)
    filled.write(f"{NOTES}/other.md", "medlar")
    filled.settle()
    filled.kb.remove_document(1)
    filled.write(f"{NOTES}/other.md", content)
    filled.settle()
    assert filled.state(f"{NOTES}/other.md") == (FileState.INDEXED, None)


def test_removing_an_added_document_removes_its_copy(engine: SimulatedEngine) -> None:
    engine.fs.write("/simulated/desk/a.md", b"quince")
    job = engine.add("/simulated/desk/a.md")
    assert job.document_id is not None
    assert len(os.listdir(engine.world.locations.documents_dir)) == 1
    engine.kb.remove_document(job.document_id)
    assert os.listdir(engine.world.locations.documents_dir) == []
    assert engine.found("quince") == []
    assert engine.kb.check() == []


def test_what_is_not_there_cannot_be_shown_or_removed(engine: SimulatedEngine) -> None:
    with pytest.raises(NotFound):
        engine.kb.document(7)
    with pytest.raises(NotFound):
        engine.kb.remove_document(7)


def test_documents_are_listed_newest_first_by_state_and_type(filled: SimulatedEngine) -> None:
    filled.note("It ripens last.")
    listed, total = filled.kb.documents()
    assert [document.title for document, _ in listed] == ["It ripens last.", "Medlar", "Quince"]
    assert [paths for _, paths in listed] == [[], [OTHER], [PATH]]
    assert total == 3
    listed, total = filled.kb.documents(limit=1, offset=1)
    assert ([document.title for document, _ in listed], total) == (["Medlar"], 3)
    assert filled.kb.documents(document_type="note")[1] == 1
    filled.write(PATH, "changed")
    filled.settle()
    assert [document.title for document, _ in filled.kb.documents(state="superseded")[0]] == ["Quince"]
    assert filled.kb.documents(state=None)[1] == 4


def test_a_search_is_lexical_until_the_model_is_loaded_and_says_so(engine: SimulatedEngine) -> None:
    before = engine.kb.search("quince")
    assert (before.mode, before.hits) == ("lexical", ())
    assert before.notice is not None
    engine.write(PATH, "quince")
    engine.settle()
    after = engine.kb.search("quince")
    assert (after.mode, after.notice) == ("hybrid", None)
    assert [hit.path for hit in after.hits] == [PATH]


def test_what_was_seen_is_the_sum_of_indexed_waiting_skipped_and_failed(filled: SimulatedEngine) -> None:
    filled.fs.write(f"{NOTES}/a.xyz", b"?")
    filled.fs.write(f"{NOTES}/denied.md", b"?")
    filled.fs.fail(f"{NOTES}/denied.md", PermissionError(13, "Permission denied"))
    filled.rescan()
    filled.remove(OTHER)
    filled.settle()
    filled.write(f"{NOTES}/waits.md", "sloe")
    filled.loops.producer.step()
    filled.clock.advance(0.4)
    filled.loops.producer.step()
    rows, counts = filled.kb.sources()
    assert counts == {rows[0].id: {"indexed": 1, "waiting": 1, "skipped": 1, "failed": 1, "gone": 1}}
    assert filled.kb.progress() == (3, 1)
    assert filled.kb.unsettled() == 1
    filled.settle()
    assert filled.kb.progress() == (4, 0)
    filled.rescan()
    assert filled.kb.sources()[0][0].files_seen == 4


def test_statistics_agree_with_what_is_there(filled: SimulatedEngine) -> None:
    filled.write(f"{NOTES}/a.py", "x = 1\n")
    filled.settle()
    statistics = filled.kb.statistics()
    database = statistics["database"]
    assert isinstance(database, dict)
    assert database["documents_by_type"] == {"code": 1, "markdown": 2}
    assert database["total_chunks"] == filled.read("SELECT count(*) FROM chunks")[0][0]
    assert statistics["queue"] == {"queued": 0, "processing": 0}
    assert statistics["last_check"] is None
    filled.kb.check()
    assert str(filled.kb.statistics()["last_check"]).endswith("ok")


def test_pruning_forgets_old_jobs_and_no_document(filled: SimulatedEngine) -> None:
    before = filled.index()
    filled.clock.advance(30 * 86400)
    filled.kb.prune()
    assert filled.kb.jobs() == ([], 0)
    assert filled.index() == before
