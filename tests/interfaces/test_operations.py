"""Documents as the interfaces see them: how they are added by hand, and what `status` says of their conversion."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbsync.errors import UsageError
from kbsync.interfaces.cli import status
from kbsync.interfaces.operations import Operations
from kbsync.interfaces.records import conversion_record
from kbsync.model import OcrMode
from kbsync.pipelines.isolation import SlotStatus
from kbsync.pipelines.isolation_plan import Slots
from tests.fakes.simulated_engine import NOTES, SimulatedEngine

PAPER = f"{NOTES}/paper.pdf"


@pytest.mark.parametrize("mode", ["auto", "always", "never"])
def test_a_document_is_read_in_the_ocr_mode_that_was_asked_for(engine: SimulatedEngine, mode: OcrMode) -> None:
    engine.fs.write(PAPER, b"quince")
    Operations(engine.engine, None).add([PAPER], None, None, None, mode)
    engine.settle()
    assert engine.cage.requests[0].ocr == mode


def test_a_protected_document_is_opened_by_the_passwords_of_the_file_that_came_with_it(
    engine: SimulatedEngine, tmp_path: Path
) -> None:
    passwords = tmp_path / "passwords"
    passwords.write_text("wrong\n1234\n")
    engine.fs.write(PAPER, b"password 1234\nquince")
    Operations(engine.engine, None).add([PAPER], None, None, None, None, str(passwords))
    engine.settle()
    assert engine.found("quince") == [PAPER]


@pytest.mark.parametrize(("ocr", "password_file"), [("sometimes", None), (None, "passwords")])
def test_what_makes_no_sense_is_refused_before_anything_is_staged(
    engine: SimulatedEngine, ocr: str | None, password_file: str | None
) -> None:
    engine.fs.write(PAPER, b"quince")
    with pytest.raises(UsageError):
        Operations(engine.engine, None).add([PAPER], None, None, None, ocr, password_file)
    assert os.listdir(engine.world.locations.staging_dir) == []


def test_status_says_how_documents_are_converted(engine: SimulatedEngine) -> None:
    record = Operations(engine.engine, None).status()["conversion"]
    assert record["slots"] == engine.engine.slots.count
    assert record["children"] == [{"state": "idle", "pid": 1, "file": None, "seconds": None, "resident_bytes": 0}]


def test_line_of_status_names_the_file_that_is_read_and_what_memory_that_takes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    children = (
        SlotStatus("busy", 11, "long.pdf", 12.34, 1_900_000_000, 2_000_000_000),
        SlotStatus("idle", 12, None, None, 600_000_000, 700_000_000),
        SlotStatus("none", None, None, None, 0, 0),
    )
    status._print(
        {
            "version": "1",
            "state": "running",
            "database": None,
            "queue": None,
            "sources": [],
            "conversion": conversion_record(Slots(3, 2), children),
        }
    )
    assert capsys.readouterr().out.splitlines()[1:] == [
        "conversion up to 3 documents at once, 2 threads each; 2 processes, 2.5 GB; reading long.pdf for 12 s"
    ]
    begun = conversion_record(Slots(3, 2), [SlotStatus("idle", 12, None, None, 0, 0)])
    assert status._conversion(begun).endswith("; 1 process"), "what cannot be measured yet is not told as nothing"


def test_line_of_status_says_which_indexed_files_have_no_text(engine: SimulatedEngine) -> None:
    engine.fs.write(PAPER, b" ")
    engine.fs.write(f"{NOTES}/broken.pdf", b"corrupt")
    engine.fs.write(f"{NOTES}/empty.md", b"")
    engine.clock.advance(10)
    engine.rescan()
    line = status._files(engine.kb.statistics()["files"])  # type: ignore[arg-type]
    assert line == "1 indexed (1 no_text), 1 skipped (1 empty), 1 failed (1 corrupt)"


def test_what_moved_or_was_taken_in_is_not_counted_as_gone(engine: SimulatedEngine) -> None:
    inbox = "/simulated/inbox"
    engine.fs.make_directory(inbox)
    engine.configure(NOTES, text=f'[[sources]]\npath = "{inbox}"\nmode = "inbox"\n')
    for name in ("stays", "moves", "goes"):
        engine.write(f"{NOTES}/sub/{name}.md", name)
    engine.write(f"{inbox}/comes.md", "medlar")
    engine.settle()
    engine.rename(f"{NOTES}/sub/moves.md", f"{NOTES}/moved.md")
    engine.remove(f"{NOTES}/sub/goes.md")
    engine.settle()
    engine.rescan()
    record = Operations(engine.engine, None).status()
    assert record["files"]["states"]["gone"] == 1
    assert [
        (source["mode"], source["files"]["gone"]) for source in Operations(engine.engine, None).sources()["sources"]
    ] == [
        ("inbox", 0),
        ("mirror", 1),
    ]
    assert (record["taken_in"], record["added"]["seen"]) == (1, 0)
    assert "1 indexed, 1 gone" in engine.why(f"{NOTES}/sub").detail
    assert "nothing is in it" in engine.why(inbox).detail


def test_history_tells_a_rename_as_a_move_when_a_folder_came_and_what_a_person_confirmed(
    engine: SimulatedEngine,
) -> None:
    for number in range(40):
        engine.fs.write(f"{NOTES}/n{number}.md", f"note {number}".encode())
    engine.rescan()
    engine.rename(f"{NOTES}/n39.md", f"{NOTES}/renamed.md")
    engine.settle()
    engine.rescan()
    whole = Operations(engine.engine, None)
    (newest, *_) = whole.history(f"{NOTES}/n39.md")["events"]
    assert (newest["kind"], newest["detail"]) == ("moved", f"{NOTES}/renamed.md")
    for number in range(30):
        engine.fs.remove(f"{NOTES}/n{number}.md")
    engine.rescan()
    engine.rescan()
    (notice,) = [one for one in whole.status()["notices"] if "are missing" in one]
    assert notice.startswith(f"In {NOTES} 30 of 40 files are missing")
    engine.engine.source_control.confirm(NOTES)
    of_source = [(one["kind"], one["detail"]) for one in whole.history(NOTES)["events"] if one["path"] == NOTES]
    assert of_source[0] == ("confirmed", "30 missing files are gone on purpose")
    assert of_source[-1] == ("source_added", None)
