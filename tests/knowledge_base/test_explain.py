"""`why` knows every state of a path and says it in a sentence."""

from __future__ import annotations

import errno
from datetime import UTC, datetime

import pytest

from kbsync.errors import NotFound
from kbsync.knowledge_base.explain import said
from kbsync.model import IngestOptions
from kbsync.reasons import SENTENCES, FileState, Reason
from tests.fakes.simulated_engine import NOTES, SimulatedEngine

PATH = f"{NOTES}/quince.md"


def test_a_path_that_was_never_seen_is_not_found(engine: SimulatedEngine) -> None:
    with pytest.raises(NotFound, match="never seen"):
        engine.why(PATH)


def test_a_path_is_explained_on_its_whole_way(engine: SimulatedEngine) -> None:
    engine.write(f"{NOTES}/stays.md", "medlar")
    engine.write(PATH, "quince")
    engine.loops.producer.step()
    engine.clock.advance(0.4)
    engine.loops.producer.step()
    queued = engine.why(PATH)
    assert (queued.state, queued.reason, queued.detail, queued.document_id) == (
        FileState.WAITING,
        Reason.QUEUED,
        SENTENCES[Reason.QUEUED],
        None,
    )
    engine.settle()
    indexed = engine.why(PATH)
    assert (indexed.state, indexed.reason, indexed.detail) == (
        FileState.INDEXED,
        None,
        "It is indexed and searchable.",
    )
    assert indexed.document_id == engine.kb.search("quince").hits[0].document_id
    engine.remove(PATH)
    engine.settle()
    gone = engine.why(PATH)
    assert (gone.state, gone.reason) == (FileState.GONE, None)
    assert "not there any more" in gone.detail
    assert (gone.last_seen_at or 0) >= (indexed.last_seen_at or 0) > 0


@pytest.mark.parametrize("purged", [True, False], ids=["purged", "removed by hand"])
def test_of_what_was_deleted_for_good_it_is_not_said_that_it_is_kept(engine: SimulatedEngine, purged: bool) -> None:
    engine.write(f"{NOTES}/stays.md", "medlar")
    engine.write(PATH, "quince")
    engine.settle()
    document_id = engine.why(PATH).document_id
    assert document_id is not None
    if not purged:
        engine.kb.remove_document(document_id)
    engine.remove(PATH)
    engine.settle()
    if purged:
        assert "is kept" in engine.why(PATH).detail
        engine.kb.retention.purge()
    gone = engine.why(PATH)
    assert gone.state is FileState.GONE
    assert gone.detail.startswith("It is not there any more, and nothing of what it held is kept.")
    assert ("You removed that" in gone.detail) == (not purged)


@pytest.mark.parametrize(
    ("name", "content", "state", "reason"),
    [
        ("a.xyz", b"?", FileState.SKIPPED, Reason.UNSUPPORTED),
        (".hidden.md", b"?", FileState.SKIPPED, Reason.IGNORED),
        ("empty.md", b"", FileState.SKIPPED, Reason.EMPTY),
        ("noise.md", b"\x00\x01\x02" * 500, FileState.SKIPPED, Reason.BINARY),
        ("tls.key", b"key", FileState.SKIPPED, Reason.SECRET),
    ],
)
def test_a_path_that_is_left_out_says_why(
    engine: SimulatedEngine, name: str, content: bytes, state: FileState, reason: Reason
) -> None:
    engine.fs.write(f"{NOTES}/{name}", content)
    engine.rescan()
    explanation = engine.why(f"{NOTES}/{name}")
    assert (explanation.state, explanation.reason) == (state, reason)
    assert explanation.detail.startswith(SENTENCES[reason])


@pytest.mark.parametrize(
    ("name", "format_to_save_in"),
    [
        *((f"letter{ending}", ".docx") for ending in (".doc", ".rtf", ".odt", ".DOC", ".pages")),
        *((f"list{ending}", ".xlsx") for ending in (".xls", ".ods", ".numbers")),
        *((f"talk{ending}", ".pptx") for ending in (".ppt", ".odp")),
        ("mail.msg", ".eml"),
    ],
)
def test_a_format_that_is_not_read_says_what_to_save_it_as(
    engine: SimulatedEngine, name: str, format_to_save_in: str
) -> None:
    engine.fs.write(f"{NOTES}/{name}", b"quince")
    engine.rescan()
    explanation = engine.why(f"{NOTES}/{name}")
    assert (explanation.state, explanation.reason) == (FileState.SKIPPED, Reason.UNSUPPORTED)
    assert explanation.detail.startswith(SENTENCES[Reason.UNSUPPORTED])
    assert format_to_save_in in explanation.detail


def test_a_failed_path_says_what_went_wrong_and_what_to_do(engine: SimulatedEngine) -> None:
    engine.fs.write(PATH, b"quince")
    engine.fs.fail(PATH, PermissionError(errno.EACCES, "Permission denied"))
    engine.rescan()
    explanation = engine.why(PATH)
    assert (explanation.state, explanation.reason) == (FileState.FAILED, Reason.PERMISSION)
    assert explanation.detail.startswith(SENTENCES[Reason.PERMISSION])
    assert "Give yourself read permission." in explanation.detail


def test_a_file_that_was_added_by_hand_is_explained_from_its_job_and_its_origin(engine: SimulatedEngine) -> None:
    path = "/simulated/desk/quince.md"
    engine.fs.write(path, b"quince")
    job_id = engine.kb.adding.add_file(path, IngestOptions())
    assert engine.why(path).state is FileState.WAITING
    engine.settle()
    explanation = engine.why(path)
    assert (explanation.state, explanation.document_id) == (FileState.INDEXED, engine.job(job_id).document_id)
    assert "added by hand" in explanation.detail
    engine.kb.prune()
    engine.clock.advance(100 * 86400)
    engine.kb.prune()
    assert engine.why(path).state is FileState.INDEXED, "also when its job is forgotten"


@pytest.mark.parametrize(("size", "reason"), [(21_000_000, Reason.TRUNCATED), (100, None)])
def test_a_file_that_was_added_by_hand_says_where_not_all_of_it_is_searchable(
    engine: SimulatedEngine, size: int, reason: Reason | None
) -> None:
    path = "/simulated/desk/quince.log"
    engine.fs.write(path, b"quince\n" + b"\n" * size)
    job_id = engine.kb.adding.add_file(path, IngestOptions())
    engine.settle()
    explanation = engine.why(path)
    assert (explanation.state, explanation.reason, engine.job(job_id).reason) == (FileState.INDEXED, reason, reason)
    assert (reason is None) == ("indexed and searchable" in explanation.detail)
    assert reason is None or SENTENCES[reason] in explanation.detail


def test_a_name_typed_in_another_unicode_form_is_found(engine: SimulatedEngine) -> None:
    decomposed, composed = f"{NOTES}/Gru\u0308nkohl.md", f"{NOTES}/Gr\u00fcnkohl.md"
    engine.write(decomposed, "cabbage")
    engine.settle()
    assert engine.why(composed).path == decomposed
    assert engine.why(composed).state is FileState.INDEXED


def test_a_path_below_a_folder_that_is_left_out_says_so(engine: SimulatedEngine) -> None:
    engine.fs.write(f"{NOTES}/node_modules/deep/quince.md", b"quince")
    engine.rescan()
    explanation = engine.why(f"{NOTES}/node_modules/deep/quince.md")
    assert (explanation.state, explanation.reason) == (FileState.SKIPPED, Reason.IGNORED)
    assert "node_modules" in explanation.detail


# ---- folders, and where things went ----


def test_what_is_gone_says_for_how_long_its_text_is_kept_and_how_it_is_found(engine: SimulatedEngine) -> None:
    engine.write(f"{NOTES}/stays.md", "medlar")
    engine.write(PATH, "quince")
    engine.settle()
    engine.remove(PATH)
    engine.settle()
    engine.rescan()
    until = datetime.fromtimestamp(engine.clock.now() + 30 * 86400, UTC).date()
    assert engine.kb.why(PATH, 30).detail == (
        f"It is not there any more. Its text is kept until {until} and found with `kbsync search --all-versions`."
    )
    assert "Its text is kept and found with" in engine.kb.why(PATH, None).detail
    assert engine.kb.search("quince", "lexical", every_version=True).hits, "it is as it says"


def test_of_a_file_by_hand_whose_document_was_removed_that_is_said(engine: SimulatedEngine) -> None:
    path = "/simulated/desk/quince.md"
    engine.fs.write(path, b"quince")
    document_id = engine.add(path).document_id
    assert document_id is not None
    engine.kb.remove_document(document_id)
    found = engine.why(path)
    assert (found.state, found.reason) == (FileState.SKIPPED, Reason.REMOVED_BY_YOU)
    assert "removed by you on" in found.detail
    engine.add(path)
    assert engine.why(path).state is FileState.INDEXED


@pytest.mark.parametrize("state", ["paused by you", "another folder"])
def test_a_file_says_that_its_folder_is_not_looked_at(engine: SimulatedEngine, state: str) -> None:
    engine.write(PATH, "quince")
    engine.settle()
    engine.rescan()
    if state == "paused by you":
        engine.engine.source_control.pause(NOTES)
        wanted = f"is paused by you: not looked at until `kbsync sources resume {NOTES}`."
    else:
        engine.fs.rename(NOTES, "/simulated/away")
        engine.fs.write(f"{NOTES}/other.md", b"a stranger")
        engine.rescan()
        wanted = "Its folder is not looked at now: "
    found = engine.why(PATH)
    assert found.state is FileState.INDEXED
    assert found.detail.startswith("It is indexed and searchable. ")
    assert wanted in found.detail


def test_a_folder_that_is_followed_no_more_says_what_is_left_of_it(engine: SimulatedEngine) -> None:
    engine.write(PATH, "quince")
    engine.write(f"{NOTES}/sub/medlar.md", "medlar")
    engine.settle()
    engine.configure("/simulated/other")
    for folder, count in ((NOTES, 2), (f"{NOTES}/sub", 1)):
        assert f"What was read in it ({count}) is kept for a while, hidden from search" in engine.why(folder).detail
        assert f"`kbsync sources add {folder}` follows it." in engine.why(folder).detail


def test_a_folder_says_how_its_files_are_and_names_those_that_failed(engine: SimulatedEngine) -> None:
    engine.fs.write(f"{NOTES}/sub/good.md", b"quince")
    engine.fs.write(f"{NOTES}/sub/bad.md", b"medlar")
    engine.fs.fail(f"{NOTES}/sub/bad.md", PermissionError(errno.EACCES, "Permission denied"))
    engine.rescan()
    for folder in (NOTES, f"{NOTES}/sub"):
        found = engine.why(folder)
        assert found.state is FileState.FAILED
        assert (found.files or {})["indexed"] == 1
        assert found.failed == (f"{NOTES}/sub/bad.md",)
        assert "1 indexed, 1 failed" in found.detail
    with pytest.raises(NotFound):
        engine.why("/simulated")


def test_a_file_that_was_moved_says_where_it_is_now(engine: SimulatedEngine) -> None:
    engine.write(f"{NOTES}/stays.md", "medlar")
    engine.write(PATH, "quince")
    engine.settle()
    engine.rename(PATH, f"{NOTES}/moved.md")
    engine.settle()
    engine.rescan()
    found = engine.why(PATH)
    assert (found.state, found.now_at) == (FileState.GONE, f"{NOTES}/moved.md")
    assert f"is at {NOTES}/moved.md now" in found.detail


def test_a_path_of_a_folder_that_is_followed_no_more_says_so(engine: SimulatedEngine) -> None:
    engine.write(PATH, "quince")
    engine.settle()
    engine.configure("/simulated/other")
    found = engine.why(PATH)
    assert found.state is FileState.GONE
    assert "not followed any more" in found.detail


@pytest.mark.parametrize(
    ("state", "reason", "detail", "said_once"),
    [
        (FileState.FAILED, Reason.PERMISSION, "Permission to read /a/b.md was denied. Give yourself read permission.",
         "Permission to read it was denied. Give yourself read permission."),
        (FileState.SKIPPED, Reason.EMPTY, "/a/b.md: It is empty.", "It is empty."),
        (FileState.SKIPPED, Reason.UNSUPPORTED, "/a/b.md: this type of file is not supported. Save it as .docx.",
         "This type of file is not supported. Save it as .docx."),
        (FileState.FAILED, Reason.CORRUPT, "/a/b.md has no pages.",
         f"{SENTENCES[Reason.CORRUPT]} (it has no pages.)"),
        (FileState.WAITING, None, None, "It waits to be read."),
    ],
)  # fmt: skip
def test_nothing_is_said_twice(state: FileState, reason: Reason | None, detail: str | None, said_once: str) -> None:
    assert said(state, reason, detail, "/a/b.md") == said_once
