"""More types through the engine: e-mail, books, and text of any ending that a source asks for."""

from __future__ import annotations

from kbsync.reasons import FileState, Reason
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

LETTER = b"From: Ann <ann@example.org>\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\n\nThe quince ripens.\n"


def including(world: World, *patterns: str) -> SimulatedEngine:
    listed = ", ".join(f'"{pattern}"' for pattern in patterns)
    world.configure(text=f'[[sources]]\npath = "{NOTES}"\ninclude = [{listed}]\n')
    return SimulatedEngine(world)


def test_a_letter_is_found_by_subject_sender_and_body(engine: SimulatedEngine) -> None:
    path = f"{NOTES}/letter.eml"
    engine.write(path, LETTER)
    engine.settle()
    for word in ("Grüße", "Ann", "quince"):
        assert engine.found(word) == [path]
    (hit,) = engine.kb.search("quince", "lexical").hits
    assert (hit.title, hit.type) == ("Grüße", "email")
    assert engine.cage.requests == [], "it is read beside the texts, not behind documents"


def test_a_message_of_endless_nesting_is_indexed_and_says_that_it_is_not_whole(engine: SimulatedEngine) -> None:
    path = f"{NOTES}/deep.eml"
    parts = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(1000))
    engine.write(path, b"From: quince@example.org\nSubject: Deep\n" + parts)
    engine.settle()
    assert engine.state(path) == (FileState.INDEXED, Reason.TRUNCATED)
    assert engine.found("quince") == [path]


def test_a_book_goes_the_way_of_documents(engine: SimulatedEngine) -> None:
    path = f"{NOTES}/orchard.epub"
    engine.write(path, "quince")
    engine.settle()
    assert [(request.name, request.type) for request in engine.cage.requests] == [("orchard.epub", "epub")]
    assert engine.found("quince") == [path]


def test_what_include_names_is_read_as_text_where_it_is_text(world: World) -> None:
    engine = including(world, "*.xyz", "Makefile", "*.md", "*.odt")
    engine.fs.write(f"{NOTES}/settings.xyz", "der Obstgarten blüht: quince".encode("cp1252"))
    engine.fs.write(f"{NOTES}/Makefile", b"quince:\n\tcook it\n")
    engine.fs.write(f"{NOTES}/note.md", b"# Note\n\nquince")
    engine.fs.write(f"{NOTES}/program.xyz", b"\x7fELF" + bytes(range(256)) * 20)
    engine.fs.write(f"{NOTES}/noise.xyz", bytes((7 * n * n + n) % 256 for n in range(9000)))
    engine.fs.write(f"{NOTES}/letter.odt", b"quince")
    engine.fs.write(f"{NOTES}/other.abc", b"quince")
    engine.rescan()
    assert sorted(str(path) for path in engine.found("quince")) == [
        f"{NOTES}/Makefile",
        f"{NOTES}/note.md",
        f"{NOTES}/settings.xyz",
    ]
    assert engine.found("blüht") == [f"{NOTES}/settings.xyz"]
    assert {hit.type for hit in engine.kb.search("quince", "lexical").hits} == {"text", "markdown"}
    for name in ("program.xyz", "noise.xyz"):
        assert engine.state(f"{NOTES}/{name}") == (FileState.SKIPPED, Reason.BINARY)
    assert engine.state(f"{NOTES}/letter.odt") == (FileState.SKIPPED, Reason.UNSUPPORTED)
    assert engine.state(f"{NOTES}/other.abc") == (FileState.SKIPPED, Reason.IGNORED)
    engine.close()


def test_a_text_of_an_odd_ending_keeps_its_document_when_it_moves_to_another(world: World) -> None:
    engine = including(world, "*.xyz", "*.abc")
    engine.write(f"{NOTES}/a.xyz", "quince")
    engine.settle()
    before = engine.documents()
    engine.write(f"{NOTES}/b.abc", "quince")
    engine.settle()
    engine.remove(f"{NOTES}/a.xyz")
    engine.settle()
    engine.rescan()
    assert [row[0] for row in engine.documents()] == [row[0] for row in before]
    assert engine.found("quince") == [f"{NOTES}/b.abc"]
    engine.close()


def test_a_name_that_include_no_longer_asks_for_is_left_out_again(world: World) -> None:
    engine = including(world, "*.xyz", "*.md")
    engine.write(f"{NOTES}/a.xyz", "quince")
    engine.settle()
    assert engine.found("quince") == [f"{NOTES}/a.xyz"]
    engine.close()
    world.configure(NOTES)
    again = SimulatedEngine(world)
    again.rescan()
    assert again.state(f"{NOTES}/a.xyz") == (FileState.SKIPPED, Reason.UNSUPPORTED)
    assert again.found("quince") == []
    again.close()
