"""A document's state follows from its origins, and so do the names by which it is found."""

from __future__ import annotations

import os

import apsw
import pytest

from kbsync.model import Origin, OriginKind
from kbsync.store import meta, origins, sources
from tests.store.made_documents import NOW, count, made_update, matching, state_of, write_document

NOTE = "/notes/a.md"


@pytest.fixture
def first(connection: apsw.Connection) -> int:
    return write_document(connection, made_update("v1", "apples"), NOTE)


@pytest.fixture
def second(connection: apsw.Connection, first: int) -> int:
    assert first
    return write_document(connection, made_update("v2", "pears"))


def at(path: str = NOTE, source_id: int | None = None) -> Origin:
    return Origin("path", path, source_id)


def test_a_path_with_new_content_supersedes_the_old(connection: apsw.Connection, first: int, second: int) -> None:
    assert origins.add(connection, second, at(), NOW + 1)
    assert [state_of(connection, first), state_of(connection, second)] == ["superseded", "current"]
    assert origins.document_of(connection, NOTE) == second
    assert origins.live_paths(connection, first) == []


def test_a_path_that_goes_back_makes_its_first_content_current_again(
    connection: apsw.Connection, first: int, second: int
) -> None:
    origins.add(connection, second, at(), NOW + 1)
    assert origins.add(connection, first, at(), NOW + 2)
    assert [state_of(connection, first), state_of(connection, second)] == ["current", "superseded"]
    assert origins.document_of(connection, NOTE) == first
    assert len(matching(connection, "names_fts", "notes")) == 1


def test_the_same_content_again_is_no_news(connection: apsw.Connection, first: int) -> None:
    assert not origins.add(connection, first, at(), NOW + 1)
    assert count(connection, "origins") == 1


def test_one_content_at_two_paths_is_current_until_both_are_gone(connection: apsw.Connection, first: int) -> None:
    assert origins.add(connection, first, at("/notes/B.md"), NOW + 1)
    assert origins.live_source_paths(connection, first) == ["/notes/B.md", NOTE]
    assert origins.end_path(connection, NOTE, "missing", NOW + 2) == first
    assert state_of(connection, first) == "current"
    assert origins.end_path(connection, "/notes/B.md", "missing", NOW + 3) == first
    assert state_of(connection, first) == "missing"
    assert origins.end_path(connection, NOTE, "missing", NOW + 4) is None


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([("/notes/a.md", "missing"), ("/notes/b.md", "superseded")], "superseded"),
        ([("/notes/a.md", "superseded"), ("/notes/b.md", "missing")], "missing"),
        ([("/notes/b.md", "missing"), ("/notes/a.md", "removed")], "missing"),
    ],
)
def test_the_last_origin_that_ended_decides(
    connection: apsw.Connection, first: int, ends: list[tuple[str, origins.EndedBecause]], expected: str
) -> None:
    origins.add(connection, first, at("/notes/b.md"), NOW)
    for after, (path, because) in enumerate(ends, 1):
        origins.end_path(connection, path, because, NOW + after)
    assert state_of(connection, first) == expected


@pytest.mark.parametrize("kind", ["added", "note", "upload"])
def test_an_origin_by_hand_outlives_the_folder(connection: apsw.Connection, first: int, kind: OriginKind) -> None:
    origin = Origin(kind, None if kind == "note" else "/home/me/a.md", None)
    assert origins.add(connection, first, origin, NOW)
    assert not origins.add(connection, first, origin, NOW + 1)
    origins.end_path(connection, NOTE, "missing", NOW + 2)
    assert state_of(connection, first) == "current"


def test_a_file_added_by_hand_does_not_end_what_a_watched_path_holds(
    connection: apsw.Connection, first: int, second: int
) -> None:
    assert origins.add(connection, second, Origin("added", NOTE, None), NOW + 1)
    assert [state_of(connection, first), state_of(connection, second)] == ["current", "current"]
    assert origins.document_of(connection, NOTE) == second  # the most recent


def test_a_source_taken_out_ends_its_origins_and_can_be_deleted(connection: apsw.Connection, first: int) -> None:
    source_id = sources.ensure(connection, "/notes", NOW)
    document_id = write_document(connection, made_update("v3", "plums"))
    origins.add(connection, document_id, at("/notes/c.md", source_id), NOW)
    origins.end_source(connection, source_id, NOW + 1)
    sources.delete(connection, source_id)
    assert state_of(connection, document_id) == "missing"
    assert state_of(connection, first) == "current"
    assert not matching(connection, "names_fts", "c")


def test_names_follow_the_live_origins(connection: apsw.Connection, first: int, second: int) -> None:
    assert matching(connection, "names_fts", "notes")
    origins.end_path(connection, NOTE, "missing", NOW + 1)
    assert not matching(connection, "names_fts", "notes")
    origins.add(connection, second, at("/home/me/orchard plan.md"), NOW + 2)
    assert matching(connection, "names_fts", "orchard plan")
    assert matching(connection, "names_fts", "me")
    origins.delete_of(connection, second)
    assert not matching(connection, "names_fts", "orchard")
    assert count(connection, "names_fts_docsize") == 0


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a/b/c/d.md", "b c d.md"),
        ("/d.md", "d.md"),
        ("//x//y.md", "x y.md"),
        (os.fsdecode(b"/notes/caf\xe9.md"), "notes caf\ufffd.md"),
    ],
)
def test_a_name_to_search_is_the_file_and_its_two_folders(path: str, expected: str) -> None:
    assert origins.searchable_name(path) == expected


def test_hiding_and_showing_is_told_to_vector_search(connection: apsw.Connection, first: int) -> None:
    assert first
    before = meta.vector_generation(connection)
    origins.end_path(connection, NOTE, "missing", NOW)
    hidden = meta.vector_generation(connection)
    origins.add(connection, first, at(), NOW + 1)
    assert before < hidden < meta.vector_generation(connection)


def test_paths_are_ordered_by_their_bytes(connection: apsw.Connection, first: int) -> None:
    raw = [b"/notes/\xff.md", "/notes/ä.md".encode(), b"/notes/Z.md"]
    for path in raw:
        origins.add(connection, first, at(os.fsdecode(path)), NOW)
    expected = [os.fsdecode(path) for path in sorted([*raw, NOTE.encode()])]
    assert origins.live_paths(connection, first) == expected


def test_a_path_whose_file_an_inbox_took_is_named_after_those_that_are_there(
    connection: apsw.Connection, first: int
) -> None:
    taken_in: OriginKind = "inbox"
    for kind, path in ((taken_in, "/a/inbox/one.md"), ("added", "/z/one.md"), (taken_in, NOTE)):
        origins.add(connection, first, Origin(kind, path, None), NOW)
    assert origins.live_paths(connection, first) == [NOTE, "/z/one.md", "/a/inbox/one.md"]
