"""The index is made anew beside the one that is searched: nothing lost, never mixed, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kbsync.errors import NotRunning, UsageError
from kbsync.interfaces.operations import Operations
from kbsync.knowledge_base import reindexing
from kbsync.model import Priority
from kbsync.store import reindexes, vectors
from tests.fakes.hash_embedder import HashDevice, hash_vectors
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

if TYPE_CHECKING:
    from kbsync.model import Vectors

FRUITS = ("quince", "medlar", "sorb", "bullace")


def filled(world: World, *, chunks: int = len(FRUITS)) -> SimulatedEngine:
    """Return a life with a document of one chunk for each fruit, all indexed."""
    engine = SimulatedEngine(world)
    for number in range(chunks):
        name = FRUITS[number] if number < len(FRUITS) else f"fruit{number}"
        engine.fs.write(f"{NOTES}/{name}.md", f"# {name.title()}\n\nThe {name} ripens late.".encode())
    engine.rescan()
    return engine


def by_meaning(engine: SimulatedEngine, words: str = "quince ripens") -> list[str | None]:
    """Return the paths found by meaning alone; a lexical answer in its place is a failure."""
    embedder = engine.engine.embedders
    live = embedder.earlier or embedder.configured
    live.batcher.embed(["load it"], Priority.QUERY)
    result = engine.kb.search(words, "vector")
    assert (result.mode, result.notice) == ("vector", None)
    return [hit.path for hit in result.hits]


def lengths(engine: SimulatedEngine) -> dict[str, set[int]]:
    """Return for each table of vectors the bytes of its rows; no model's vectors are ever in another's."""
    tables = [row[0] for row in engine.read("SELECT name FROM sqlite_schema WHERE name GLOB 'vectors_[0-9]*'")]
    tables = [table for table in tables if not table.endswith("_text")]
    return {table: {row[0] for row in engine.read(f"SELECT length(embedding) FROM {table}")} for table in tables}


def work_without_reindexing(engine: SimulatedEngine) -> None:
    """Index what was reported, while nothing is made anew."""
    for _ in range(5):
        engine.clock.advance(1.0)
        engine.loops.producer.step()
        engine.loops.rescans.step()
        while sum(worker.step() for worker in engine.loops.workers):
            pass


def needs_earlier(engine: SimulatedEngine) -> bool:
    return engine.engine.embedders.earlier is not None


def state(engine: SimulatedEngine) -> tuple[str, int, int]:
    status = engine.engine.reindexing.status()
    return status.state, status.chunks_done, status.chunks_total


def test_a_new_model_is_searched_when_its_table_is_whole_and_the_one_before_until_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D08: a new table in the background, one switch, the old one goes; queries never mix."""
    filled(world).close()
    monkeypatch.setattr(reindexing, "_BATCH", 1)
    engine = SimulatedEngine(world.with_model(24))
    for done in range(len(FRUITS)):
        assert state(engine) == ("running", done, len(FRUITS))
        assert by_meaning(engine)[0] == f"{NOTES}/quince.md"
        assert len(by_meaning(engine)) == len(FRUITS)
        assert engine.kb.check() == []
        assert engine.engine.reindexing.step()
    assert lengths(engine) == {"vectors_1": {64}, "vectors_2": {96}}
    assert needs_earlier(engine)
    assert engine.engine.reindexing.step()
    assert not needs_earlier(engine), "nobody needs the model before any more"
    assert not engine.engine.reindexing.step()
    assert state(engine) == ("idle", len(FRUITS), len(FRUITS))
    assert by_meaning(engine)[0] == f"{NOTES}/quince.md"
    assert engine.kb.check() == []
    engine.clock.advance(301)
    assert not engine.engine.reindexing.step()
    assert lengths(engine) == {"vectors_2": {96}}, "the old table is gone"
    engine.close()


def test_there_and_back_again_loses_nothing(world: World) -> None:
    first = filled(world)
    before = first.index()
    first.close()
    there = SimulatedEngine(world.with_model(24))
    there.settle()
    assert state(there)[0] == "idle"
    there.close()
    back = SimulatedEngine(world)
    back.settle()
    assert state(back)[0] == "idle"
    assert by_meaning(back)[0] == f"{NOTES}/quince.md"
    assert back.index() == before
    assert list(lengths(back).values()) == [{64}]
    back.close()


def test_killed_in_the_middle_it_goes_on_and_embeds_nothing_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(world).close()
    monkeypatch.setattr(reindexing, "_BATCH", 1)
    other = world.with_model(24)
    first = SimulatedEngine(other)
    assert first.engine.reindexing.step()
    assert first.engine.reindexing.step()
    first.close()
    again = SimulatedEngine(other)
    assert state(again) == ("running", 2, len(FRUITS))
    again.settle()
    assert state(again) == ("idle", len(FRUITS), len(FRUITS))
    assert len(again.embedded()) == len(set(again.embedded())) == len(FRUITS)
    again.close()


def test_what_is_written_meanwhile_is_found_by_meaning_at_once_and_after_the_switch(world: World) -> None:
    filled(world).close()
    engine = SimulatedEngine(world.with_model(24))
    assert engine.engine.reindexing.step()
    engine.write(f"{NOTES}/service.md", "# Service\n\nThe service tree ripens last.")
    engine.write(f"{NOTES}/quince.md", "# Quince\n\nThe quince is golden.")
    engine.remove(f"{NOTES}/sorb.md")
    work_without_reindexing(engine)
    assert engine.engine.embedders.earlier is not None
    assert by_meaning(engine, "service tree")[0] == f"{NOTES}/service.md"
    engine.settle()
    assert state(engine)[0] == "idle"
    assert by_meaning(engine, "service tree")[0] == f"{NOTES}/service.md"
    assert by_meaning(engine, "golden quince")[0] == f"{NOTES}/quince.md"
    assert f"{NOTES}/sorb.md" not in by_meaning(engine, "sorb")
    assert engine.kb.check() == []
    engine.close()


def test_without_the_model_before_it_is_found_by_words_until_the_switch(world: World) -> None:
    """D08: no query of the new model meets vectors of the old one."""
    filled(world).close()
    engine = SimulatedEngine(world.with_model(24, keep=False))
    result = engine.kb.search("quince", "hybrid")
    assert result.mode == "lexical"
    assert "hashed words 16, which is not on this machine any more" in (result.notice or "")
    assert [hit.path for hit in result.hits] == [f"{NOTES}/quince.md"]
    engine.write(f"{NOTES}/service.md", "# Service\n\nThe service tree ripens last.")
    work_without_reindexing(engine)
    assert engine.found("service tree") == [f"{NOTES}/service.md"]
    assert engine.kb.check() == [], "it has its vector in the new table"
    engine.settle()
    assert by_meaning(engine, "service tree")[0] == f"{NOTES}/service.md"
    assert engine.kb.check() == []
    engine.close()


def test_a_command_that_searches_loads_the_model_of_the_live_vectors(world: World) -> None:
    filled(world).close()
    engine = SimulatedEngine(world.with_model(24))
    engine.engine.embedders.load_for_queries(20)
    result = engine.kb.search("quince ripens", "vector")
    assert (result.mode, result.hits[0].path) == ("vector", f"{NOTES}/quince.md")
    assert not engine.engine.batcher.ready
    engine.close()


def test_an_empty_index_takes_another_model_at_once(world: World) -> None:
    SimulatedEngine(world).close()
    engine = SimulatedEngine(world.with_model(24))
    assert state(engine) == ("idle", 0, 0)
    assert engine.engine.embedders.earlier is None
    engine.close()


def test_a_model_that_is_wanted_no_more_is_given_up_with_what_was_begun_for_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(world).close()
    monkeypatch.setattr(reindexing, "_BATCH", 1)
    half = SimulatedEngine(world.with_model(24))
    assert half.engine.reindexing.step()
    half.close()
    third = SimulatedEngine(world.with_model(32))
    assert set(lengths(third)) == {"vectors_1", "vectors_3"}
    third.close()
    back = SimulatedEngine(world)
    assert state(back) == ("idle", len(FRUITS), len(FRUITS))
    assert lengths(back) == {"vectors_1": {64}}
    back.close()


def test_asked_for_with_the_same_model_every_enriched_text_is_embedded_again(engine: SimulatedEngine) -> None:
    engine.write(f"{NOTES}/quince.md", "# Quince\n\nIt ripens late.")
    engine.note("Steve = 363", "Suitcase Locks")
    before = engine.embedded()
    engine.engine.reindexing.begin("vectors")
    engine.engine.reindexing.begin("vectors")
    engine.settle()
    assert sorted(engine.embedded()[len(before) :]) == ["Quince\n\nIt ripens late.", "Suitcase Locks\n\nSteve = 363"]
    assert state(engine) == ("idle", 2, 2)
    assert engine.engine.reindexing.status().finished_at == pytest.approx(engine.clock.now(), abs=3600)


def test_an_answer_embedded_before_the_switch_is_made_again_by_the_new_model(world: World) -> None:
    filled(world).close()
    engine = SimulatedEngine(world.with_model(24))
    earlier = engine.engine.embedders.for_writing()
    engine.settle()
    engine.clock.advance(301)
    assert not engine.engine.reindexing.step()
    # The job chose its embedder before the switch, and comes to its commit after the old table is gone.
    parts = engine.engine.processor._parts
    stale_once = [earlier]
    object.__setattr__(
        parts, "embedding", lambda: stale_once.pop() if stale_once else engine.engine.embedders.for_writing()
    )
    job = engine.note("The service tree ripens last.", "Service")
    assert job.state == "done"
    assert engine.kb.check() == []
    assert not stale_once


class FailingDevice(HashDevice):
    """Fails on texts with a certain word, until it is mended."""

    def __init__(self, dimension: int, word: str) -> None:
        super().__init__(dimension)
        self.word: str | None = word

    def encode(self, texts: Sequence[str], query: bool) -> Vectors:
        if self.word is not None and any(self.word in text for text in texts):
            raise RuntimeError("the model fails on this text")
        return super().encode(texts, query)


def test_a_text_that_the_new_model_fails_on_leaves_the_old_vectors_in_use_and_is_tried_again(world: World) -> None:
    filled(world).close()
    device = FailingDevice(24, "medlar")
    other = World(world.home, world.clock, world.fs, device, (world.device,))
    engine = SimulatedEngine(other)
    while engine.engine.reindexing.step():
        pass
    status = engine.engine.reindexing.status()
    assert (status.state, status.chunks_done) == ("waiting", len(FRUITS) - 1)
    assert "failed on 1 of the chunks" in (status.error or "")
    assert by_meaning(engine)[0] == f"{NOTES}/quince.md"
    notices = Operations(engine.engine, engine.daemon).status()["notices"]
    assert any("Making the index anew waits" in notice for notice in notices)
    device.word = None
    engine.clock.advance(301)
    while engine.engine.reindexing.step():
        pass
    assert state(engine)[0] == "idle"
    assert by_meaning(engine, "medlar ripens")[0] == f"{NOTES}/medlar.md"
    engine.close()


def test_a_model_that_fails_on_every_text_is_not_asked_for_all_of_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reindexing, "_BATCH", 3)
    filled(world, chunks=12).close()
    device = FailingDevice(24, "ripens")
    engine = SimulatedEngine(World(world.home, world.clock, world.fs, device, (world.device,)))
    while engine.engine.reindexing.step():
        pass
    assert "failed on 3 of the chunks" in (engine.engine.reindexing.status().error or "")
    device.word = None
    engine.clock.advance(301)
    while engine.engine.reindexing.step():
        pass
    assert state(engine) == ("idle", 12, 12)
    engine.close()


def test_the_new_table_says_what_the_new_model_says(world: World) -> None:
    filled(world).close()
    engine = SimulatedEngine(world.with_model(24))
    engine.settle()
    rows = engine.read("SELECT enriched_text, embedding FROM chunks JOIN vectors_2 ON chunk_id = chunks.id")
    assert len(rows) == len(FRUITS)
    for text, blob in rows:
        assert np.allclose(np.frombuffer(blob, dtype=np.float32), hash_vectors([text], 24)[0], atol=1e-6)
    engine.close()


def test_vectors_are_never_written_for_a_chunk_that_went_meanwhile(engine: SimulatedEngine) -> None:
    engine.write(f"{NOTES}/quince.md", "# Quince\n\nIt ripens late.")
    engine.settle()
    engine.engine.reindexing.begin("vectors")
    run = engine.engine.writer.run
    batch = engine.engine.readers.read(lambda connection: reindexes.missing(connection, 2, 0, 10))
    engine.kb.remove_document(1)
    run(lambda connection: reindexes.fill(connection, 2, batch, hash_vectors(["x"], 16)))
    assert engine.read("SELECT count(*) FROM vectors_2") == [(0,)]
    assert run(lambda connection: reindexes.finish(connection, 1.0))
    run(reindexes.drop_replaced)
    run(lambda connection: reindexes.fill(connection, 1, batch, hash_vectors(["x"], 16)))
    assert run(vectors.live_embedder) == 2


def test_stale_documents_are_cut_again_and_fresh_ones_left_alone(world: World) -> None:
    first = SimulatedEngine(world)
    first.fs.write(f"{NOTES}/quince.md", b"# Quince\n\nIt ripens late.")
    first.fs.write(f"{NOTES}/paper.pdf", b"medlar\fsorb")
    first.fs.write("/simulated/desk/added.md", b"# Bullace\n\nA plum of hedges.")
    first.fs.write("/simulated/desk/added.pdf", b"damson\fgreengage")
    first.rescan()
    assert {first.add(f"/simulated/desk/added.{kind}").state for kind in ("md", "pdf")} == {"done"}
    first.note("Steve = 363", "Suitcase Locks")
    before = first.documents()
    first.close()
    world.configure(NOTES, text="[chunks]\nmin_tokens = 3\n")
    engine = SimulatedEngine(world)
    engine.settle()
    old = engine.read("SELECT DISTINCT chunker_fingerprint FROM documents WHERE type <> 'note'")
    jobs = engine.kb.jobs()[1]
    engine.engine.reindexing.begin("stale")
    assert engine.engine.reindexing.status().stale_left == 4
    engine.settle()
    assert engine.engine.reindexing.status().stale_left == 0
    new = engine.read("SELECT DISTINCT chunker_fingerprint FROM documents WHERE type <> 'note'")
    assert len(old) == len(new) == 1
    assert old != new
    assert engine.documents() == before, "in place, the same ids"
    assert [bool(request.kept) for request in engine.cage.requests] == [True, True], "nothing was converted again"
    assert engine.read("SELECT kind, count(*) FROM origins WHERE live = 1 GROUP BY kind ORDER BY kind") == [
        ("added", 2),
        ("note", 1),
        ("path", 2),
    ]
    assert engine.kb.jobs()[1] == jobs + 2, "a job for each file of a source; stored copies need none"
    engine.engine.reindexing.begin("stale")
    engine.settle()
    assert engine.kb.jobs()[1] == jobs + 2
    assert engine.kb.check() == []
    engine.close()


def test_all_cuts_and_embeds_everything_again(world: World) -> None:
    engine = filled(world)
    before = engine.index()
    seen = len(engine.embedded())
    engine.engine.reindexing.begin("all")
    engine.settle()
    assert engine.index() == before
    assert len(engine.embedded()) == seen + len(FRUITS)
    assert engine.engine.reindexing.status().state == "idle"
    engine.close()


def test_a_stored_copy_that_is_damaged_keeps_what_is_indexed_of_it(engine: SimulatedEngine) -> None:
    engine.fs.write("/simulated/desk/added.md", b"# Bullace\n\nA plum of hedges.")
    job = engine.add("/simulated/desk/added.md")
    (stored,) = engine.read("SELECT stored_path FROM documents WHERE id = ?", job.document_id)
    with open(stored[0], "wb") as file:
        file.write(b"something else")
    engine.engine.reindexing.begin("all")
    engine.settle()
    assert engine.found("bullace") == ["/simulated/desk/added.md"]
    with open(engine.world.locations.error_log, encoding="utf-8") as file:
        assert "is damaged" in file.read()


def test_a_document_on_which_other_rules_fail_stays_as_the_rules_before_made_it(engine: SimulatedEngine) -> None:
    engine.write(f"{NOTES}/paper.pdf", "medlar")
    engine.settle()
    engine.rescan()  # it was read within a tick of its change, so it is read once more
    run = engine.engine.writer.run
    run(lambda connection: connection.execute("UPDATE documents SET converter_fingerprint = 'older'"))
    # The rules of today fail on the same bytes: nothing is kept, and the converter refuses them.
    engine.cage.refused.add("paper.pdf")
    for kept in Path(engine.world.locations.conversions_dir).iterdir():
        kept.unlink()
    engine.engine.reindexing.begin("stale")
    engine.settle()
    assert engine.found("medlar") == [f"{NOTES}/paper.pdf"]
    assert engine.kb.jobs(state="failed")[1] == 1


def test_it_is_asked_of_the_daemon_only_and_by_a_scope_that_there_is(engine: SimulatedEngine) -> None:
    with pytest.raises(NotRunning):
        Operations(engine.engine, None).reindex()
    with pytest.raises(UsageError):
        Operations(engine.engine, engine.daemon).reindex("everything")
    assert Operations(engine.engine, None).reindex_status()["state"] == "idle"
