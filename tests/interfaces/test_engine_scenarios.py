"""The scenarios of the engine's specification, in tests that carry their names, and the road beside them."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

from kbsync.model import Conversion, ConversionRequest, IngestOptions
from tests.fakes.eventually import eventually
from tests.fakes.reading_cage import ReadingCage
from tests.fakes.simulated_engine import SimulatedEngine
from tests.interfaces.conftest import Service

DESK = "/simulated/desk"
_NO_OPTIONS = IngestOptions()


class LookingCage(ReadingCage):
    """Looks at the jobs while a conversion runs."""

    def __init__(self, engine: SimulatedEngine) -> None:
        super().__init__()
        self.engine = engine
        self.states: list[str] = []

    def run(self, request: ConversionRequest, time_limit_s: float) -> Conversion:
        self.states += [job.state for job in self.engine.kb.jobs()[0]]
        return super().run(request, time_limit_s)


def test_a_pdf_that_is_added_by_hand_goes_the_whole_road(engine: SimulatedEngine) -> None:
    cage = LookingCage(engine)
    object.__setattr__(engine.engine.processor._parts.reader, "_cage", cage)
    engine.fs.write(f"{DESK}/Locks.pdf", b"Steve = 363\fNorth = 12")
    job = engine.add(f"{DESK}/Locks.pdf")
    assert cage.states == ["processing"]
    assert (job.state, job.document_id, job.chunk_count) == ("done", 1, 2)
    document, _paths, chunks = engine.kb.document(1)
    permanent = os.path.join(engine.world.locations.documents_dir, f"{document.content_hash}.pdf")
    assert document.stored_path == permanent
    assert Path(permanent).read_bytes() == b"Steve = 363\fNorth = 12"
    assert document.original_filename == "Locks.pdf"
    assert [chunk.enriched_text for chunk in chunks] == ["Locks\n\nSteve = 363", "Locks\n\nNorth = 12"]
    assert engine.embedded() == [chunk.enriched_text for chunk in chunks]
    assert engine.read("SELECT count(*) FROM vectors_1") == [(2,)]
    assert os.listdir(engine.world.locations.staging_dir) == []


def test_after_a_document_that_fails_the_next_one_runs(engine: SimulatedEngine) -> None:
    engine.fs.write(f"{DESK}/broken.pdf", b"corrupt")
    engine.fs.write(f"{DESK}/whole.pdf", b"medlar")
    broken = engine.kb.adding.add_file(f"{DESK}/broken.pdf", _NO_OPTIONS)
    whole = engine.kb.adding.add_file(f"{DESK}/whole.pdf", _NO_OPTIONS)
    engine.settle()
    failed = engine.job(broken)
    assert (failed.state, failed.reason, failed.document_id) == ("failed", "corrupt", None)
    assert "broken.pdf" in (failed.error or "")
    assert os.listdir(engine.world.locations.staging_dir) == []
    assert engine.job(whole).state == "done", "the next job ran"
    assert engine.found("medlar") == [f"{DESK}/whole.pdf"]


class HoldingCage(ReadingCage):
    """Holds a conversion until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = threading.Event(), threading.Event()

    def run(self, request: ConversionRequest, time_limit_s: float) -> Conversion:
        self.begun.set()
        assert self.go.wait(20)
        return super().run(request, time_limit_s)


def test_search_during_active_ingestion(engine: SimulatedEngine) -> None:
    engine.note("The medlar ripens late.", "Medlar")
    cage = HoldingCage()
    object.__setattr__(engine.engine.processor._parts.reader, "_cage", cage)
    engine.fs.write(f"{DESK}/slow.pdf", b"quince")
    engine.kb.adding.add_file(f"{DESK}/slow.pdf", _NO_OPTIONS)
    worker = threading.Thread(target=engine.settle)
    worker.start()
    try:
        assert cage.begun.wait(20)
        assert engine.kb.statistics()["queue"] == {"queued": 0, "processing": 1}
        assert [hit.title for hit in engine.kb.search("medlar").hits] == ["Medlar"]
        assert engine.kb.search("quince", "lexical").hits == ()
    finally:
        cage.go.set()
        worker.join()
    assert engine.found("quince") == [f"{DESK}/slow.pdf"]


def test_get_engine_status(service: Service) -> None:
    service.write("status.md", "# Status\n\nAll is well.")
    answer = service.ask("GET", "status").json()
    version = Path(__file__).resolve().parents[2] / "VERSION"
    assert answer["version"] == version.read_text(encoding="utf-8").strip()
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", answer["version"])
    assert (answer["model_name"], answer["embedding_dim"]) == ("hashed words", 16)
    assert set(answer["device"]) >= {"kind", "name", "count", "memory"}
    assert answer["database"]["documents_by_type"]["markdown"] >= 1
    assert answer["database"]["total_chunks"] >= 1
    assert answer["database"]["size_bytes"] > 0
    assert answer["queue"] == {"queued": 0, "processing": 0}


def test_trigger_reindex(service: Service) -> None:
    service.write("reindex.md", "# Medlar\n\nIt ripens late.")
    before = service.ask("GET", "reindex").json()
    assert before["state"] == "idle"
    reply = service.ask("POST", "reindex")
    assert reply.status == 202
    begun = reply.json()
    assert begun["chunks_total"] == service.ask("GET", "status").json()["database"]["total_chunks"]
    assert set(begun) == set(before)
    assert service.ask("GET", "search?q=ripens&mode=vector").json()["mode"] == "vector"
    eventually(lambda: service.ask("GET", "reindex").json()["state"] == "idle")
    after = service.ask("GET", "reindex").json()
    assert after["chunks_done"] == after["chunks_total"]
    assert after["finished_at"] >= before["finished_at"]
    assert service.ask("GET", "search?q=ripens&mode=vector").json()["mode"] == "vector"
    assert service.ask("POST", "reindex", {"scope": "everything"}).status == 422


def test_the_command_follows_a_reindex_to_its_end(service: Service) -> None:
    service.write("command.md", "# Quince\n\nIt ripens late.")
    done = service.command("reindex")
    assert done.exit_code == 0, done.output
    assert "The index is whole: " in done.output
    assert service.command("reindex", "--no-wait", "--json", "--stale").exit_code == 0
    assert service.command("reindex", "--stale", "--all").exit_code == 2
