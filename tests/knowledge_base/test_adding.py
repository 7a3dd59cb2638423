"""The way in by hand: what is taken, what is refused, what is kept of it, and how long."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kbsync.errors import FailFile, FileGone, SkipFile, UsageError
from kbsync.file_types import DocumentType
from kbsync.knowledge_base.adding import Expansion
from kbsync.model import IngestOptions
from kbsync.reasons import FileState, Reason
from tests.fakes.simulated_engine import NOTES, SimulatedEngine

DESK = "/simulated/desk"
PATH = f"{DESK}/Quince.MD"


def _staged(engine: SimulatedEngine) -> list[str]:
    return os.listdir(engine.world.locations.staging_dir)


def _stored(engine: SimulatedEngine) -> list[str]:
    return os.listdir(engine.world.locations.documents_dir)


def test_an_added_file_is_found_and_its_copy_is_kept_under_its_hash(engine: SimulatedEngine) -> None:
    content = b"# Quince\n\nIt ripens late."
    engine.fs.write(PATH, content)
    job = engine.add(PATH)
    assert (job.state, job.chunk_count) == ("done", 1)
    assert engine.found("ripens") == [PATH]
    name = hashlib.sha256(content).hexdigest() + ".md"
    stored = Path(engine.world.locations.documents_dir, name)
    assert _stored(engine) == [name]
    assert stored.read_bytes() == content
    assert stored.stat().st_mode & 0o777 == 0o600
    assert _staged(engine) == []
    document, paths, _ = engine.kb.document(1)
    assert (document.stored_path, document.original_filename, paths) == (str(stored), "Quince.MD", [PATH])
    assert engine.read("SELECT kind, live FROM origins") == [("added", 1)]
    assert engine.kb.check() == []


def test_an_added_file_stays_when_the_original_is_deleted(engine: SimulatedEngine) -> None:
    engine.fs.write(PATH, b"quince")
    engine.add(PATH)
    engine.fs.remove(PATH)
    engine.rescan()
    assert engine.found("quince") == [PATH]


def test_the_copy_that_waits_is_private_and_survives_the_process(
    started: Callable[[], SimulatedEngine],
) -> None:
    engine = started()
    engine.fs.write(PATH, b"quince")
    job_id = engine.kb.adding.add_file(PATH, IngestOptions())
    (name,) = _staged(engine)
    staged = Path(engine.world.locations.staging_dir, name)
    assert staged.stat().st_mode & 0o777 == 0o600
    engine.fs.remove(PATH)
    Path(engine.world.locations.staging_dir, "left-by-a-crash").write_bytes(b"?")
    engine = started()
    assert _staged(engine) == [name]
    engine.settle()
    assert engine.job(job_id).state == "done"
    assert engine.found("quince") == [PATH]
    assert _staged(engine) == []


def test_the_same_file_added_again_is_already_indexed(engine: SimulatedEngine) -> None:
    engine.fs.write(PATH, b"quince")
    first = engine.add(PATH)
    again = engine.add(PATH)
    assert (again.state, again.reason, again.document_id) == ("skipped", "already_indexed", first.document_id)
    assert len(_stored(engine)) == 1
    assert _staged(engine) == []
    assert engine.read("SELECT count(*) FROM origins") == [(1,)]
    assert len(engine.embedded()) == 1


def test_content_known_from_a_watched_folder_gets_its_origin_and_its_copy_when_it_is_added(
    engine: SimulatedEngine,
) -> None:
    watched = f"{NOTES}/quince.md"
    engine.write(watched, "# Quince\n\nIt ripens late.")
    engine.write(f"{NOTES}/stays.md", "medlar")
    engine.settle()
    job = engine.add(watched)
    assert (job.state, job.reason) == ("skipped", "already_indexed")
    assert len(_stored(engine)) == 1
    assert _staged(engine) == []
    engine.remove(watched)
    engine.settle()
    assert engine.found("ripens") == [watched], "it was added by hand: it stays"


def test_a_changed_file_added_again_is_found_in_both_versions(engine: SimulatedEngine) -> None:
    engine.fs.write(PATH, b"# Quince\n\nfirst words")
    engine.add(PATH)
    engine.fs.write(PATH, b"# Quince\n\nother words")
    assert engine.add(PATH).state == "done"
    assert engine.found("first") == [PATH]
    assert engine.found("other") == [PATH]
    assert len(_stored(engine)) == 2


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("letter.odt", b"PK", Reason.UNSUPPORTED),
        ("no ending", b"quince", Reason.UNSUPPORTED),
        ("empty.md", b"", Reason.EMPTY),
        (".env", b"TOKEN=1", Reason.SECRET),
        ("id_rsa", b"key", Reason.SECRET),
        ("server.pem", b"key", Reason.SECRET),
    ],
)
def test_what_is_not_for_the_index_is_refused_and_nothing_is_kept_of_it(
    engine: SimulatedEngine, name: str, content: bytes, reason: Reason
) -> None:
    engine.fs.write(f"{DESK}/{name}", content)
    with pytest.raises(SkipFile) as refusal:
        engine.kb.adding.add_file(f"{DESK}/{name}", IngestOptions())
    assert refusal.value.reason is reason
    assert (_staged(engine), _stored(engine)) == ([], [])
    assert engine.read("SELECT count(*) FROM jobs") == [(0,)]


def test_a_format_that_is_not_read_is_refused_with_a_way_to_convert_it(engine: SimulatedEngine) -> None:
    engine.fs.write(f"{DESK}/letter.doc", b"quince")
    with pytest.raises(SkipFile) as refusal:
        engine.kb.adding.add_file(f"{DESK}/letter.doc", IngestOptions())
    assert "soffice --convert-to docx" in refusal.value.hint
    assert ".md" in refusal.value.hint


@pytest.mark.parametrize(("what", "reason"), [("link", Reason.SYMLINK), ("pipe", Reason.SPECIAL)])
def test_a_link_and_a_pipe_are_refused(engine: SimulatedEngine, what: str, reason: Reason) -> None:
    engine.fs.write(f"{DESK}/target.md", b"quince")
    if what == "link":
        engine.fs.symlink(PATH, f"{DESK}/target.md")
    else:
        engine.fs.fifo(PATH)
    with pytest.raises(SkipFile) as refusal:
        engine.kb.adding.add_file(PATH, IngestOptions())
    assert refusal.value.reason is reason


def test_a_secret_is_refused_whatever_type_is_set_by_hand(engine: SimulatedEngine) -> None:
    engine.fs.write(f"{DESK}/id_rsa", b"key")
    with pytest.raises(SkipFile, match="secret"):
        engine.kb.adding.add_file(f"{DESK}/id_rsa", IngestOptions(type="text"))


def test_a_file_that_is_not_there_or_may_not_be_read_is_told(engine: SimulatedEngine) -> None:
    with pytest.raises(FileGone):
        engine.kb.adding.add_file(PATH, IngestOptions())
    engine.fs.write(PATH, b"quince")
    engine.fs.fail(PATH, PermissionError(errno.EACCES, "Permission denied"))
    with pytest.raises(FailFile) as failure:
        engine.kb.adding.add_file(PATH, IngestOptions())
    assert failure.value.reason is Reason.PERMISSION
    assert _staged(engine) == []


def test_a_binary_file_with_a_text_ending_is_skipped_and_not_kept(engine: SimulatedEngine) -> None:
    engine.fs.write(PATH, b"\x00\x01\x02" * 500)
    job = engine.add(PATH)
    assert (job.state, job.reason) == ("skipped", Reason.BINARY)
    assert (_staged(engine), _stored(engine)) == ([], [])
    assert engine.state(PATH) == (FileState.SKIPPED, Reason.BINARY)
    assert engine.documents() == []


def test_a_hidden_file_and_one_that_a_rule_leaves_out_are_taken_when_named(engine: SimulatedEngine) -> None:
    engine.fs.write(f"{DESK}/.hidden.md", b"quince")
    assert engine.add(f"{DESK}/.hidden.md").state == "done"
    assert engine.found("quince") == [f"{DESK}/.hidden.md"]


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("a.md", IngestOptions(), ("markdown", None, False)),
        ("a.py", IngestOptions(), ("code", "python", False)),
        ("a.md", IngestOptions(type="text"), ("text", None, True)),
        ("a.unknown", IngestOptions(type="code", language="python"), ("code", "python", True)),
        ("a.sh", IngestOptions(language="python"), ("code", "python", True)),
    ],
)
def test_type_and_language_are_what_a_person_set_else_the_ending(
    engine: SimulatedEngine, name: str, options: IngestOptions, expected: tuple[DocumentType, str | None, bool]
) -> None:
    engine.fs.write(f"{DESK}/{name}", b"def quince():\n    return 1\n")
    engine.add(f"{DESK}/{name}", options)
    document = engine.kb.document(1)[0]
    assert (document.type, document.language, document.type_by_hand) == expected


def test_a_type_set_by_hand_holds_when_the_same_content_comes_again(engine: SimulatedEngine) -> None:
    engine.fs.write(PATH, b"quince")
    engine.add(PATH, IngestOptions(title="My quince", type="text"))
    engine.write(f"{NOTES}/a.md", "quince")
    engine.settle()
    document, paths, _ = engine.kb.document(1)
    assert (document.type, document.title, len(paths)) == ("text", "My quince", 2)
    assert engine.documents() == [(1, "My quince", "current")]


def test_a_title_set_by_hand_afterwards_is_written_and_found(engine: SimulatedEngine) -> None:
    engine.fs.write(PATH, b"# Quince\n\nIt ripens late.")
    engine.add(PATH)
    job = engine.add(PATH, IngestOptions(title="Cydonia"))
    assert job.document_id == 1
    assert engine.documents() == [(1, "Cydonia", "current")]
    assert engine.found("cydonia") == [PATH]


# ---- folders ----


def test_a_folder_stands_for_what_a_source_would_hold_of_it(engine: SimulatedEngine) -> None:
    for name in ("a.md", "deep/b.py", "node_modules/c.md", "deep/.env", "deep/d.xyz"):
        engine.fs.write(f"{DESK}/{name}", b"quince")
    engine.fs.make_directory(f"{DESK}/locked")
    engine.fs.fail(f"{DESK}/locked", PermissionError(errno.EACCES, "Permission denied"))
    assert engine.kb.adding.expand(DESK, recursive=True) == Expansion(
        (f"{DESK}/a.md", f"{DESK}/deep/b.py"),
        ((f"{DESK}/deep/.env", Reason.SECRET), (f"{DESK}/deep/d.xyz", Reason.UNSUPPORTED)),
        ((f"{DESK}/locked", f"Reading {DESK}/locked failed: Permission denied."),),
    )
    assert engine.kb.adding.expand(f"{DESK}/a.md", recursive=True) == Expansion((f"{DESK}/a.md",))


def test_a_folder_without_recursive_is_a_wrong_request(engine: SimulatedEngine) -> None:
    engine.fs.make_directory(DESK)
    with pytest.raises(UsageError, match="--recursive"):
        engine.kb.adding.expand(DESK, recursive=False)
    with pytest.raises(FileGone):
        engine.kb.adding.expand(f"{DESK}/nothing", recursive=True)


# ---- notes ----


def test_a_note_without_a_title_is_called_by_its_first_80_characters_cut_at_a_word(engine: SimulatedEngine) -> None:
    text = "The quince ripens late and keeps well through the winter if it is laid on straw in a cool cellar."
    job = engine.note(text)
    assert job.state == "done"
    document, paths, chunks = engine.kb.document(1)
    assert document.title == "The quince ripens late and keeps well through the winter if it is laid on straw"
    assert len(document.title) <= 80
    assert (document.type, document.title_source, document.stored_path, paths) == ("note", "content", None, [])
    assert [chunk.text for chunk in chunks] == [text]
    assert engine.found("cellar") == [None]
    assert (_staged(engine), _stored(engine)) == ([], [])


def test_a_note_with_a_title_carries_it(engine: SimulatedEngine) -> None:
    engine.note("It ripens late.", "About quinces")
    document, _, chunks = engine.kb.document(1)
    assert (document.title, document.title_source) == ("About quinces", "hand")
    assert chunks[0].enriched_text == "About quinces\n\nIt ripens late."


def test_the_same_note_twice_is_one_and_under_another_title_another(engine: SimulatedEngine) -> None:
    assert engine.note("It ripens late.").state == "done"
    again = engine.note("It ripens late.")
    assert (again.state, again.reason, again.document_id) == ("skipped", "already_indexed", 1)
    assert engine.note("It ripens late.", "About quinces").state == "done"
    assert len(engine.documents()) == 2
    assert _staged(engine) == []


@pytest.mark.parametrize("text", ["", " \n\t "])
def test_a_note_without_text_is_a_wrong_request(engine: SimulatedEngine, text: str) -> None:
    with pytest.raises(UsageError):
        engine.kb.adding.add_note(text, "a title")
    assert _staged(engine) == []


def test_a_title_by_hand_is_one_line_of_text(engine: SimulatedEngine) -> None:
    title = " My\n\tquince \x1b[31m\x00\x9b \udcff "
    engine.fs.write(PATH, b"It ripens late.")
    engine.add(PATH, IngestOptions(title=title))
    engine.note("Medlars too.", title)
    engine.kb.adding.add_upload("sorb.md", 10, [b"Sorbs too."], IngestOptions(title=title))
    engine.settle()
    assert engine.read("SELECT DISTINCT title FROM documents") == [("My quince [31m ?",)]
    assert len(engine.documents()) == 3


def test_a_title_by_hand_that_is_too_long_is_a_wrong_request(engine: SimulatedEngine) -> None:
    title = "t" * 1001
    engine.fs.write(PATH, b"It ripens late.")
    with pytest.raises(UsageError):
        engine.kb.adding.add_file(PATH, IngestOptions(title=title))
    with pytest.raises(UsageError):
        engine.kb.adding.add_upload("sorb.md", 10, [b"Sorbs too."], IngestOptions(title=title))
    with pytest.raises(UsageError):
        engine.kb.adding.add_note("Medlars too.", title)
    assert _staged(engine) == []


def test_a_note_with_broken_characters_is_kept_and_found(engine: SimulatedEngine) -> None:
    assert engine.note("quince \udcff and \x00 medlar").state == "done"
    assert engine.found("medlar") == [None]


def test_a_file_that_was_removed_and_is_added_again_is_followed_again_at_once(engine: SimulatedEngine) -> None:
    path = f"{NOTES}/quince.md"
    engine.write(path, "ripens late")
    engine.settle()
    engine.write(f"{NOTES}/medlar.md", "another file")
    engine.settle()
    engine.kb.remove_document(1)
    assert engine.state(path) == (FileState.SKIPPED, Reason.REMOVED_BY_YOU)
    engine.add(path)
    assert engine.state(path) == (FileState.INDEXED, None)
    kinds = engine.read("SELECT kind FROM origins WHERE live = 1 AND path = ? ORDER BY kind", path.encode())
    assert kinds == [("added",), ("path",)]
    engine.remove(path)
    engine.settle()
    assert engine.found("ripens") == [path], "the copy that was added stays"
    assert "added by hand" in engine.why(path).detail
