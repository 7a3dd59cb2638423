"""Damage that is met while the engine works, or while it is being repaired."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kbsync import failpoints
from kbsync.errors import DatabaseDamaged
from kbsync.knowledge_base.damage import Damage
from kbsync.store import damage
from kbsync.store.connection import whole
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World
from tests.faults.damaged_library import behind_its_back, copied, filled
from tests.faults.damages import MUTATIONS

_BY_NAME = {mutation.name: mutation for mutation in MUTATIONS}
# So much at once that every step of the repair has something to do.
_MUCH = (
    "text changed behind the trigger",
    "index without rows",
    "names dropped",
    "embedder deleted",
    "origin of what was brought deleted",
    "document hidden",
    "path of nothing",
    "another hash in the ledger",
    "chunk deleted",
    "job of nobody",
    "staged copy lost",
    "stored copy lost",
    "staged copy of no job",
    "numbers begin again",
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, memory_disk: Path | None) -> World:
    folder = tmp_path_factory.mktemp("library") if memory_disk is None else memory_disk / "met"
    folder.mkdir(exist_ok=True)
    return filled(folder / "home")


@pytest.fixture
def engine(library: World, home: Path) -> Iterator[SimulatedEngine]:
    with copied(library, home) as engine:
        yield engine


@pytest.mark.parametrize(
    "name",
    [
        "full-text row deleted",
        "full-text row deleted with a wrong text",
        "text changed behind the trigger",
        "full-text data emptied",
        "full-text structure spoilt",
        "full-text part dropped",
        "full-text table dropped",
        "names dropped",
        "trigger dropped",
    ],
)
def test_search_meanwhile_does_not_raise(engine: SimulatedEngine, name: str) -> None:
    """D06: whatever became of the full-text index, every kind of search answers, and says what it cannot do."""
    _BY_NAME[name].apply(engine)
    engine.kb.search("warm up", "vector")
    for query in ("apple", '"apple grows"', "title:Orchard apple", "-pear apple", "in:/simulated/notes apple"):
        for mode in ("hybrid", "lexical", "vector"):
            found = engine.kb.search(query, mode)
            assert found.hits or found.notice or mode == "lexical"
    engine.kb.unmet("title:Orchard apple")


def test_a_damaged_full_text_index_is_made_anew_at_once_and_what_was_written_meanwhile_is_there(
    engine: SimulatedEngine,
) -> None:
    """D06: a write that fails on it waits, the repair is asked for at once, and nothing is lost or parked."""
    _BY_NAME["full-text data emptied"].apply(engine)
    engine.write(f"{NOTES}/orchard.md", "# Orchard\n\nNow of a persimmon.")
    while not engine.kb.checkup.met_damage():
        engine.turn()
        engine.clock.advance(0.5)
    (waiting,) = engine.read("SELECT state, error FROM jobs WHERE state IN ('queued', 'failed')")
    assert waiting[0] == "queued"
    assert "full-text" in waiting[1]
    assert engine.kb.checkup.mend_full_text()
    assert not engine.kb.checkup.mend_full_text(), "once is enough"
    engine.settle()
    assert engine.found("persimmon") == [f"{NOTES}/orchard.md"]
    assert engine.kb.check() == []
    assert [event.kind for event in engine.kb.history(None, 50)[0]].count("repaired") == 1


def test_a_damaged_full_text_index_is_no_damaged_database(engine: SimulatedEngine) -> None:
    """D06: nobody sets the file aside for it."""
    _BY_NAME["full-text data emptied"].apply(engine)
    assert engine.kb.search("apple", "lexical").hits == ()
    assert not damage.is_noted(engine.world.locations.database)


def test_a_damaged_page_is_named_and_left_to_the_next_start(engine: SimulatedEngine) -> None:
    database = engine.world.locations.database
    engine.close()
    with behind_its_back(database) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        page = int(connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'events_path'").get)
        size = int(connection.pragma("page_size"))
    with open(database, "r+b") as file:  # nobody has it open
        file.seek((page - 1) * size)
        file.write(b"\xff" * 64)
    life = SimulatedEngine(engine.world)
    try:
        assert [problem.kind for problem in life.kb.check()] == [Damage.CORRUPT]
        (problem,) = life.kb.repair()
        assert not problem.repaired
        assert "kbsync run" in problem.hint
        assert damage.is_noted(database), "the next start sets it aside"
        with pytest.raises(DatabaseDamaged):
            life.kb.checkup.in_turn(lambda _seconds: None)
    finally:
        life.close()


_OLDER_WORDS = "UPDATE meta SET value = '0/1.0' WHERE key = 'tokenizer'"


@pytest.mark.parametrize("also", ["nothing", "a source taken out", "older words"])
@pytest.mark.parametrize(
    "spoilt",
    [
        "DELETE FROM names_fts_data",
        "DELETE FROM names_fts_config",
        "DELETE FROM chunks_fts_config",
        "DROP TABLE chunks_fts_data",
        "DROP TABLE names_fts_idx",
        "UPDATE names_fts_docsize SET sz = x''",
        "UPDATE names_fts_data SET block = zeroblob(4000) WHERE id >= 10",
    ],
)
def test_no_damage_of_the_full_text_index_keeps_the_daemon_from_starting(
    engine: SimulatedEngine, spoilt: str, also: str
) -> None:
    """D06: whatever the start itself writes to it, or makes anew for an older kbsync's words."""
    engine.close()
    with behind_its_back(engine.world.locations.database) as connection:
        connection.execute(spoilt + (f";{_OLDER_WORDS}" if also == "older words" else ""))
    if also == "a source taken out":
        engine.world.configure()
    life = SimulatedEngine(engine.world)
    try:
        life.settle()
        assert all(problem.repaired for problem in life.kb.repair())
        assert life.kb.check() == []
        hits = life.kb.search("brought", "lexical").hits
        assert [hit.title for hit in hits] == ["Letter"]
    finally:
        life.close()


def test_a_lost_ledger_brings_nothing_back_that_a_person_removed(engine: SimulatedEngine) -> None:
    """D07: history still knows what was removed; the start leaves it out before any walk, and says so."""
    removed = f"{NOTES}/unwanted.md"
    engine.close()
    with behind_its_back(engine.world.locations.database) as connection:
        connection.execute("DELETE FROM files")
    life = SimulatedEngine(engine.world)
    try:
        life.rescan()
        problems = {problem.kind: problem for problem in life.kb.repair()}
        assert problems[Damage.EXCLUSIONS].repaired
        assert problems[Damage.EXCLUSIONS].first == removed
        assert life.read("SELECT state, reason FROM files WHERE path = ?", removed.encode()) == [
            ("skipped", "removed_by_you")
        ]
        assert "Unwanted" not in {title for (title,) in life.read("SELECT title FROM documents")}
        assert life.kb.check() == []
    finally:
        life.close()


def test_of_a_ledger_that_lost_rows_it_is_said_what_may_come_back(engine: SimulatedEngine) -> None:
    _BY_NAME["path forgotten"].apply(engine)
    (problem,) = engine.kb.repair()
    assert "may come back: remove them once more" in problem.done


def test_what_was_removed_and_brought_back_elsewhere_is_no_lost_exclusion(engine: SimulatedEngine) -> None:
    removed, elsewhere = f"{NOTES}/unwanted.md", "/simulated/elsewhere/again.md"
    engine.fs.write(elsewhere, b"# Unwanted\n\nIt is taken out by hand.")
    engine.remove(removed)
    engine.rescan()
    assert engine.add(elsewhere).state == "done"
    with behind_its_back(engine.world.locations.database) as connection:
        connection.execute("DELETE FROM files WHERE state = 'gone'")  # as when they are over their time
    assert engine.kb.check() == []


def test_notes_come_back_and_nothing_is_embedded_anew_where_all_documents_lost_their_row(
    engine: SimulatedEngine,
) -> None:
    """D07: a note's text is nowhere else; other texts are read again, and their vectors are known."""
    notes = engine.read("SELECT id, title, title_source, content_hash, size_bytes FROM documents WHERE type = 'note'")
    made = engine.read("SELECT created_at FROM documents WHERE type = 'note'")
    with behind_its_back(engine.world.locations.database) as connection:
        connection.execute("DELETE FROM documents")
    engine.device.batches.clear()
    problems = {problem.kind: problem for problem in engine.kb.repair()}
    assert all(problem.repaired for problem in problems.values())
    assert f"{len(notes)} notes whose row was lost are back" in problems[Damage.FOREIGN_KEYS].done
    engine.settle()
    assert engine.kb.check() == []
    assert notes == engine.read(
        "SELECT id, title, title_source, content_hash, size_bytes FROM documents WHERE type = 'note'"
    )
    assert made == engine.read("SELECT created_at FROM documents WHERE type = 'note'")
    # Of a copy the row alone knew the name, which is its title where the text has none.
    assert all(re.match(r"[0-9a-f]{64}\n\n", text) for text in engine.embedded())
    assert engine.read("SELECT count(*) FROM salvaged_vectors") != [(0,)]
    engine.kb.prune()
    assert engine.read("SELECT count(*) FROM salvaged_vectors") == [(0,)], "all that was read again has met them"


def test_of_a_note_without_row_what_was_embedded_counts(engine: SimulatedEngine) -> None:
    with behind_its_back(engine.world.locations.database) as connection:
        connection.execute(
            "UPDATE chunks SET text = 'spoilt' WHERE document_id = (SELECT id FROM documents WHERE title = 'To buy'); "
            "DELETE FROM documents WHERE title = 'To buy'"
        )
    assert all(problem.repaired for problem in engine.kb.repair())
    assert engine.read(
        "SELECT text FROM chunks JOIN documents ON documents.id = document_id WHERE title = 'To buy'"
    ) == [("Milk and bread",)]
    assert engine.kb.check() == []


def test_a_note_without_row_whose_text_is_in_pieces_is_left_as_it_is_and_said(engine: SimulatedEngine) -> None:
    with behind_its_back(engine.world.locations.database) as connection:
        connection.execute(
            "INSERT INTO chunks (document_id, position, text, enriched_text, token_count, metadata) "
            "SELECT document_id, 1, 'and more', 'To buy\n\nand more', 5, chunks.metadata FROM chunks "
            "JOIN documents ON documents.id = document_id WHERE title = 'To buy'; "
            "DELETE FROM documents WHERE title = 'To buy'"
        )
    left = [problem for problem in engine.kb.repair() if not problem.repaired]
    assert [problem.kind for problem in left] == [Damage.FOREIGN_KEYS]
    assert "not in one piece" in left[0].hint
    assert engine.read(
        "SELECT text FROM chunks WHERE document_id NOT IN (SELECT id FROM documents) ORDER BY position"
    ) == [
        ("Milk and bread",),
        ("and more",),
    ]


class _Struck(Exception):
    """What a test has happen at a place of the repair."""


@pytest.fixture
def unlistened() -> Iterator[None]:
    yield
    failpoints.listen(None)


@pytest.mark.usefixtures("unlistened")
def test_a_repair_that_is_interrupted_anywhere_is_begun_again(
    library: World, home: Path, told: Callable[[str], None]
) -> None:
    """D20: killed between any two of its steps, the next repair ends where an undisturbed one does."""
    places: list[str] = []
    whole = None
    with copied(library, home / "whole") as engine:
        whole = engine.index()
        for name in _MUCH:
            _BY_NAME[name].apply(engine)
        failpoints.listen(lambda place: places.append(place) if place.startswith("repair.") else None)
        assert [problem.kind for problem in engine.kb.repair() if not problem.repaired] == []
        failpoints.listen(None)
        engine.settle()
        assert engine.index() == whole
    assert len(set(places)) >= 12
    for number in sorted({places.index(place) for place in places}):
        with copied(library, home / str(number)) as engine:
            for name in _MUCH:
                _BY_NAME[name].apply(engine)
            _strike(number)
            with pytest.raises(_Struck):
                engine.kb.repair()
            failpoints.listen(None)
            engine.close()  # nothing of what it had in mind is left
            again = SimulatedEngine(engine.world)
            try:
                again.settle()
                assert [problem.kind for problem in again.kb.repair() if not problem.repaired] == [], places[number]
                again.settle()
                assert again.index() == whole, places[number]
            finally:
                again.close()
    told(f"D20: a repair of {len(_MUCH)} damages, interrupted at {len(set(places))} places")


def _strike(number: int) -> None:
    passed = 0

    def listen(place: str) -> None:
        nonlocal passed
        if place.startswith("repair."):
            passed += 1
            if passed == number + 1:
                raise _Struck(place)

    failpoints.listen(listen)


def test_what_is_written_while_the_check_runs_is_no_damage(engine: SimulatedEngine) -> None:
    """The copy that the words are compared on is of one moment, whatever is committed meanwhile."""
    database = engine.world.locations.database
    passes = 0

    def write(_seconds: float) -> None:
        nonlocal passes
        passes += 1
        if passes % 7 == 0:
            with behind_its_back(database) as connection, whole(connection):
                connection.execute("UPDATE chunks SET enriched_text = enriched_text WHERE id = 1")

    assert [problem.kind for problem in engine.kb.checkup.in_turn(write)] == []
    assert passes > 30
