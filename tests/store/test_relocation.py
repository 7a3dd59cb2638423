"""Every path in the database follows its folder, whatever changes places with what."""

from __future__ import annotations

import json
from collections.abc import Mapping

import apsw
import pytest

from kbsync.errors import UsageError
from kbsync.filesystem import Stat
from kbsync.model import Held, IngestOptions, Origin, Priority, RootIdentity
from kbsync.reasons import FileState
from kbsync.store import events, files, jobs, origins, relocation, sources
from kbsync.store.connection import whole
from tests.store.made_documents import NOW, made_update, matching, write_document

_STAT = Stat("file", 10, 1, 2, 3, 4)


def moving(folders: Mapping[bytes, bytes]) -> relocation.Moved:
    def moved(path: bytes) -> bytes | None:
        for old, new in folders.items():
            if path == old or path.startswith(old + b"/"):
                return new + path[len(old) :]
        return None

    return moved


def followed(connection: apsw.Connection, folder: str, name: str = "plum.md", text: str = "Plum.") -> tuple[int, int]:
    """Write a source with one indexed file; return (source, document)."""
    source_id = sources.ensure(connection, folder, NOW)
    sources.set_identity(connection, source_id, RootIdentity(1, 2, 3, ("plum.md",)))
    document_id = write_document(connection, made_update(f"hash of {folder}", text))
    path = f"{folder}/{name}"
    origins.add(connection, document_id, Origin("path", path, source_id), NOW)
    files.account(
        connection,
        source_id,
        path,
        _STAT,
        FileState.INDEXED,
        None,
        "rules",
        NOW,
        content_hash="h",
        document_id=document_id,
    )
    return source_id, document_id


def relocated(connection: apsw.Connection, folders: Mapping[bytes, bytes]) -> int:
    with whole(connection):
        return relocation.relocate(connection, moving(folders))


def test_every_table_and_the_names_follow(connection: apsw.Connection) -> None:
    source_id, document_id = followed(connection, "/old/cafe\u0301", "\udcff.md")
    sources.set_held(connection, source_id, Held(3, 10, NOW, 1, NOW, 0.0))
    jobs.insert(
        connection,
        "path",
        "/old/cafe\u0301/new.md",
        source_id=source_id,
        lane="text",
        priority=Priority.SCAN,
        sequence=0.0,
        staged_path=None,
        options=IngestOptions(password_file="/old/cafe\u0301/passwords.txt"),
        now=NOW,
    )
    events.record(
        connection, "moved", NOW, source_id=source_id, path="/old/cafe\u0301/a.md", detail="/old/cafe\u0301/b.md"
    )
    events.record(connection, "failed", NOW, path="/elsewhere/c.md", detail="/old/cafe\u0301/b.md cannot be read")
    assert relocated(connection, {"/old/cafe\u0301".encode(): b"/new/garden"}) == 1
    assert relocation.known_paths(connection) == {
        b"/new/garden",
        b"/new/garden/\xff.md",
        b"/new/garden/new.md",
        b"/new/garden/a.md",
        b"/elsewhere/c.md",
    }
    row = sources.by_id(connection, source_id)
    assert row is not None
    assert (row.path, row.identity, row.held) == ("/new/garden", None, Held(3, 10, NOW, 1, NOW, 0.0))
    assert files.by_path(connection, "/new/garden/\udcff.md") is not None
    assert connection.execute("SELECT path_nfc, size, mtime_ns, ctime_ns, inode, device FROM files").fetchall() == [
        ("/new/garden/\ufffd.md", 10, 1, None, None, None)
    ]
    assert matching(connection, "names_fts", "garden")
    assert not matching(connection, "names_fts", "cafe")
    assert origins.live_paths(connection, document_id) == ["/new/garden/\udcff.md"]
    assert [event.detail for event in events.listed(connection, None, 10)[0]] == [
        "/old/cafe\u0301/b.md cannot be read",
        "/new/garden/b.md",
    ]
    options = json.loads(connection.execute("SELECT options FROM jobs").get)
    assert options == {"password_file": "/new/garden/passwords.txt"}


def test_what_no_rule_speaks_of_stays_to_the_last_byte(connection: apsw.Connection) -> None:
    followed(connection, "/a")
    source_id, _ = followed(connection, "/ab")
    before = connection.execute("SELECT * FROM files WHERE source_id = ?", (source_id,)).fetchall()
    assert relocated(connection, {b"/a": b"/c"}) == 1
    assert connection.execute("SELECT * FROM files WHERE source_id = ?", (source_id,)).fetchall() == before
    row = sources.by_id(connection, source_id)
    assert row is not None
    assert row.identity is not None


def test_folders_change_places(connection: apsw.Connection) -> None:
    first, _ = followed(connection, "/a")
    second, _ = followed(connection, "/b", text="Quince.")
    assert relocated(connection, {b"/a": b"/b", b"/b": b"/a"}) == 2
    assert {row.id: row.path for row in sources.listed(connection)} == {first: "/b", second: "/a"}
    assert dict(connection.execute("SELECT source_id, path FROM files")) == {
        first: b"/b/plum.md",
        second: b"/a/plum.md",
    }


def test_two_folders_at_one_place_are_refused_and_nothing_is_changed(connection: apsw.Connection) -> None:
    followed(connection, "/a")
    followed(connection, "/b", text="Quince.")
    before = relocation.known_paths(connection)
    with pytest.raises(UsageError, match="same place"):
        relocated(connection, {b"/a": b"/b"})
    assert relocation.known_paths(connection) == before


def test_a_folder_within_a_source_makes_its_files_be_compared_and_the_source_be_learnt_anew(
    connection: apsw.Connection,
) -> None:
    source_id, _ = followed(connection, "/a", "deep/plum.md")
    assert relocated(connection, {b"/a/deep": b"/a/deeper"}) == 1
    row = sources.by_id(connection, source_id)
    assert row is not None
    assert (row.path, row.identity) == ("/a", None)
    known = files.known(connection, source_id, "/a/deeper/plum.md")
    assert known is not None
    assert known.stat is not None
    assert known.stat != _STAT


def test_copies_lie_in_the_folders_of_this_machine(connection: apsw.Connection) -> None:
    document_id = write_document(connection, made_update("h", "Plum."))
    connection.execute("UPDATE documents SET stored_path = '/old/data/documents/h.md'")
    job_id = jobs.insert(
        connection,
        "staged",
        "upload.md",
        source_id=None,
        lane="text",
        priority=Priority.ADDED,
        sequence=0.0,
        staged_path="/old/data/staging/1.md",
        options=IngestOptions(),
        now=NOW,
    )
    relocation.place_copies(connection, "/new/documents", "/new/staging")
    assert dict(connection.execute("SELECT id, stored_path FROM documents")) == {document_id: "/new/documents/h.md"}
    assert dict(connection.execute("SELECT id, staged_path FROM jobs")) == {job_id: "/new/staging/1.md"}
