"""The matrix in memory gives what exact search in SQL gives, whatever came, went and was hidden meanwhile."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from kbsync.file_types import DocumentType
from kbsync.model import Origin
from kbsync.search.vector import VectorIndex
from kbsync.store import documents, origins, selection, vectors
from kbsync.store.connection import Connection
from kbsync.store.selection import CURRENT, Selection
from kbsync.store.writer import Readers, Writer
from tests.fakes.hash_embedder import hash_vectors
from tests.store.made_documents import EMBEDDER, NOW, made_update

_WORDS = ["apple", "bridge", "candle", "desert", "engine", "forest", "garden", "harbor", "island", "jungle"]
_TYPES: list[DocumentType] = ["markdown", "pdf", "code"]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    writer = Writer(str(tmp_path / "kb.sqlite3"))
    writer.open()
    yield writer
    writer.close()


def same_as_sql(
    connection: Connection,
    index: VectorIndex,
    embedder_id: int,
    words: str,
    limit: int = 500,
    selected: Selection = CURRENT,
    every_version: bool = False,
) -> int:
    query = hash_vectors([words], EMBEDDER.dimension)[0]
    ours = index.nearest(connection, embedder_id, query, limit, selected, every_version=every_version)
    everything = dict(vectors.nearest(connection, embedder_id, query.tobytes(), 5000, selected))
    exact = sorted(everything.values(), reverse=True)[:limit]
    # Equal texts tie, and two ways of adding up differ in the last digit: which of them is in is free, how near is not.
    assert [scored.score for scored in ours] == pytest.approx(exact, abs=1e-5)
    for scored in ours:
        assert scored.score == pytest.approx(everything[scored.chunk_id], abs=1e-5)
    assert len({scored.chunk_id for scored in ours}) == len(ours)
    return len(ours)


def test_nothing_is_near_in_an_empty_database(writer: Writer) -> None:
    embedder_id = writer.run(lambda connection: vectors.use_embedder(connection, EMBEDDER, NOW))
    index = VectorIndex()
    for _ in range(2):
        assert writer.run(lambda connection: same_as_sql(connection, index, embedder_id, "apple")) == 0


def random_change(connection: Connection, embedder_id: int, draw: random.Random, live: dict[str, int], n: int) -> None:
    action = draw.choice(["add", "add", "add", "hide", "delete", "again"])
    path = draw.choice(list(live)) if live else ""
    if action in ("add", "again") or not live:
        texts = [f"{draw.choice(_WORDS)} {draw.choice(_WORDS)} {n}" for _ in range(draw.randint(1, 5))]
        content = f"hash {n}" if action != "again" or not live else f"hash {path.rpartition('/')[2]}"
        path = path if action == "again" and live else f"/notes/{draw.choice('ab')}/{n}"
        update = replace(made_update(content, *texts), type=draw.choice(_TYPES))
        document_id = documents.write(connection, update, embedder_id, NOW)
        origins.add(connection, document_id, Origin("path", path, None), NOW)
        live[path] = document_id
    elif action == "hide":
        origins.end_path(connection, path, "missing", NOW)
        del live[path]
    else:
        documents.delete(connection, live.pop(path))


@pytest.mark.parametrize("seed", range(4))
def test_every_search_sees_what_the_commits_before_it_wrote(writer: Writer, seed: int) -> None:
    draw = random.Random(seed)
    index = VectorIndex()
    embedder_id = writer.run(lambda connection: vectors.use_embedder(connection, EMBEDDER, NOW))
    live: dict[str, int] = {}
    most = 0
    for number in range(60):
        writer.run(lambda connection, n=number: random_change(connection, embedder_id, draw, live, n))  # type: ignore[misc]
        words = draw.choice(_WORDS)
        found = writer.run(
            lambda connection, words=words: same_as_sql(connection, index, embedder_id, words)  # type: ignore[misc]
        )
        most = max(most, found)
    assert most > 20


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("in_sql", [0, 10, 1000], ids=["by the matrix", "by both", "in SQL"])
def test_a_narrowed_search_finds_the_same_by_either_way(writer: Writer, seed: int, in_sql: int) -> None:
    draw = random.Random(seed)
    index = VectorIndex(in_sql)
    embedder_id = writer.run(lambda connection: vectors.use_embedder(connection, EMBEDDER, NOW))
    live: dict[str, int] = {}
    shown = 0
    for number in range(40):
        writer.run(lambda connection, n=number: random_change(connection, embedder_id, draw, live, n))  # type: ignore[misc]
        every_version = draw.random() < 0.3
        conditions = [
            selection.EVERY_VERSION if every_version else CURRENT,
            selection.types(draw.sample(_TYPES, draw.randint(1, 2))),
        ]
        if draw.random() < 0.5:
            conditions.append(selection.under([f"/notes/{draw.choice('ab')}"], every_version))
        if draw.random() < 0.3:
            conditions.append(selection.none_of(selection.matching(draw.choice(_WORDS))))
        shown += writer.run(
            partial(
                same_as_sql,
                index=index,
                embedder_id=embedder_id,
                words=draw.choice(_WORDS),
                limit=draw.choice([1, 3, 50]),
                selected=selection.all_of(conditions),
                every_version=every_version,
            )
        )
    assert shown > 40


def test_every_search_beside_commits_is_of_its_own_transactions_moment(tmp_path: Path) -> None:
    path = str(tmp_path / "kb.sqlite3")
    writer, readers = Writer(path), Readers(path)
    writer.open()
    embedder_id = writer.run(lambda connection: vectors.use_embedder(connection, EMBEDDER, NOW))
    index = VectorIndex(in_sql=0)
    draw = random.Random(7)
    live: dict[str, int] = {}
    for number in range(20):
        writer.run(lambda connection, n=number: random_change(connection, embedder_id, draw, live, n))  # type: ignore[misc]
    writer.start()
    done = threading.Event()
    failures: list[BaseException] = []
    looks = [0, 0, 0]

    def search(which: int) -> None:
        mine = random.Random(which)
        try:
            while not done.is_set() or looks[which] == 0:
                words, narrow = mine.choice(_WORDS), mine.random() < 0.5
                selected = selection.all_of([CURRENT, selection.types(["pdf", "code"])]) if narrow else CURRENT

                readers.read(
                    partial(
                        same_as_sql, index=index, embedder_id=embedder_id, words=words, limit=100, selected=selected
                    )
                )
                looks[which] += 1
        except BaseException as error:  # noqa: BLE001 (a thread's failure is the test's)
            failures.append(error)

    threads = [threading.Thread(target=search, args=(which,)) for which in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(100, 180):
            writer.run(lambda connection, n=number: random_change(connection, embedder_id, draw, live, n))  # type: ignore[misc]
    finally:
        done.set()
        for thread in threads:
            thread.join()
        writer.close()
        readers.close()
    assert failures == []
    assert min(looks) > 0
