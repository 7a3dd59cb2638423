"""Known bytes that are added again: left alone, or read anew in place where something else was asked for by hand."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from kbsync.errors import SkipFile
from kbsync.model import IngestOptions, OcrMode
from tests.fakes.simulated_engine import NOTES, SimulatedEngine

DESK = "/simulated/desk"
TEXT = b"# Quince\n\ndef ripen():\n    return 'late'\n"


def _mirrored(engine: SimulatedEngine, name: str, content: bytes) -> str:
    path = f"{NOTES}/{name}"
    engine.write(path, content)
    engine.settle()
    return path


def _added(engine: SimulatedEngine, name: str, content: bytes) -> str:
    path = f"{DESK}/{name}"
    engine.fs.write(path, content)
    engine.add(path)
    return path


# Known by hand, and known only through a mirror source.
Known = Callable[[SimulatedEngine, str, bytes], str]
WAYS = pytest.mark.parametrize("known", [_added, _mirrored], ids=["added", "mirrored"])


@WAYS
@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("a.md", IngestOptions(type="text"), ("text", None)),
        ("a.md", IngestOptions(type="code", language="python"), ("code", "python")),
        ("a.py", IngestOptions(type="code", language="bash"), ("code", "bash")),
        ("a.py", IngestOptions(type="markdown"), ("markdown", None)),
    ],
)
def test_another_type_or_language_by_hand_makes_the_document_anew_in_place(
    engine: SimulatedEngine, known: Known, name: str, options: IngestOptions, expected: tuple[str, str | None]
) -> None:
    path = known(engine, name, TEXT)
    job = engine.add(path, options)
    assert (job.state, job.document_id) == ("done", 1)
    document, paths, _ = engine.kb.document(1)
    assert (document.type, document.language, paths) == (*expected, [path])
    assert len(engine.documents()) == 1
    engine.rescan()
    again = engine.add(path)
    assert (again.state, again.reason) == ("skipped", "already_indexed")
    assert engine.kb.document(1)[0].type == expected[0], "what was set by hand stays"
    assert engine.kb.check() == []


@WAYS
@pytest.mark.parametrize("mode", ["always", "never"])
def test_another_ocr_mode_by_hand_reads_the_document_again_in_place_and_holds(
    engine: SimulatedEngine, known: Known, mode: OcrMode
) -> None:
    path = known(engine, "scan.pdf", b"quince")
    job = engine.add(path, IngestOptions(ocr=mode))
    assert (job.state, job.document_id) == ("done", 1)
    assert [request.ocr for request in engine.cage.requests] == ["auto", mode]
    # Neither the next add nor the mirror, whose own mode is another one, takes it back.
    assert engine.add(path).reason == "already_indexed"
    _mirrored(engine, "with the same bytes.pdf", b"quince")
    engine.rescan()
    assert [request.ocr for request in engine.cage.requests] == ["auto", mode]
    assert engine.kb.document(1)[0].metadata["ocr"] == mode


def test_the_mode_that_it_was_read_in_named_by_hand_changes_nothing(engine: SimulatedEngine) -> None:
    path = _added(engine, "scan.pdf", b"quince")
    assert engine.add(path, IngestOptions(ocr="auto")).reason == "already_indexed"
    assert len(engine.cage.requests) == 1


def test_an_add_without_a_mode_does_not_undo_the_mode_of_the_source(
    started: Callable[[], SimulatedEngine],
) -> None:
    engine = started()
    (engine.world.home / "config.toml").write_text(f'[[sources]]\npath = "{NOTES}"\nocr = "always"\n')
    engine.daemon.reload()
    path = _mirrored(engine, "scan.pdf", b"quince")
    job = engine.add(path)
    assert (job.state, job.reason, job.document_id) == ("skipped", "already_indexed", 1)
    assert [request.ocr for request in engine.cage.requests] == ["always"]


def test_a_title_by_hand_survives_another_type_by_hand(engine: SimulatedEngine) -> None:
    path = f"{DESK}/a.md"
    engine.fs.write(path, TEXT)
    engine.add(path, IngestOptions(title="Cydonia"))
    engine.add(path, IngestOptions(type="text"))
    document = engine.kb.document(1)[0]
    assert (document.title, document.type) == ("Cydonia", "text")


# ---- a look before ----


def test_a_look_says_what_would_be_added_and_keeps_nothing(engine: SimulatedEngine) -> None:
    engine.fs.write(f"{DESK}/a.md", TEXT)
    before = engine.dump()
    assert engine.kb.adding.look_at(f"{DESK}/a.md", IngestOptions()) == ("markdown", len(TEXT))
    assert engine.kb.adding.look_at(f"{DESK}/a.md", IngestOptions(type="text")) == ("text", len(TEXT))
    assert engine.dump() == before
    assert os.listdir(engine.world.locations.staging_dir) == []


@WAYS
def test_a_look_at_what_is_indexed_agrees_with_the_add(engine: SimulatedEngine, known: Known) -> None:
    path = known(engine, "scan.pdf", b"quince")
    for options in (IngestOptions(), IngestOptions(ocr="auto"), IngestOptions(ocr="never"), IngestOptions(title="T")):
        would_add = engine.kb.adding.look_at(path, options) is not None
        assert (engine.add(path, options).state == "done") is would_add, options


def test_a_look_refuses_what_the_add_refuses(engine: SimulatedEngine) -> None:
    for name, content in (("a.zip", b"PK"), ("empty.md", b""), ("id_rsa", b"key")):
        engine.fs.write(f"{DESK}/{name}", content)
        with pytest.raises(SkipFile) as look:
            engine.kb.adding.look_at(f"{DESK}/{name}", IngestOptions())
        with pytest.raises(SkipFile) as add:
            engine.kb.adding.add_file(f"{DESK}/{name}", IngestOptions())
        assert (look.value.reason, str(look.value)) == (add.value.reason, str(add.value))


# ---- what an interrupted add left in the queue ----


def test_bytes_that_wait_in_the_queue_are_not_queued_twice(engine: SimulatedEngine) -> None:
    path = f"{DESK}/a.md"
    engine.fs.write(path, TEXT)
    first = engine.kb.adding.add_file(path, IngestOptions())
    assert engine.kb.adding.add_file(path, IngestOptions()) == first
    assert len(os.listdir(engine.world.locations.staging_dir)) == 1
    engine.settle()
    assert engine.job(first).state == "done"
    assert os.listdir(engine.world.locations.staging_dir) == []


@pytest.mark.parametrize("differs", ["content", "path", "options"])
def test_what_differs_from_what_waits_is_queued_by_itself(engine: SimulatedEngine, differs: str) -> None:
    engine.fs.write(f"{DESK}/a.md", TEXT)
    first = engine.kb.adding.add_file(f"{DESK}/a.md", IngestOptions())
    path, options = f"{DESK}/a.md", IngestOptions()
    if differs == "content":
        engine.fs.write(path, TEXT.replace(b"late", b"soon"))  # as long as before
    elif differs == "path":
        path = f"{DESK}/b.md"
        engine.fs.write(path, TEXT)
    else:
        options = IngestOptions(title="Cydonia")
    second = engine.kb.adding.add_file(path, options)
    assert second != first
    engine.settle()
    assert [engine.job(number).state for number in (first, second)] != ["queued", "queued"]
    assert engine.job(second).state == ("skipped" if differs == "path" else "done")


# ---- counting a folder ----


def test_a_survey_counts_by_type_what_a_source_would_index(engine: SimulatedEngine) -> None:
    for name, size in (
        ("a.md", 10),
        ("deep/b.md", 20),
        ("deep/c.pdf", 300),
        ("d.zip", 5),
        (".env", 7),
        ("e.tmp.md", 9),
    ):
        engine.fs.write(f"{DESK}/{name}", b"x" * size)
    survey = engine.kb.adding.survey(DESK, recursive=True, ignore=("*.tmp.md",), within_s=5)
    assert (survey.files, survey.sizes, survey.complete) == (
        {"markdown": 2, "pdf": 1},
        {"markdown": 30, "pdf": 300},
        True,
    )
    flat = engine.kb.adding.survey(DESK, recursive=False, ignore=(), within_s=5)
    assert flat.files == {"markdown": 2}


def test_a_survey_that_takes_too_long_says_so(engine: SimulatedEngine) -> None:
    engine.fs.write(f"{DESK}/a.md", TEXT)
    assert not engine.kb.adding.survey(DESK, recursive=True, ignore=(), within_s=0).complete
