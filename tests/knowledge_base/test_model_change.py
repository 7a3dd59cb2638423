"""From the packaged model to a wider one and back, both real: nothing is lost, and search is always on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbsync.compose import Engine, open_engine
from kbsync.config.locations import locate
from kbsync.config.sections import ModelSettings
from kbsync.config.settings import Settings
from kbsync.model import Priority
from tests.fakes.random_model import make_random_model

pytestmark = pytest.mark.timeout(300)  # the first model to be loaded imports torch: 15 s when quiet

NOTES = {
    "Sourdough": "Feed the starter with flour and water every evening.",
    "Suitcase": "The combination of the luggage lock is 363.",
    "Router": "Restart the modem first, then the wireless access point.",
}


@pytest.fixture(scope="module")
def wider(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_random_model(tmp_path_factory.mktemp("models") / "wider", 768)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@contextmanager
def opened(home: Path, embedder: str = "packaged") -> Iterator[Engine]:
    engine = open_engine(locate({"KBSYNC_HOME": str(home)}), Settings(models=ModelSettings(embedder=embedder)))
    try:
        yield engine
    finally:
        engine.close()


def searched(engine: Engine) -> list[tuple[str, int]]:
    """Search by words and by meaning, each time to the end; return (mode that was done, hits) of both."""
    live = engine.embedders.earlier or engine.embedders.configured
    live.batcher.embed(["load it"], Priority.QUERY)
    found = [engine.kb.search("the luggage lock", mode) for mode in ("lexical", "vector")]
    assert found[0].hits[0].title == "Suitcase"
    return [(result.mode, len(result.hits)) for result in found]


def test_a_wider_model_and_the_one_before_again(home: Path, wider: Path) -> None:
    """D08: another dimension; a new table beside the old one, and no query meets vectors of another model."""
    with opened(home) as engine:
        for title, text in NOTES.items():
            engine.kb.adding.add_note(text, title)
        worker = engine.worker(lambda _source_id: None, "text", Priority.LOW)
        while worker.step():
            pass
        before = [row.enriched_text for number in (1, 2, 3) for row in engine.kb.document(number)[2]]
        assert searched(engine) == [("lexical", 1), ("vector", 3)]
    for dimension, embedder in ((768, str(wider)), (384, "packaged")):
        with opened(home, embedder) as engine:
            status = engine.reindexing.status()
            assert (status.state, status.chunks_done, status.chunks_total) == ("running", 0, 3)
            assert searched(engine) == [("lexical", 1), ("vector", 3)]
            while engine.reindexing.step():
                assert searched(engine) == [("lexical", 1), ("vector", 3)]
            assert engine.reindexing.status().state == "idle"
            assert engine.batcher.dimension == dimension
            assert engine.kb.check() == []
            assert [row.enriched_text for number in (1, 2, 3) for row in engine.kb.document(number)[2]] == before
        # The start after the switch drops the table before: until then going back would need no work at all.
        with opened(home, embedder) as engine:
            assert engine.readers.read(lambda connection: connection.execute("SELECT count(*) FROM embedders").get) == 1
    with opened(home) as engine:
        engine.batcher.embed(["load it"], Priority.QUERY)
        assert engine.kb.search("combination of my bag", "hybrid").hits[0].title == "Suitcase"
        assert engine.reindexing.status().state == "idle"
