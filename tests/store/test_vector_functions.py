"""sqlite-vec missing, made for another machine, older, or an SQLite that loads no extensions: search goes on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import apsw
import numpy as np
import pytest

from kbsync.store import vector_functions
from tests.fakes.hash_embedder import hash_vectors


class OlderConnection(apsw.Connection):
    """What an SQLite gives whose sqlite-vec has a function of that name that counts otherwise."""

    def load_extension(self, filename: str, entrypoint: str | None = None) -> None:
        self.create_scalar_function("vec_distance_cosine", lambda *_vectors: 2.0, 2)


class BareConnection(apsw.Connection):
    """An SQLite that was made without loadable extensions."""

    def enable_load_extension(self, enable: bool) -> None:
        raise AttributeError("enable_load_extension")


@pytest.fixture(params=["missing", "other machine", "not there", "older", "no extensions"])
def without(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Spoil sqlite-vec in one of the ways; return which."""
    library = tmp_path / "vec0.so"
    if request.param == "missing":
        monkeypatch.setitem(sys.modules, "sqlite_vec", None)
    elif request.param == "other machine":
        library.write_bytes(b"\x7fELF of another kind")
        monkeypatch.setitem(sys.modules, "sqlite_vec", SimpleNamespace(loadable_path=lambda: str(library)))
    elif request.param == "not there":
        monkeypatch.setitem(sys.modules, "sqlite_vec", SimpleNamespace(loadable_path=lambda: str(library)))
    else:
        kind = OlderConnection if request.param == "older" else BareConnection
        monkeypatch.setattr(apsw, "Connection", kind)
    vector_functions.missing.cache_clear()
    yield request.param
    monkeypatch.undo()
    vector_functions.missing.cache_clear()
    assert vector_functions.missing() is None


def test_what_is_missing_is_told_with_the_remedy(without: str) -> None:
    """D05: the sentence names the fix."""
    told = vector_functions.missing()
    assert told is not None
    assert "sqlite-vec" in told
    assert "pip install" in told
    assert "\n" not in told


def test_vectors_are_compared_as_with_it(without: str) -> None:
    """D05: the same chunks in the same order, with the same scores."""
    stored = hash_vectors([f"word {number % 40}" for number in range(100)], 16)
    connection = apsw.Connection(":memory:")
    vector_functions.prepare(connection)
    connection.execute("CREATE TABLE v (id INTEGER PRIMARY KEY, embedding BLOB)")
    connection.executemany("INSERT INTO v VALUES (?, ?)", ((n, row.tobytes()) for n, row in enumerate(stored)))
    query = hash_vectors(["word 7"], 16)[0]
    found = connection.execute(
        "SELECT id, 1.0 - vec_distance_cosine(embedding, ?) FROM v ORDER BY 2 DESC, 1", (query.tobytes(),)
    ).fetchall()
    exact = stored @ query
    np.testing.assert_allclose(np.array(found)[:, 1], np.sort(exact)[::-1], atol=1e-6)
    assert [row[0] for row in found[:2]] == [7, 47]
    connection.close()
