"""A copy of the database while it is written to: one moment of it, whole, and nobody is kept waiting."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import apsw
import pytest

from kbsync.errors import RetryLater
from kbsync.reasons import Reason
from kbsync.store import documents, maintenance
from kbsync.store.database_copy import copy_database
from kbsync.store.writer import Readers, Writer
from tests.store.made_documents import made_update, write_document

_WAL_BYTES = 64 << 20
# Some slices, however small the database.
_PAGES = 40
_DOCUMENTS = 200


@pytest.fixture
def writer(database: str) -> Iterator[Writer]:
    writer = Writer(database)
    writer.open()

    def write(connection: apsw.Connection) -> None:
        for number in range(_DOCUMENTS):
            write_document(connection, made_update(f"{number}", f"plum {number} " * 200))

    writer.run(write)
    yield writer
    writer.close()


def rows(connection: apsw.Connection) -> list[tuple[object, ...]]:
    return connection.execute(
        "SELECT content_hash, text FROM documents JOIN chunks ON document_id = documents.id ORDER BY 1"
    ).fetchall()


def copied(path: Path) -> list[tuple[object, ...]]:
    """Return what a copy holds, having proved that it is whole and needs nothing beside it."""
    assert [name.name for name in path.parent.glob(f"{path.name}*")] == [path.name]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    reader = Readers(str(path))
    try:
        assert reader.read(lambda connection: connection.pragma("journal_mode")) == "delete"
        assert reader.read(maintenance.corrupt_pages) == 0
        return reader.read(rows)
    finally:
        reader.close()


def nothing() -> None:
    pass


def test_a_copy_is_what_is_there(writer: Writer, tmp_path: Path) -> None:
    copy_database(writer, str(tmp_path / "copy"), nothing)
    assert copied(tmp_path / "copy") == writer.run(rows)


def test_commits_and_searches_go_on_meanwhile_and_the_log_stays_small(writer: Writer, tmp_path: Path) -> None:
    """D12: the copy is one moment of a database that is written to all the time; readers see it as ever."""
    writer.start()
    readers = Readers(writer.path)
    begun, ended, numbers = threading.Event(), threading.Event(), iter(range(1000, 1_000_000))
    committed: list[int] = []

    def commit_one(number: int) -> None:
        writer.run(lambda connection: write_document(connection, made_update(f"{number}", f"quince {number} " * 50)))
        committed.append(number)

    def commit() -> None:
        while not ended.is_set():
            commit_one(next(numbers))
            begun.set()

    thread = threading.Thread(target=commit)
    thread.start()
    assert begun.wait(20)
    slices, sizes, seen = 0, [], []

    def look() -> None:
        nonlocal slices
        slices += 1
        if slices > 1:  # so that there are some between any two slices, however slow the machine is
            before = len(committed)
            while len(committed) < before + 3:
                pass
        sizes.append(os.path.getsize(f"{writer.path}-wal"))
        seen.append(len(readers.read(rows)))

    try:
        copy_database(writer, str(tmp_path / "copy"), look, _PAGES)
    finally:
        ended.set()
        thread.join()
        readers.close()
    found = {str(row[0]) for row in copied(tmp_path / "copy")}
    assert slices > 2
    assert max(sizes) < _WAL_BYTES
    assert seen == sorted(seen)
    # In order of commit, without a gap: the moment at which the copy ended.
    numbered = sorted(int(name) for name in found if int(name) >= 1000)
    assert numbered == list(range(1000, 1000 + len(numbered)))
    assert 3 * (slices - 2) <= len(numbered) <= len(committed)
    assert {str(number) for number in range(_DOCUMENTS)} <= found


def test_what_is_undone_meanwhile_is_not_in_the_copy(writer: Writer, tmp_path: Path) -> None:
    def fail(connection: apsw.Connection) -> None:
        # Far more than the cache holds: it is written, and reaches the copy, before it is undone.
        connection.execute("UPDATE chunks SET text = text || hex(randomblob(20000))")
        raise ZeroDivisionError

    calls = 0

    def look() -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            with pytest.raises(ZeroDivisionError):
                writer.run(fail)

    copy_database(writer, str(tmp_path / "copy"), look, _PAGES)
    assert calls > 1
    assert copied(tmp_path / "copy") == writer.run(rows)


def test_the_database_is_written_anew_meanwhile(writer: Writer, tmp_path: Path) -> None:
    calls = 0

    def look() -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            for number in range(1, 150):
                writer.run(partial(documents.delete, document_id=number))
            assert writer.run_alone(maintenance.rewrite)

    copy_database(writer, str(tmp_path / "copy"), look, _PAGES)
    assert calls > 1
    assert copied(tmp_path / "copy") == writer.run(rows)


def test_it_ends_when_it_is_told_to_and_the_writer_goes_on(writer: Writer, tmp_path: Path) -> None:
    def stop() -> None:
        raise RetryLater(Reason.RETRY, "kbsync is stopping.")

    with pytest.raises(RetryLater, match="stopping"):
        copy_database(writer, str(tmp_path / "copy"), stop)
    assert writer.run(lambda connection: write_document(connection, made_update("new", "new"))) > _DOCUMENTS


def test_a_target_that_is_there_already_is_left_alone(writer: Writer, tmp_path: Path) -> None:
    (tmp_path / "copy").write_text("mine")
    with pytest.raises(FileExistsError):
        copy_database(writer, str(tmp_path / "copy"), nothing)
    assert (tmp_path / "copy").read_text() == "mine"
