"""What is done once a day: the check with its repair, a share of the kept files read again, and what is said of it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kbsync.errors import RetryLater
from kbsync.knowledge_base import own_files
from kbsync.model import IngestOptions
from tests.fakes.simulated_engine import NOTES, SimulatedEngine
from tests.faults.damaged_library import behind_its_back

DAY_S = 86_400.0
ELSEWHERE = "/simulated/elsewhere"


@pytest.fixture
def filled(engine: SimulatedEngine) -> SimulatedEngine:
    engine.write(f"{NOTES}/a.md", "# Apples\n\nGreen ones.")
    engine.write(f"{NOTES}/b.pdf", "Pears of the north.")
    engine.settle()
    return engine


def stored(engine: SimulatedEngine, title: str) -> Path:
    return Path(engine.read("SELECT stored_path FROM documents WHERE title = ?", title)[0][0])


def added(engine: SimulatedEngine, name: str, text: str) -> Path:
    engine.fs.write(f"{ELSEWHERE}/{name}", text.encode())
    engine.add(f"{ELSEWHERE}/{name}", IngestOptions(title=name))
    return stored(engine, name)


def damage(engine: SimulatedEngine, statement: str) -> None:
    with behind_its_back(engine.world.locations.database) as connection:
        connection.execute(statement)


def due(engine: SimulatedEngine) -> None:
    engine.daemon.upkeep.ask()
    assert engine.daemon.upkeep.step()
    engine.settle()


def test_what_can_be_derived_is_repaired_by_itself_and_said(filled: SimulatedEngine) -> None:
    damage(filled, "DELETE FROM vectors_1; DELETE FROM names_fts WHERE rowid = 1")
    due(filled)
    assert filled.kb.check() == []
    said = [event.detail for event in filled.kb.history(None, 20)[0] if event.kind == "repaired"]
    assert sorted(str(detail).split(":")[0] for detail in said) == ["names", "vectors_missing"]


def test_what_a_person_must_see_to_stays_told_until_it_is_gone(filled: SimulatedEngine) -> None:
    copy = added(filled, "letter.md", "# A letter\n\nOnly here.")
    filled.fs.remove(f"{ELSEWHERE}/letter.md")
    copy.write_bytes(b"something else")
    for _ in range(2):
        due(filled)
        (problem,) = filled.kb.checkup.last()
        assert not problem.repaired
        assert "Add the file once more" in problem.hint
    assert filled.found("letter"), "its text is still found"
    aside = copy.parent / "damaged" / copy.name
    assert aside.read_bytes() == b"something else", "the damaged copy is kept"
    filled.fs.write(f"{ELSEWHERE}/again.md", b"# A letter\n\nOnly here.")
    filled.add(f"{ELSEWHERE}/again.md")
    assert copy.read_bytes() == b"# A letter\n\nOnly here."
    due(filled)
    assert filled.kb.checkup.last() == []
    assert aside.exists()


def test_the_kept_files_are_read_again_in_their_turn(filled: SimulatedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_files, "_BYTES_A_TURN", 30)
    copies = [added(filled, f"{number}.md", f"# Number {number}\n\n{'word ' * 10}") for number in range(6)]
    late = max(copies)
    late.write_bytes(late.read_bytes().replace(b"word", b"weed"))
    turns = 0
    while late.read_bytes().count(b"weed") and turns < 10:
        filled.clock.advance(DAY_S)
        due(filled)
        turns += 1
    assert 2 <= turns <= 7, "not all at once, and all in the end"
    assert filled.kb.check() == []


def test_a_check_by_hand_reads_every_kept_file(filled: SimulatedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_files, "_BYTES_A_TURN", 1)
    late = max(added(filled, f"{number}.md", f"# Number {number}") for number in range(4))
    late.write_bytes(b"x")
    assert [problem.kind for problem in filled.kb.check()] == ["stored_damaged"]


def test_the_check_ends_where_the_process_is_to_end(filled: SimulatedEngine) -> None:
    filled.engine.stop.set()
    filled.daemon.upkeep.ask()
    with pytest.raises(RetryLater, match="stopping"):
        filled.daemon.upkeep.step()
    with pytest.raises(RetryLater, match="stopping"):
        filled.kb.check()


def test_a_stored_copy_of_no_document_is_taken_in_as_added(filled: SimulatedEngine) -> None:
    folder = filled.world.locations.documents_dir
    content = b"# Found again\n\nIts row was lost."
    name = f"{hashlib.sha256(content).hexdigest()}.md"
    Path(folder, name).write_bytes(content)
    (problem,) = filled.kb.repair()
    assert (problem.kind, problem.repaired) == ("stored_unclaimed", True)
    assert filled.kb.check() == [], "it is in the queue"
    filled.settle()
    assert stored(filled, "Found again") == Path(folder, name)
    assert filled.kb.check() == []


def test_a_stored_copy_that_cannot_be_taken_in_is_left_and_told(filled: SimulatedEngine) -> None:
    content = b"corrupt"
    place = Path(filled.world.locations.documents_dir, f"{hashlib.sha256(content).hexdigest()}.pdf")
    place.write_bytes(content)
    filled.kb.repair()
    filled.settle()
    for _ in range(2):
        (problem,) = filled.kb.repair()
        assert (problem.kind, problem.repaired) == ("stored_unclaimed", False)
        assert str(place) in problem.hint
        filled.settle()
    assert place.read_bytes() == content
    assert filled.read("SELECT count(*) FROM jobs WHERE kind = 'staged'") == [(1,)], "tried once"


def test_two_stored_copies_of_one_content_become_one(filled: SimulatedEngine) -> None:
    copy = added(filled, "letter.md", "# A letter")
    twin = copy.with_suffix(".txt")
    twin.write_bytes(copy.read_bytes())
    assert [problem.repaired for problem in filled.kb.repair()] == [True]
    assert copy.exists()
    assert not twin.exists()


def test_vectors_wait_for_a_model_that_cannot_be_used(
    filled: SimulatedEngine, started: Callable[[], SimulatedEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(filled, "DELETE FROM vectors_1")
    monkeypatch.setattr(filled.engine.embedders, "problem", lambda: "The model is away.")
    (problem,) = filled.kb.repair()
    assert problem.repaired
    assert "embedded anew" in problem.done
    filled.settle()
    assert filled.read("SELECT count(*) FROM vectors_1") == [(0,)]
    assert filled.engine.reindexing.status().state != "idle"
    again = started()
    again.settle()
    assert again.read("SELECT count(*) FROM vectors_1") == again.read("SELECT count(*) FROM chunks")
    assert again.engine.reindexing.status().state == "idle"
    assert again.kb.check() == []


def test_a_command_fills_the_gaps_itself(filled: SimulatedEngine) -> None:
    damage(filled, "DELETE FROM vectors_1 WHERE chunk_id = 1")
    filled.device.batches.clear()
    filled.kb.repair()
    filled.engine.reindexing.fill_gaps()
    assert len(filled.embedded()) == 1
    assert filled.kb.check() == []


def test_a_database_whose_form_is_damaged_is_mended_at_the_start(
    filled: SimulatedEngine, started: Callable[[], SimulatedEngine]
) -> None:
    filled.close()
    damage(filled, "DROP TRIGGER chunks_fts_insert; DROP INDEX files_path; DROP TABLE vectors_1; DROP TABLE names_fts")
    again = started()
    again.settle()
    again.write(f"{NOTES}/new.md", "# New\n\nQuinces.")
    again.settle()
    assert again.found("quinces") == [f"{NOTES}/new.md"]
    assert {problem.kind for problem in again.kb.check() if problem.repaired} == {"schema", "vector_tables"}
    assert again.kb.check() == [], "what the start mended is told once"
    assert "repaired" in {event.kind for event in again.kb.history(None, 50)[0]}


def test_a_copy_that_is_being_read_is_no_copy_of_no_job(filled: SimulatedEngine) -> None:
    with filled.engine.stored.staging("b.pdf") as (path, file):
        file.write(b"half")
        assert filled.kb.check() == []
        assert filled.kb.repair() == []
        assert os.path.exists(path)
    filled.engine.stored.discard(path)
    Path(filled.world.locations.staging_dir, "left.md").write_bytes(b"half")
    assert [problem.kind for problem in filled.kb.repair()] == ["staging"]
    assert os.listdir(filled.world.locations.staging_dir) == []


def test_what_was_found_is_kept_as_it_is_told(filled: SimulatedEngine) -> None:
    damage(filled, "DELETE FROM names_fts WHERE rowid = 1")
    filled.kb.check()
    ((written,),) = filled.read("SELECT value FROM meta WHERE key = 'checked'")
    (problem,) = json.loads(written)
    assert (problem["kind"], problem["repaired"], problem["first"]) == ("names", False, "origin 1")
    assert filled.read("SELECT value FROM meta WHERE key = 'last_check'")[0][0].endswith("problems")
    filled.kb.repair()
    assert filled.read("SELECT value FROM meta WHERE key = 'last_check'")[0][0].endswith("ok")


def test_a_folder_that_was_taken_out_and_comes_back_is_read_anew(filled: SimulatedEngine) -> None:
    """What a person had removed at a path is remembered, and no more of that path than this."""
    (number,) = filled.read("SELECT id FROM documents WHERE title = 'Apples'")[0]
    filled.kb.remove_document(number)
    filled.write(f"{NOTES}/a.md", "# Quinces\n\nSomething new at the same place.")
    filled.add(f"{NOTES}/a.md")
    filled.settle()
    filled.configure()
    filled.settle()
    filled.configure(NOTES)
    filled.rescan()
    assert filled.found("quinces") == [f"{NOTES}/a.md"]
    assert filled.kb.check() == []
