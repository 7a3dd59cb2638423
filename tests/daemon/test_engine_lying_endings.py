"""Files whose ending is not what they are: read as what they are, and said so; a person's word wins."""

from __future__ import annotations

import pytest

from kbsync.file_types import DocumentType
from kbsync.model import IngestOptions, Priority
from kbsync.reasons import FileState, Reason
from kbsync.store.documents import Document
from tests.fakes.simulated_engine import NOTES, SimulatedEngine

PDF = b"%PDF-1.7\nquince"
DOCX = b"PK\x03\x04" + b"." * 26 + b"word/document.xml quince"
PICTURE = b"II*\x00 quince"
PAGE = b"<!DOCTYPE html>\n<p>quince"
LIES: list[tuple[bytes, str, DocumentType, DocumentType]] = [
    (DOCX, "letter.pdf", "docx", "pdf"),
    (DOCX, "letter.md", "docx", "markdown"),
    (PAGE, "page.txt", "html", "markdown"),
    (PAGE, "page.pdf", "html", "pdf"),
    (PAGE, "page.csv", "html", "csv"),
    (PDF, "paper.md", "pdf", "markdown"),
    (PDF, "paper.py", "pdf", "code"),
    (PDF, "paper.html", "pdf", "html"),
    (PICTURE, "scan.docx", "image", "docx"),
    (PICTURE, "scan.log", "image", "text"),
]


def document_at(engine: SimulatedEngine, path: str) -> Document:
    (document_id,) = [hit.document_id for hit in engine.kb.search("quince", "lexical").hits if path in hit.paths]
    return engine.kb.document(document_id)[0]


@pytest.mark.parametrize("by_hand", [False, True], ids=["followed", "added"])
@pytest.mark.parametrize(("data", "name", "is_type", "says"), LIES, ids=[f"{row[2]} as {row[1]}" for row in LIES])
def test_a_file_is_read_as_what_it_is_and_the_document_says_that_its_ending_is_another(
    engine: SimulatedEngine, data: bytes, name: str, is_type: DocumentType, says: DocumentType, by_hand: bool
) -> None:
    path = f"/simulated/desk/{name}" if by_hand else f"{NOTES}/{name}"
    if by_hand:
        engine.fs.write(path, data)
        assert engine.add(path).state == "done"
    else:
        engine.write(path, data)
        engine.settle()
        assert engine.state(path) == (FileState.INDEXED, None)
    document = document_at(engine, path)
    assert (document.type, document.metadata["ending_says"], document.type_by_hand) == (is_type, says, False)
    assert [request.type for request in engine.cage.requests] == [is_type]


def test_utf16_named_csv_is_a_table(engine: SimulatedEngine) -> None:
    path = f"{NOTES}/prices.csv"
    engine.write(path, "fruit;price\nquince;3\n".encode("utf-16"))
    engine.settle()
    document = document_at(engine, path)
    assert (document.type, document.metadata) == ("csv", {"encoding": "utf-16-le"})
    assert engine.kb.search("quince", "lexical").hits[0].text.splitlines()[-1] == "| quince | 3 |"


def test_text_named_as_a_document_fails_and_says_how_it_is_read(engine: SimulatedEngine) -> None:
    path = f"{NOTES}/paper.pdf"
    engine.write(path, "corrupt")  # what the cage answers to such bytes
    engine.settle()
    explanation = engine.why(path)
    assert (explanation.state, explanation.reason) == (FileState.FAILED, Reason.CORRUPT)
    assert explanation.detail is not None
    assert "this is text, not pdf" in explanation.detail
    assert "--type markdown" in explanation.detail
    assert engine.add(path, IngestOptions(type="markdown")).state == "done"
    assert engine.found("corrupt") == [path]


def test_what_is_set_by_hand_beats_the_content(engine: SimulatedEngine) -> None:
    path = f"{NOTES}/page.txt"
    engine.write(path, PAGE)
    engine.settle()
    assert document_at(engine, path).type == "html"
    assert engine.add(path, IngestOptions(type="text")).state == "done"
    document = document_at(engine, path)
    assert (document.type, document.type_by_hand) == ("text", True)
    assert "ending_says" not in document.metadata
    engine.fs.set_mtime(path, 5.0)
    engine.rescan()
    assert document_at(engine, path).type == "text", "and it stays so when the file is looked at again"


def test_a_language_set_by_hand_beats_the_content_too(engine: SimulatedEngine) -> None:
    path = "/simulated/desk/template.txt"
    engine.fs.write(path, PAGE)
    assert engine.add(path, IngestOptions(type="code", language="bash")).state == "done"
    assert document_at(engine, path).language == "bash"


def test_a_document_set_to_be_text_by_hand_is_read_whole_when_its_source_is_walked(engine: SimulatedEngine) -> None:
    path = f"{NOTES}/paper.pdf"
    text = "plum " * 100_000 + "quince"  # more than what is looked at of a document's start
    engine.write(path, text)
    engine.settle()
    assert engine.add(path, IngestOptions(type="text")).state == "done"
    engine.write(path, text + " medlar")
    engine.settle()
    assert engine.add(path, IngestOptions(type="text")).state == "done"
    engine.fs.set_mtime(path, 5.0)
    engine.rescan()
    assert engine.found("medlar") == [path]


@pytest.mark.parametrize(
    "data",
    [
        b"\x7fELF\x02\x01\x01" + bytes(200),
        b"PK\x03\x04" + bytes(26) + b"notes/a.md" + bytes(range(256)),
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600),
        b"GIF89a" + bytes(range(256)),
        bytes(range(256)) * 8,
    ],
    ids=["program", "zip", "old office", "gif", "bytes"],
)
@pytest.mark.parametrize("name", ["notes.md", "table.csv", "script.sh"])
def test_binaries_are_never_text(engine: SimulatedEngine, data: bytes, name: str) -> None:
    engine.write(f"{NOTES}/{name}", data)
    engine.settle()
    assert engine.state(f"{NOTES}/{name}") == (FileState.SKIPPED, Reason.BINARY)
    assert engine.cage.requests == []


def test_text_does_not_wait_for_documents_that_are_named_as_text(engine: SimulatedEngine) -> None:
    for number in range(20):
        engine.fs.write(f"{NOTES}/{number}.md", PDF + b" %d" % number)
    engine.fs.write(f"{NOTES}/large.md", b"# Note\n\nthe largest file of all: " + b"medlar " * 400)
    engine.clock.advance(10)
    engine.daemon.rescan()
    assert engine.loops.rescans.step()
    text = engine.engine.worker(lambda _source_id: None, "text", Priority.LOW)
    while text.step():
        pass
    assert engine.found("medlar") == [f"{NOTES}/large.md"]
    assert engine.cage.requests == [], "the documents were left to the other workers"
    engine.settle()
    assert [kind for (kind,) in engine.read("SELECT type FROM documents ORDER BY type")] == ["markdown"] + ["pdf"] * 20
    assert len(engine.cage.requests) == 20


def test_the_same_content_under_an_honest_and_a_lying_name_is_one_document_converted_once(
    engine: SimulatedEngine,
) -> None:
    engine.write(f"{NOTES}/b.pdf", PDF)
    engine.settle()
    engine.write(f"{NOTES}/c.txt", PDF)
    engine.settle()
    document = document_at(engine, f"{NOTES}/c.txt")
    assert (document.type, document.title, document.metadata) == ("pdf", "b", {})
    assert len(engine.cage.requests) == 1
    engine.remove(f"{NOTES}/b.pdf")
    engine.settle()
    engine.rescan()
    document = document_at(engine, f"{NOTES}/c.txt")
    assert (document.type, document.title, document.metadata) == ("pdf", "c", {"ending_says": "markdown"})
    assert [bool(request.kept) for request in engine.cage.requests] == [False, True], "only its title follows the name"
    engine.rescan()
    assert len(engine.cage.requests) == 2


def test_a_file_that_becomes_what_its_name_says_is_read_so(engine: SimulatedEngine) -> None:
    path = f"{NOTES}/paper.md"
    engine.write(path, PDF)
    engine.settle()
    engine.write(path, "# Quince\n\nquince at last")
    engine.settle()
    document = document_at(engine, path)
    assert (document.type, document.title, document.metadata) == ("markdown", "Quince", {"encoding": "utf-8"})
