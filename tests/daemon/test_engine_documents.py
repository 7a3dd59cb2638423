"""Documents that a converter must read first: their lane, what is kept of them, and their passwords."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbsync.model import IngestOptions, Priority
from kbsync.reasons import FileState, Reason
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

PAPER = f"{NOTES}/paper.pdf"


def test_a_document_is_converted_once_and_found_with_its_page(engine: SimulatedEngine) -> None:
    engine.write(PAPER, "quince\fmedlar")
    engine.settle()
    hits = engine.kb.search("medlar", "lexical").hits
    assert [(hit.path, hit.page, hit.type) for hit in hits] == [(PAPER, 2, "pdf")]
    document, _, _ = engine.kb.document(hits[0].document_id)
    assert document.page_count == 2
    assert len(engine.cage.requests) == 1
    assert os.listdir(engine.world.locations.staging_dir) == [], "the private copy is gone"


def test_the_converter_gets_a_private_copy_of_the_bytes_that_were_hashed(engine: SimulatedEngine) -> None:
    engine.write(PAPER, "quince")
    engine.settle()
    (request,) = engine.cage.requests
    assert os.path.dirname(request.path) == engine.world.locations.staging_dir
    assert (request.name, request.type, request.ocr) == ("paper.pdf", "pdf", "auto")


def test_text_never_waits_behind_documents(engine: SimulatedEngine) -> None:
    for number in range(20):
        engine.fs.write(f"{NOTES}/{number}.pdf", f"paper {number}".encode())
    engine.fs.write(f"{NOTES}/large.md", b"# Note\n\nthe largest file of all: " + b"medlar " * 400)
    engine.clock.advance(10)
    engine.daemon.rescan()
    assert engine.loops.rescans.step()
    text = engine.engine.worker(lambda _source_id: None, "text", Priority.LOW)
    assert text.step()
    assert engine.found("medlar") == [f"{NOTES}/large.md"]
    assert not text.step(), "documents are for the other workers"
    assert engine.engine.worker(lambda _source_id: None, "document", Priority.LOW).step()


def test_other_chunk_settings_cut_the_kept_conversion_again(world: World) -> None:
    first = SimulatedEngine(world)
    first.write(PAPER, "quince")
    first.settle()
    first.close()
    world.configure(NOTES, text="[chunks]\nmin_tokens = 3\n")
    again = SimulatedEngine(world)
    again.fs.set_mtime(PAPER, 5.0)
    again.rescan()
    assert [bool(request.kept) for request in first.cage.requests + again.cage.requests] == [False, True]
    assert again.found("quince") == [PAPER]
    again.close()


def test_what_is_kept_goes_with_its_document(world: World) -> None:
    life = SimulatedEngine(world)
    life.write(PAPER, "quince")
    life.settle()
    kept = Path(world.locations.conversions_dir)
    assert len(list(kept.iterdir())) == 1
    life.kb.remove_document(1)
    life.close()
    SimulatedEngine(world).close()
    assert list(kept.iterdir()) == []


def test_a_document_that_three_children_died_of_is_parked_until_it_changes(engine: SimulatedEngine) -> None:
    """P08: and no other waits for it."""
    engine.write(PAPER, "crash")
    engine.settle()
    assert len(engine.cage.requests) == 3
    assert engine.state(PAPER) == (FileState.FAILED, Reason.CRASHED)
    engine.rescan()
    assert len(engine.cage.requests) == 3
    engine.write(PAPER, "quince")
    engine.settle()
    assert engine.found("quince") == [PAPER]


def test_a_moved_document_is_not_converted_again(engine: SimulatedEngine) -> None:
    engine.write(PAPER, "quince")
    engine.settle()
    engine.rename(PAPER, f"{NOTES}/moved.pdf")
    engine.settle()
    assert engine.found("quince") == [f"{NOTES}/moved.pdf"]
    assert [bool(request.kept) for request in engine.cage.requests] == [False, True], "only its title follows the name"


def test_a_document_without_text_is_indexed_says_so_and_is_found_by_its_name(engine: SimulatedEngine) -> None:
    picture = f"{NOTES}/lighthouse at dusk.pdf"
    engine.write(picture, " ")
    engine.settle()
    assert engine.state(picture) == (FileState.INDEXED, Reason.NO_TEXT)
    assert engine.found("dusk") == [picture]
    engine.rename(picture, f"{NOTES}/harbour.pdf")
    engine.rescan()
    assert engine.found("dusk") == []
    assert engine.found("harbour") == [f"{NOTES}/harbour.pdf"]


def test_a_damaged_document_fails_and_is_left_alone_until_it_changes(engine: SimulatedEngine) -> None:
    engine.write(PAPER, "corrupt")
    engine.settle()
    engine.rescan()
    assert engine.state(PAPER) == (FileState.FAILED, Reason.CORRUPT)
    assert len(engine.cage.requests) == 1
    engine.write(PAPER, "mended quince")
    engine.settle()
    assert engine.found("quince") == [PAPER]


def test_a_guarded_document_asks_for_its_password_once_and_is_read_when_it_is_supplied(
    engine: SimulatedEngine, tmp_path: Path
) -> None:
    engine.write(PAPER, "password 1234\nquince")
    engine.settle()
    engine.rescan()
    assert engine.state(PAPER) == (FileState.FAILED, Reason.PASSWORD_REQUIRED)
    assert len(engine.cage.requests) == 1, "no retry storm"
    passwords = tmp_path / "passwords"
    passwords.write_text("wrong\n1234\n")
    folder = f'[[sources]]\npath = "{NOTES}"\npassword_file = "{passwords}"\n'
    (engine.world.home / "config.toml").write_text(folder)
    engine.daemon.reload()
    engine.rescan()
    assert engine.found("quince") == [PAPER]
    assert engine.state(PAPER) == (FileState.INDEXED, None)


@pytest.mark.parametrize(
    ("passwords", "reason"), [("1234", None), ("wrong", Reason.PASSWORD_REQUIRED), (None, Reason.PASSWORD_REQUIRED)]
)
def test_a_guarded_document_is_added_with_a_password_file(
    engine: SimulatedEngine, tmp_path: Path, passwords: str | None, reason: Reason | None
) -> None:
    file = tmp_path / "passwords"
    if passwords is not None:
        file.write_text(passwords)
    engine.fs.write("/simulated/desk/paper.pdf", b"password 1234\nquince")
    job = engine.add("/simulated/desk/paper.pdf", IngestOptions(password_file=str(file)))
    assert job.reason == reason
    assert engine.found("quince") == ([] if reason else ["/simulated/desk/paper.pdf"])


def test_another_ocr_mode_asked_for_by_hand_converts_again_in_place(engine: SimulatedEngine) -> None:
    engine.write(PAPER, "quince")
    engine.settle()
    job = engine.add(PAPER, IngestOptions(ocr="always"))
    assert (job.state, job.document_id) == ("done", 1)
    assert [request.ocr for request in engine.cage.requests] == ["auto", "always"]


def test_the_cage_ends_with_the_engine(world: World) -> None:
    life = SimulatedEngine(world)
    life.close()
    assert life.cage.closed


def test_a_guarded_document_of_a_source_that_is_added_with_its_password_is_followed_there_too(
    engine: SimulatedEngine, tmp_path: Path
) -> None:
    engine.write(PAPER, "password 1234\nquince")
    engine.settle()
    assert engine.state(PAPER) == (FileState.FAILED, Reason.PASSWORD_REQUIRED)
    (tmp_path / "passwords").write_text("1234")
    engine.add(PAPER, IngestOptions(password_file=str(tmp_path / "passwords")))
    assert engine.state(PAPER) == (FileState.INDEXED, None)
    assert engine.found("quince") == [PAPER]
