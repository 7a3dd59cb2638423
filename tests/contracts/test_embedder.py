"""What every embedder promises: hashed words, the batcher on a fake device, on a child, and on MiniLM in a child."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import numpy as np
import pytest

from kbsync.clock import SystemClock
from kbsync.embed.batcher import Batcher
from kbsync.embed.child_device import ChildDevice, open_child_devices
from kbsync.embed.model_files import ModelFiles, packaged_model
from kbsync.embed.model_process import ChildTerms
from kbsync.embed.token_counter import HuggingFaceCounter
from kbsync.embed.windows import windows
from kbsync.model import Embedder, Priority, TokenCounter
from tests.fakes import faulty_models
from tests.fakes.hash_embedder import HashDevice, HashEmbedder, WordCounter

TEXTS = [
    "Suitcase Locks\n\nSteve = 363",
    "The watcher says where to look.",
    "",
    "def retry(attempts: int) -> None: ...",
    "依赖管理",
    " \n\t ",
    "x",
    "A longer sentence about the weather in the mountains, where it rains more often than it should. " * 2,
]


@pytest.fixture(scope="module")
def real() -> Iterator[Batcher]:
    files = packaged_model()
    batcher = Batcher(
        # As the daemon has it; in this process the device is tested by itself.
        lambda: open_child_devices(files, "cpu", ChildTerms(), SystemClock()),
        HuggingFaceCounter(files.tokenizer_json),
        files.max_tokens,
        fingerprint=files.fingerprint,
        model_name=files.name,
        dimension=files.dimension,
    )
    batcher.start()
    assert batcher.wait_ready(100), batcher.error
    yield batcher
    batcher.stop()


@pytest.fixture(scope="module")
def apart() -> Iterator[Batcher]:
    files = ModelFiles("/", "hashed words", faulty_models.DIMENSION, 20, frozenset(), "", "", "hashed")
    device = ChildDevice(files, "cpu", None, ChildTerms(serve=faulty_models.serve), SystemClock())
    batcher = Batcher([device], WordCounter(), 20, fingerprint="hashed", model_name="hashed words", dimension=16)
    batcher.start()
    yield batcher
    batcher.stop()


@pytest.fixture(params=["hashed words", "batcher on hashed words", "batcher on a child", "batcher on MiniLM"])
def embedder(request: pytest.FixtureRequest) -> Iterator[Embedder]:
    if request.param == "hashed words":
        yield HashEmbedder()
    elif request.param == "batcher on MiniLM":
        yield request.getfixturevalue("real")
    elif request.param == "batcher on a child":
        yield request.getfixturevalue("apart")
    else:
        batcher = Batcher(
            [HashDevice()], WordCounter(), 20, fingerprint="hashed", model_name="hashed words", dimension=16
        )
        batcher.start()
        yield batcher
        batcher.stop()


def near(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.dot(one.astype(np.float64), other.astype(np.float64)))


def test_it_says_what_it_is(embedder: Embedder) -> None:
    assert embedder.fingerprint
    assert embedder.model_name
    assert embedder.dimension > 0


def test_every_text_gets_one_normalised_row(embedder: Embedder) -> None:
    vectors = embedder.embed(TEXTS, Priority.SCAN)

    assert vectors.shape == (len(TEXTS), embedder.dimension)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_no_texts_give_no_rows(embedder: Embedder) -> None:
    vectors = embedder.embed([], Priority.SCAN)

    assert vectors.shape == (0, embedder.dimension)
    assert vectors.dtype == np.float32


def test_rows_keep_the_order_of_the_texts(embedder: Embedder) -> None:
    forwards = embedder.embed(TEXTS, Priority.SCAN)
    backwards = embedder.embed(TEXTS[::-1], Priority.SCAN)

    for one, other in zip(forwards, backwards[::-1], strict=True):
        assert near(one, other) >= 0.9999
    assert near(forwards[0], forwards[1]) < 0.99


def test_a_text_has_the_same_vector_whatever_is_embedded_with_it(embedder: Embedder) -> None:
    together = embedder.embed(TEXTS, Priority.SCAN)

    for text, vector in zip(TEXTS, together, strict=True):
        alone = embedder.embed([text], Priority.ADDED)[0]
        assert near(alone, vector) >= 0.9999


def test_a_changed_result_does_not_change_the_next_one(embedder: Embedder) -> None:
    first = embedder.embed(["notes"], Priority.SCAN)
    first *= 0

    assert np.linalg.norm(embedder.embed(["notes"], Priority.SCAN)) > 0.99


@pytest.mark.parametrize("text", ["\x00", "\ud800 half a pair", "\ufeff", "e\u0301", "🙂" * 40, "a" * 5000])
def test_strange_text_has_a_vector_too(embedder: Embedder, text: str) -> None:
    vectors = embedder.embed([text, "ordinary"], Priority.SCAN)

    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_eight_threads_get_what_one_gets(embedder: Embedder) -> None:
    alone = embedder.embed(TEXTS, Priority.SCAN)
    start = threading.Barrier(8)

    def embed(number: int) -> np.ndarray:
        start.wait()
        return embedder.embed(TEXTS[number:] + TEXTS[:number], list(Priority)[1 + number % 4])

    with ThreadPoolExecutor(8) as pool:
        for number, vectors in enumerate(pool.map(embed, range(8))):
            for one, other in zip(np.roll(alone, -number, axis=0), vectors, strict=True):
                assert near(one, other) >= 0.9999


def test_texts_that_share_words_are_nearer(embedder: Embedder) -> None:
    weather, same, other = embedder.embed(
        ["rain in the mountains", "the mountains in rain today", "quarterly tax return form"], Priority.SCAN
    )

    assert near(weather, same) > near(weather, other)


@pytest.mark.parametrize("kind", ["hashed words", "MiniLM"])
def test_a_long_text_is_the_mean_of_its_windows(kind: str, real: Batcher) -> None:
    files = packaged_model()
    batcher, counter, max_tokens = real, cast(TokenCounter, HuggingFaceCounter(files.tokenizer_json)), files.max_tokens
    if kind == "hashed words":
        counter, max_tokens = WordCounter(), 20
        batcher = Batcher([HashDevice()], counter, max_tokens, fingerprint="f", model_name="n", dimension=16)
    long = " ".join(f"word{number} of the story" for number in range(100))
    parts = [window.text for window in windows(long, counter, max_tokens)]
    assert len(parts) > 2

    whole = batcher.embed([long], Priority.SCAN)[0]
    mean = batcher.embed(parts, Priority.SCAN).mean(axis=0)

    assert near(whole, mean / np.linalg.norm(mean)) >= 0.9999


def test_the_end_of_a_long_text_counts(real: Batcher) -> None:
    story = "The committee met on Tuesday and discussed the budget for the coming year. " * 18
    question, plain, ending = real.embed(
        ["luggage combination codes", story, story + "The suitcase lock's code is 363. " * 18], Priority.SCAN
    )

    assert near(question, ending) > near(question, plain) + 0.05


def test_the_title_brings_a_note_nearer_to_a_question_in_other_words(real: Batcher) -> None:
    question = real.embed(["luggage combination codes"], Priority.QUERY)[0]
    enriched, bare = real.embed(["Suitcase Locks\n\nSteve = 363", "Steve = 363"], Priority.SCAN)

    assert near(question, enriched) > near(question, bare) + 0.1
