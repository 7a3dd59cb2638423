"""Room that deleted documents leave is given back when that is worth it, while search goes on and nothing is lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kbsync import failpoints
from kbsync.errors import RetryLater
from kbsync.knowledge_base import compaction
from kbsync.knowledge_base.compaction import FREE_BYTES, is_worth_it, room_needed
from kbsync.knowledge_base.damage import Damage
from kbsync.store import documents, maintenance, vectors
from kbsync.store.connection import Connection
from kbsync.store.kept_conversions import KeptConversions
from tests.fakes.lives import engine, started, world
from tests.fakes.simulated_engine import SimulatedEngine
from tests.store.made_documents import made_update, write_document

__all__ = ["engine", "started", "world"]

MEGABYTE = 1 << 20
# As much as a chunk and its vector take, with little to tokenize.
PADDING = "- " * 500


def word(number: int) -> str:
    """Return a word of letters only, which no tokenizer splits."""
    return "quince" + "".join(chr(ord("a") + int(digit)) for digit in str(number))


def fill(life: SimulatedEngine, count: int, chunks: int) -> None:
    """Write so many documents of so many chunks, each findable by a word of its own.

    All chunks of a document but the first are copies of it, which SQL makes in no time.
    """

    def write(connection: Connection) -> None:
        for number in range(count):
            update = made_update(f"hash{number}", f"{word(number)} {PADDING}")
            write_document(connection, update, f"/notes/{number}.md")
        table = vectors.live_embedder(connection)
        connection.execute(
            "INSERT INTO chunks (document_id, position, text, enriched_text, metadata, token_count) "
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
            "SELECT document_id, i, text, enriched_text, metadata, token_count FROM chunks JOIN n ORDER BY 1, 2",
            (chunks - 1,),
        )
        connection.execute(
            f"INSERT INTO vectors_{table} (chunk_id, text_hash, embedding) "
            "SELECT c.id, v.text_hash, v.embedding FROM chunks c "
            f"JOIN chunks f ON f.document_id = c.document_id AND f.position = 0 JOIN vectors_{table} v "
            "ON v.chunk_id = f.id WHERE c.position > 0 ORDER BY 1"
        )

    life.engine.writer.run(write)


def damage(life: SimulatedEngine) -> list[str]:
    """Return what the check finds, but that these documents have no files."""
    return [problem.kind for problem in life.kb.check() if problem.kind != Damage.PATHS_GHOST]


def delete_half(life: SimulatedEngine) -> None:
    """Delete two documents, leave two, and so on: pages that hold one of each do not get free."""
    ids = [row[0] for row in life.read("SELECT id FROM documents WHERE id / 2 % 2 = 0")]

    def delete(connection: Connection) -> None:
        for document_id in ids:
            documents.delete(connection, document_id)

    life.engine.writer.run(delete)


def content(life: SimulatedEngine) -> list[tuple[object, ...]]:
    [(table,)] = life.read("SELECT max(id) FROM embedders")
    return life.read(
        "SELECT documents.id, content_hash, chunks.id, position, text, enriched_text, embedding FROM documents "
        f"JOIN chunks ON document_id = documents.id JOIN vectors_{table} ON chunk_id = chunks.id ORDER BY 1, 4"
    )


@pytest.mark.parametrize(
    ("size", "free", "worth"),
    [
        (40 * MEGABYTE, 16 * MEGABYTE, True),
        (40 * MEGABYTE, 16 * MEGABYTE - 1, False),
        (65 * MEGABYTE, 16 * MEGABYTE, False),
        (4000 * MEGABYTE, 999 * MEGABYTE, False),
        (4000 * MEGABYTE, 1000 * MEGABYTE, True),
        (0, 0, False),
    ],
)
def test_it_is_worth_it_for_a_quarter_and_16_megabytes(size: int, free: int, worth: bool) -> None:
    assert is_worth_it(size, free) is worth


def test_a_database_without_much_free_room_is_left_alone(engine: SimulatedEngine) -> None:
    fill(engine, 20, 5)
    delete_half(engine)
    before = engine.read("PRAGMA page_count")
    assert engine.kb.compaction.compact() == 0
    assert engine.read("PRAGMA page_count") == before


def test_half_of_20_000_chunks_are_deleted_and_the_file_shrinks_while_search_is_right_all_the_time(
    engine: SimulatedEngine, told: Callable[[str], None]
) -> None:
    """D14: and the room of the file comes back on the disk."""
    engine.engine.writer.start()
    fill(engine, 400, 50)
    full = engine.kb.size_bytes()
    delete_half(engine)
    before = content(engine)
    numbers = [int(row[0]) for row in engine.read("SELECT substr(content_hash, 5) FROM documents")]
    wrong: list[str] = []
    searches = 0
    ended = threading.Event()

    def search() -> None:
        nonlocal searches
        while not ended.is_set():
            number = numbers[searches * 7 % len(numbers)]
            found = {hit.path for hit in engine.kb.search(word(number), "lexical").hits}
            if f"/notes/{number}.md" not in found:
                wrong.append(f"{word(number)}: {found}")
            searches += 1

    searching = threading.Thread(target=search)
    searching.start()
    try:
        given_back = engine.kb.compaction.compact()
        engine.engine.writer.run(lambda connection: None)
    finally:
        ended.set()
        searching.join()
    left = os.stat(engine.engine.locations.database).st_size
    told(
        f"compaction: 20000 chunks, half deleted: {full >> 10} KB, then {left >> 10} KB, {searches} searches beside it"
    )
    assert wrong == []
    assert searches
    assert given_back > full * 0.3
    assert left < full * 0.65
    assert content(engine) == before
    assert damage(engine) == []
    assert engine.kb.compaction.compact() == 0, "once is enough"


@pytest.mark.parametrize(
    "place",
    ["compaction.merging", "compaction.merged", "maintenance.vacuumed", "maintenance.truncated", "compaction.done"],
)
def test_whatever_ends_it_midway_changes_nothing(
    engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """D13: the next one does it."""
    monkeypatch.setattr(compaction, "FREE_BYTES", 1)
    fill(engine, 40, 60)
    delete_half(engine)
    before = content(engine)

    class Ended(BaseException):
        pass

    def end(name: str) -> None:
        if name == place:
            raise Ended

    failpoints.listen(end)
    try:
        with pytest.raises(Ended):
            engine.kb.compaction.compact()
    finally:
        failpoints.listen(None)
    assert content(engine) == before
    assert damage(engine) == []
    engine.kb.compaction.compact()
    assert content(engine) == before
    assert engine.read("PRAGMA freelist_count") == [(0,)]


def test_without_room_for_a_copy_it_waits(engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """D15: it is no reason to fill the disk."""
    monkeypatch.setattr(compaction, "FREE_BYTES", 1)
    fill(engine, 40, 60)
    delete_half(engine)
    size, free = engine.read("PRAGMA page_count")[0][0] * 4096, engine.read("PRAGMA freelist_count")[0][0] * 4096
    room: list[int | None] = [room_needed(size, free) - 1]
    monkeypatch.setattr(engine.kb.compaction, "_room", lambda: room[0])
    assert engine.kb.compaction.compact() == 0
    room[0] = room_needed(size, free)
    assert engine.kb.compaction.compact() > 0


def test_a_disk_that_is_full_in_the_middle_is_no_outage(
    engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D15: the folder for temporary files may lie on another disk, which is full."""
    monkeypatch.setattr(compaction, "FREE_BYTES", 1)
    fill(engine, 40, 60)
    delete_half(engine)
    before = content(engine)
    monkeypatch.setenv("SQLITE_TMPDIR", "/nowhere")
    engine.engine.writer.run(lambda connection: connection.pragma("max_page_count", 10))

    def full(_connection: Connection) -> bool:
        import apsw

        raise apsw.FullError("database or disk is full")

    monkeypatch.setattr(maintenance, "vacuum", full)
    assert engine.kb.compaction.compact() == 0
    assert content(engine) == before


def test_the_upkeep_gives_room_back_and_ends_when_the_process_is_to_end(
    engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "FREE_BYTES", 1)
    fill(engine, 60, 60)
    delete_half(engine)
    before = content(engine)
    engine.engine.writer.end_long_work()
    with pytest.raises(RetryLater):
        engine.kb.compaction.compact()
    engine.engine.writer._ending = False
    assert content(engine) == before
    engine.daemon.upkeep.ask()
    assert engine.daemon.upkeep.step()
    assert engine.read("PRAGMA freelist_count") == [(0,)]
    assert content(engine) == before


def test_words_that_are_in_many_pieces_are_merged_and_few_are_left_alone(
    engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        engine.write(f"/simulated/notes/{number}.md", f"the sloe of year {number} is bitter")
        engine.settle()
    before = content(engine)
    pieces = engine.engine.readers.read(maintenance.pieces)
    assert 1 < pieces < compaction.MANY_PIECES
    assert not engine.kb.compaction.merge()
    assert engine.engine.readers.read(maintenance.pieces) == pieces
    monkeypatch.setattr(compaction, "MANY_PIECES", pieces)
    assert engine.kb.compaction.merge()
    assert engine.engine.readers.read(maintenance.pieces) == 1
    assert content(engine) == before
    assert len(engine.found("sloe")) == 6


def test_conversions_of_documents_that_are_gone_go_and_those_of_documents_that_come_stay(
    engine: SimulatedEngine, tmp_path: Path
) -> None:
    engine.write("/simulated/notes/a.pdf", "the sloe is bitter")
    engine.settle()
    folder = Path(engine.engine.locations.conversions_dir)
    [kept] = folder.iterdir()
    conversions = KeptConversions(str(folder))
    conversions.keep("gone", "converter", b"old")
    conversions.keep("coming", "converter", b"new")
    [old] = folder.glob("gone-*")
    [new] = folder.glob("coming-*")
    now = engine.clock.now()
    os.utime(old, (now - 90_000, now - 90_000))
    os.utime(new, (now - 80_000, now - 80_000))
    os.utime(kept, (now - 90_000, now - 90_000))
    engine.kb.compaction.sweep_conversions()
    assert set(folder.iterdir()) == {kept, new}
    assert FREE_BYTES == 16 * MEGABYTE
