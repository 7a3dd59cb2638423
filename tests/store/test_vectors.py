"""A vector is kept only where it is one, is found again by its text, and every change of what search sees is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw
import numpy as np
import pytest

from kbsync.errors import FailFile
from kbsync.reasons import Reason
from kbsync.store import chunks, documents, meta, origins, vectors
from tests.fakes.hash_embedder import HashEmbedder, hash_vectors
from tests.store.made_documents import NOW, count, made_update, write_document

if TYPE_CHECKING:
    from kbsync.model import Vectors


def row(*values: float) -> Vectors:
    """Return one vector of 16 numbers, the last of them repeated."""
    return np.array([[*values, *[values[-1]] * (16 - len(values))]], dtype=np.float32)


@pytest.mark.parametrize(
    "bad",
    [row(float("nan"), 1), row(1, float("inf"), 1), row(float("-inf"), 1), row(0), row(1)[:, :15], row(1)[0]],
    ids=["nan", "inf", "minus-inf", "zero", "short", "one-dimension"],
)
def test_what_is_no_vector_is_refused(connection: apsw.Connection, bad: Vectors) -> None:
    """D09: NaN, infinity, zero and a short one never come into a table."""
    document_id = write_document(connection, made_update("h1", "apples"))
    chunk_id = chunks.of_document(connection, document_id)[0].id
    connection.execute("DELETE FROM vectors_1")
    with pytest.raises(FailFile) as caught:
        vectors.insert(connection, 1, [chunk_id], ["apples"], bad)
    assert caught.value.reason is Reason.MODEL
    assert count(connection, "vectors_1") == 0


def test_fewer_vectors_than_chunks_are_refused(connection: apsw.Connection) -> None:
    document_id = write_document(connection, made_update("h1", "apples", "pears"))
    ids = [chunk.id for chunk in chunks.of_document(connection, document_id)]
    connection.execute("DELETE FROM vectors_1")
    with pytest.raises(FailFile, match="shape"):
        vectors.insert(connection, 1, ids, ["a", "b"], row(1))


def test_a_text_embedded_before_is_found_by_what_it_says(connection: apsw.Connection) -> None:
    write_document(connection, made_update("h1", "apples", "pears"))
    found = vectors.known(connection, 1, ["A title\n\npears", "A title\n\nplums"])
    assert list(found) == ["A title\n\npears"]
    assert np.array_equal(found["A title\n\npears"], hash_vectors(["A title\n\npears"], 16)[0])


def test_another_embedders_vectors_are_not_known(connection: apsw.Connection) -> None:
    write_document(connection, made_update("h1", "apples"))
    other = vectors.use_embedder(connection, HashEmbedder(8), NOW)
    assert other == 2
    assert vectors.known(connection, other, ["A title\n\napples"]) == {}
    assert vectors.live_embedder(connection) == 1  # the first one ever stays live


def test_the_same_embedder_keeps_its_table(connection: apsw.Connection) -> None:
    assert vectors.live_embedder(connection) is None
    assert vectors.use_embedder(connection, HashEmbedder(), NOW) == vectors.use_embedder(
        connection, HashEmbedder(), NOW
    )
    assert vectors.live_embedder(connection) == 1


def test_a_deleted_document_takes_its_vectors_from_every_table(connection: apsw.Connection) -> None:
    document_id = write_document(connection, made_update("h1", "apples"))
    other = vectors.use_embedder(connection, HashEmbedder(8), NOW)
    ids = [chunk.id for chunk in chunks.of_document(connection, document_id)]
    vectors.insert(connection, other, ids, ["x"], hash_vectors(["x"], 8))
    documents.delete(connection, document_id)
    assert [count(connection, "vectors_1"), count(connection, "vectors_2")] == [0, 0]


def test_the_generation_rises_with_every_change(connection: apsw.Connection) -> None:
    seen = [meta.vector_generation(connection)]
    document_id = write_document(connection, made_update("h1", "apples"))
    seen.append(meta.vector_generation(connection))
    documents.write(connection, made_update("h1", "pears"), 1, NOW)
    seen.append(meta.vector_generation(connection))
    documents.delete(connection, document_id)
    seen.append(meta.vector_generation(connection))
    assert seen == sorted(set(seen))


def test_ids_and_rows_are_read_in_the_ids_order(connection: apsw.Connection) -> None:
    write_document(connection, made_update("h1", "apples", "pears"), "/notes/a.md")
    hidden = write_document(connection, made_update("h2", "plums"), "/notes/b.md")
    origins.end_path(connection, "/notes/b.md", "missing", NOW)
    expected = hash_vectors([f"A title\n\n{text}" for text in ("apples", "pears", "plums")], 16)
    assert vectors.ids(connection, 1).tolist() == [1, 2, 3]
    assert np.array_equal(vectors.load(connection, 1, [3, 1]), expected[[0, 2]])
    assert vectors.load(connection, 1, []).shape == (0, 16)
    assert vectors.current_chunks(connection).tolist() == [1, 2]
    assert chunks.of_document(connection, hidden)[0].id == 3


def test_the_exact_search_finds_the_nearest_current_chunk(connection: apsw.Connection) -> None:
    write_document(connection, made_update("h1", "ripe apples", "old iron"), "/notes/a.md")
    write_document(connection, made_update("h2", "ripe apples"), "/notes/b.md")
    origins.end_path(connection, "/notes/b.md", "missing", NOW)
    query = hash_vectors(["A title\n\nripe apples"], 16)[0]
    found = vectors.nearest(connection, 1, query.tobytes(), 5)
    assert [chunk_id for chunk_id, _score in found] == [1, 2]
    assert found[0][1] == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("text", ["", "a\ud800b", "\0", "文"])
def test_every_text_has_a_key(text: str) -> None:
    assert len(vectors.text_hash(text)) == 32
