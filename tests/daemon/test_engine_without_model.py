"""A model that cannot be used: everything that needs it waits, nothing is lost or made anew, words are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kbsync.errors import Unready
from kbsync.interfaces.operations import Operations
from kbsync.reasons import FileState, Reason
from tests.fakes.acting_device import ActingDevice
from tests.fakes.hash_embedder import HashDevice
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World, model_of

if TYPE_CHECKING:
    from kbsync.model import Vectors

Begin = Callable[[World], SimulatedEngine]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Return a function that ends the life before and begins one in a world."""
    lives: list[SimulatedEngine] = []

    def started(world: World) -> SimulatedEngine:
        for life in lives:
            life.close()
        lives.append(SimulatedEngine(world))
        lives[-1].engine.writer.start()  # the daemon's look after everything wants its thread
        return lives[-1]

    yield started
    for life in lives:
        life.close()


def turn_for(engine: SimulatedEngine, seconds: float) -> None:
    """Let everything happen that happens in so many seconds."""
    for _ in range(int(seconds)):
        while engine.turn():
            pass
        engine.daemon.tick()
        engine.clock.advance(1.0)


def vectors_of(engine: SimulatedEngine) -> list[list[tuple[object, ...]]]:
    rows = [engine.read("SELECT id, fingerprint, folder, live_at FROM embedders ORDER BY id")]
    rows += [engine.read(f"SELECT * FROM vectors_{row[0]} ORDER BY chunk_id") for row in rows[0]]
    rows.append(engine.read("SELECT key, value FROM meta WHERE key LIKE '%embedder'"))
    return rows


def clean_index(home: Path, world: World) -> dict[str, list[tuple[object, ...]]]:
    """Return what a fresh engine makes of the same disk."""
    fresh = World(home, world.clock, world.fs, world.device)
    fresh.configure(NOTES)
    engine = SimulatedEngine(fresh)
    engine.rescan()
    found = engine.index()
    engine.close()
    return found


def test_while_the_model_is_away_files_wait_and_words_are_found(world: World, begin: Begin, tmp_path: Path) -> None:
    engine = begin(world)
    engine.write(f"{NOTES}/kept.md", "# Kept\n\nThe medlar ripens late.")
    engine.write(f"{NOTES}/moved.md", "# Moved\n\nThe quince ripens early.")
    engine.write(f"{NOTES}/gone.md", "# Gone\n\nThe sloe is bitter.")
    engine.settle()
    before, embedded = vectors_of(engine), len(engine.embedded())

    engine = begin(world.without_model())
    engine.write(f"{NOTES}/new.md", "# New\n\nThe damson is blue.")
    engine.rename(f"{NOTES}/moved.md", f"{NOTES}/elsewhere.md")
    engine.remove(f"{NOTES}/gone.md")
    note = engine.kb.adding.add_note("The bullace grows in hedges.", "Bullace")
    turn_for(engine, 200)

    assert engine.daemon.held_up(0) == "The folder of the model is gone."
    assert not engine.daemon.settled(0)
    assert engine.daemon.status()["model_error"] == "The folder of the model is gone."
    assert engine.state(f"{NOTES}/new.md") == (FileState.WAITING, Reason.QUEUED)
    operations = Operations(engine.engine, engine.daemon)
    told = operations.why(f"{NOTES}/new.md")["detail"]
    assert told == "It is in the queue. It waits for the model: The folder of the model is gone."
    assert "model" not in operations.why(f"{NOTES}/gone.md")["detail"]
    assert str(operations.status()["notices"]).count("The folder of the model is gone.") == 1
    assert {(job.state, job.attempts) for job in engine.kb.jobs(state="queued", limit=9)[0]} == {("queued", 0)}
    assert engine.job(note).attempts == 0
    found = engine.kb.search("medlar", "hybrid")
    assert ([hit.title for hit in found.hits], found.mode) == (["Kept"], "lexical")
    assert "The folder of the model is gone." in str(found.notice)
    # What needs no model goes on: what moved is found where it is now, what went is not found.
    assert engine.found("quince") == [f"{NOTES}/elsewhere.md"]
    assert engine.found("sloe") == []
    with pytest.raises(Unready):
        engine.engine.reindexing.begin("vectors")
    assert vectors_of(engine) == before
    assert engine.kb.check() == []
    idle = engine.dump()
    turn_for(engine, 60)
    assert engine.dump() == idle

    engine = begin(world)
    engine.settle()
    assert engine.job(note).state == "done"
    assert engine.found("damson") == [f"{NOTES}/new.md"]
    assert len(engine.embedded()) - embedded == 2, "only what was new"
    engine.rescan()
    engine.kb.remove_document(int(engine.job(note).document_id or 0))
    assert engine.index() == clean_index(tmp_path / "clean", world)


def test_another_model_s_vectors_survive_a_model_that_is_away(world: World, begin: Begin) -> None:
    engine = begin(world)
    engine.write(f"{NOTES}/a.md", "# A\n\nThe medlar ripens late.")
    engine.settle()
    before = vectors_of(engine)
    wider = world.with_model(32)
    # Its disk is away from the first start on, then it is there, then away again in the middle of the way over.
    engine = begin(wider.without_model())
    turn_for(engine, 10)
    assert vectors_of(engine) == before
    engine = begin(wider)
    between = vectors_of(engine)
    assert len(between[0]) == 2
    engine = begin(wider.without_model())
    turn_for(engine, 400)
    assert vectors_of(engine) == between
    engine = begin(wider)
    engine.settle()
    assert engine.engine.reindexing.status().state == "idle"
    assert engine.kb.search("medlar", "vector").mode == "vector"


def test_a_search_names_the_model_that_is_away_while_the_one_before_still_loads(world: World, begin: Begin) -> None:
    engine = begin(world)
    engine.write(f"{NOTES}/a.md", "# A\n\nThe medlar ripens late.")
    engine.settle()
    engine = begin(world.with_model(32).without_model())
    earlier = engine.engine.embedders.earlier
    assert earlier is not None
    assert not earlier.batcher.ready
    found = engine.kb.search("medlar", "hybrid")
    assert found.notice == "The model cannot be used: found by words only. The folder of the model is gone."


def test_without_a_first_model_everything_waits_for_it(world: World, begin: Begin) -> None:
    engine = begin(world.without_model())
    engine.write(f"{NOTES}/a.md", "# A\n\nThe medlar ripens late.")
    turn_for(engine, 10)
    assert engine.kb.search("medlar").hits == ()
    assert engine.kb.check() == []
    assert engine.engine.reindexing.status().state == "idle"
    engine = begin(world)
    engine.settle()
    assert engine.found("medlar") == [f"{NOTES}/a.md"]


def test_a_model_that_is_back_is_seen_within_a_minute(world: World, begin: Begin) -> None:
    engine = begin(world.without_model())
    turn_for(engine, 130)
    assert not engine.daemon.wants_restart
    engine.lies_there = model_of(world.device)
    turn_for(engine, 61)
    assert engine.daemon.wants_restart


def test_a_model_that_is_back_is_seen_at_once_by_who_is_asked_to_look(world: World, begin: Begin) -> None:
    engine = begin(world.without_model())
    engine.lies_there = model_of(world.device)
    engine.daemon.ask_reload()
    engine.daemon.tick()
    assert engine.daemon.wants_restart


def test_a_model_that_works_is_not_looked_for(world: World, begin: Begin) -> None:
    engine = begin(world)
    engine.lies_there = model_of(world.with_model(32).device)
    turn_for(engine, 130)
    engine.daemon.ask_reload()
    engine.daemon.tick()
    assert not engine.daemon.wants_restart


def test_a_model_that_fails_to_load_is_waited_for_uncounted(tmp_path: Path, begin: Begin) -> None:
    device = ActingDevice()
    world = World.new(tmp_path / "home", device)
    world.configure(NOTES)
    world.fs.make_directory(NOTES)
    engine = begin(world)
    broken = [True]

    def before(_texts: Sequence[str]) -> None:
        if broken:
            raise Unready(Reason.MODEL, "The weights are damaged.")

    device.before = before
    engine.write(f"{NOTES}/a.md", "# A\n\nThe medlar ripens late.")
    turn_for(engine, 300)
    job = engine.kb.jobs(state="queued", limit=9)[0][0]
    assert (job.state, job.attempts, job.error) == ("queued", 0, "The weights are damaged.")
    assert engine.state(f"{NOTES}/a.md") == (FileState.WAITING, Reason.RETRY)
    broken.clear()
    engine.settle()
    assert engine.found("medlar") == [f"{NOTES}/a.md"]


def test_a_model_that_was_gone_when_it_was_needed_is_seen_when_its_files_are_back(world: World, begin: Begin) -> None:
    engine = begin(world)
    whole = engine.engine.seams.model

    def load() -> None:
        raise Unready(Reason.MODEL, "The folder of the model is gone.")

    world.device.load = load  # type: ignore[method-assign]
    engine.lies_there = whole
    engine.write(f"{NOTES}/a.md", "# A\n\nThe medlar ripens late.")
    turn_for(engine, 130)
    assert not engine.daemon.wants_restart, "its files are what they were"
    engine.lies_there = None
    turn_for(engine, 61)
    assert not engine.daemon.wants_restart
    engine.lies_there = whole
    turn_for(engine, 61)
    assert engine.daemon.wants_restart


def test_by_hand_a_model_of_the_same_files_is_tried_again(world: World, begin: Begin) -> None:
    engine = begin(world)

    def load() -> None:
        raise Unready(Reason.MODEL, "torch cannot be imported.")

    world.device.load = load  # type: ignore[method-assign]
    engine.write(f"{NOTES}/a.md", "# A\n\nThe medlar ripens late.")
    turn_for(engine, 200)
    assert engine.daemon.status()["model_error"] == "torch cannot be imported."
    assert not engine.daemon.wants_restart, "its files are what they were"
    engine.daemon.ask_reload()
    engine.daemon.tick()
    assert engine.daemon.wants_restart


class SpoiltDevice(HashDevice):
    """Gives no vector for a text about sloes."""

    value = float("nan")

    def encode(self, texts: Sequence[str], query: bool) -> Vectors:
        rows = super().encode(texts, query)
        rows[["sloe" in text for text in texts]] = self.value
        return rows


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0])
def test_what_is_no_vector_fails_its_own_file_only(tmp_path: Path, begin: Begin, value: float) -> None:
    """D09: refused before anything is written; the others are indexed, and nothing of the one is there by half."""
    device = SpoiltDevice()
    device.value = value
    world = World.new(tmp_path / "home", device)
    world.configure(NOTES)
    world.fs.make_directory(NOTES)
    engine = begin(world)
    for name in ("medlar", "sloe", "quince"):
        engine.write(f"{NOTES}/{name}.md", f"# A {name}\n\nIt ripens.")
    engine.settle()
    states = [engine.state(f"{NOTES}/{name}.md") for name in ("medlar", "sloe", "quince")]
    indexed = (FileState.INDEXED, None)
    assert states == [indexed, (FileState.FAILED, Reason.MODEL), indexed]
    assert engine.read("SELECT count(*) FROM documents") == [(2,)]
    assert engine.kb.check() == []
