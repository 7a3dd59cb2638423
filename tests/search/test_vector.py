"""The matrix in memory gives what exact search in SQL gives, whatever came, went and was hidden meanwhile."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbsync.model import Origin
from kbsync.search.vector import VectorIndex
from kbsync.store import documents, origins, vectors
from kbsync.store.connection import Connection
from kbsync.store.writer import Writer
from tests.fakes.hash_embedder import hash_vectors
from tests.store.made_documents import EMBEDDER, NOW, made_update

_WORDS = ["apple", "bridge", "candle", "desert", "engine", "forest", "garden", "harbor", "island", "jungle"]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    writer = Writer(str(tmp_path / "kb.sqlite3"))
    writer.open()
    yield writer
    writer.close()


def same_as_sql(connection: Connection, index: VectorIndex, embedder_id: int, words: str) -> int:
    query = hash_vectors([words], EMBEDDER.dimension)[0]
    ours = index.nearest(connection, embedder_id, query, 500)
    exact = dict(vectors.nearest(connection, embedder_id, query.tobytes(), 500))
    assert {scored.chunk_id for scored in ours} == set(exact)
    for scored in ours:
        assert scored.score == pytest.approx(exact[scored.chunk_id], abs=1e-5)
    assert [scored.score for scored in ours] == sorted((scored.score for scored in ours), reverse=True)
    return len(ours)


def test_nothing_is_near_in_an_empty_database(writer: Writer) -> None:
    embedder_id = writer.run(lambda connection: vectors.use_embedder(connection, EMBEDDER, NOW))
    assert writer.run(lambda connection: same_as_sql(connection, VectorIndex(), embedder_id, "apple")) == 0


@pytest.mark.parametrize("seed", range(4))
def test_every_search_sees_what_the_commits_before_it_wrote(writer: Writer, seed: int) -> None:
    draw = random.Random(seed)
    index = VectorIndex()
    embedder_id = writer.run(lambda connection: vectors.use_embedder(connection, EMBEDDER, NOW))
    live: dict[str, int] = {}

    def change(connection: Connection, number: int) -> None:
        action = draw.choice(["add", "add", "add", "hide", "delete", "again"])
        path = draw.choice(list(live)) if live else ""
        if action in ("add", "again") or not live:
            texts = [f"{draw.choice(_WORDS)} {draw.choice(_WORDS)} {number}" for _ in range(draw.randint(1, 5))]
            content = f"hash {number}" if action != "again" or not live else f"hash {path.rpartition('/')[2]}"
            path = path if action == "again" and live else f"/notes/{number}"
            document_id = documents.write(connection, made_update(content, *texts), embedder_id, NOW)
            origins.add(connection, document_id, Origin("path", path, None), NOW)
            live[path] = document_id
        elif action == "hide":
            origins.end_path(connection, path, "missing", NOW)
            del live[path]
        else:
            documents.delete(connection, live.pop(path))

    most = 0
    for number in range(60):
        writer.run(lambda connection, number=number: change(connection, number))  # type: ignore[misc]
        words = draw.choice(_WORDS)
        found = writer.run(
            lambda connection, words=words: same_as_sql(connection, index, embedder_id, words)  # type: ignore[misc]
        )
        most = max(most, found)
    assert most > 20
