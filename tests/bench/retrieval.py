"""How well words, vectors and both together find what was judged to answer, a line for each collection and mode.

python -m tests.bench.retrieval [FOLDER...] [--cache FILE]

FOLDER: a collection in the form of BEIR. The functions of the standard library come on top. Questions are split by
their ids: the weights of the fusion were chosen on one half, the table is of the other.
"""

from __future__ import annotations

import argparse
import math
import os
import pickle
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from kbsync.embed.batcher import Batcher
from kbsync.embed.sentence_transformer import SentenceTransformerDevice, packaged_model
from kbsync.embed.token_counter import HuggingFaceCounter
from kbsync.ingest import ingest_note
from kbsync.model import DocumentUpdate, Embedder, IngestOptions, Origin, Priority, SearchMode, TokenCounter
from kbsync.search.hybrid import QueryEmbedder, Search
from kbsync.store import documents, origins, vectors
from kbsync.store.connection import Connection
from kbsync.store.writer import Readers, Writer
from tests.bench.judged import Collection, described_functions, in_other_words, judged

if TYPE_CHECKING:
    from kbsync.model import Vectors

MODES: tuple[SearchMode, ...] = ("lexical", "vector", "hybrid")
DEPTH = 10
# Hybrid may be so much worse than the better of its arms.
TOLERANCE = 0.005


@dataclass(frozen=True, slots=True)
class Quality:
    """Means over questions."""

    ndcg: float
    recall: float
    mrr: float


class RememberingEmbedder:
    """A `model.Embedder` that keeps what it embedded in a file, for the next run over the same texts."""

    def __init__(self, embedder: Embedder, path: str | None) -> None:
        self._embedder = embedder
        self._path = path
        self._known: dict[tuple[str, str, bool], Vectors] = {}
        if path is not None and os.path.exists(path):
            with open(path, "rb") as file:
                self._known = pickle.load(file)

    @property
    def fingerprint(self) -> str:
        return self._embedder.fingerprint

    @property
    def model_name(self) -> str:
        return self._embedder.model_name

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def embed(self, texts: Sequence[str], priority: Priority) -> Vectors:
        asked = priority is Priority.QUERY
        keys = [(self.fingerprint, text, asked) for text in texts]
        new = [key for key in dict.fromkeys(keys) if key not in self._known]
        if new:
            self._known.update(zip(new, self._embedder.embed([key[1] for key in new], priority), strict=True))
        return np.stack([self._known[key] for key in keys])

    def save(self) -> None:
        if self._path is not None:
            with open(self._path, "wb") as file:
                pickle.dump(self._known, file)


def packaged_embedder() -> tuple[Embedder, TokenCounter, frozenset[str] | None]:
    """Return the default model, its counter and the languages that it reads."""
    files = packaged_model()
    counter = HuggingFaceCounter(files.tokenizer_json)
    batcher = Batcher(
        [SentenceTransformerDevice(files, "cpu")],
        counter,
        files.max_tokens,
        fingerprint=files.fingerprint,
        model_name=files.name,
        dimension=files.dimension,
    )
    return batcher, counter, files.languages or None


def reported(question: str) -> bool:
    """Return whether a question belongs to the half that is reported; on the other one weights may be chosen."""
    return zlib.crc32(question.encode()) % 2 == 1


def quality(rankings: dict[str, list[str]], relevant: dict[str, frozenset[str]]) -> Quality:
    """Return nDCG@10, recall@10 and the mean reciprocal rank within 10 of rankings by question."""
    ndcg, recall, mrr = [], [], []
    for question, ranking in rankings.items():
        wanted = relevant[question]
        places = [place for place, text in enumerate(ranking[:DEPTH]) if text in wanted]
        best = sum(1 / math.log2(place + 2) for place in range(min(DEPTH, len(wanted))))
        ndcg.append(sum(1 / math.log2(place + 2) for place in places) / best)
        recall.append(len(places) / len(wanted))
        mrr.append(1 / (places[0] + 1) if places else 0.0)
    return Quality(float(np.mean(ndcg)), float(np.mean(recall)), float(np.mean(mrr)))


class Indexed:
    """A collection in a database of its own. Every text is one note under its title."""

    def __init__(self, folder: str, collection: Collection, embedder: Embedder, counter: TokenCounter) -> None:
        self._collection = collection
        self._embedder = embedder
        path = os.path.join(folder, f"{collection.name}.sqlite3")
        self._writer, self._readers = Writer(path), Readers(path)
        self._counter = counter
        self._ids: dict[int, str] = {}

    def open(self) -> None:
        self._writer.open()
        self._embedder_id = self._writer.run(lambda connection: vectors.use_embedder(connection, self._embedder, 0.0))
        for text in self._collection.texts:
            update = ingest_note(
                text.text,
                IngestOptions(title=text.title),
                self._counter,
                lambda texts: self._embedder.embed(texts, Priority.SCAN),
            )
            # Two texts may be equal; here each is a document of its own.
            update = replace(update, content_hash=f"{update.content_hash} {text.id}")

            def write(connection: Connection, update: DocumentUpdate = update) -> int:
                document_id = documents.write(connection, update, self._embedder_id, 0.0)
                origins.add(connection, document_id, Origin("note", None, None), 0.0)
                return document_id

            self._ids[self._writer.run(write)] = text.id

    def rankings(
        self, mode: SearchMode, languages: frozenset[str] | None, questions: dict[str, str]
    ) -> dict[str, list[str]]:
        """Return the ids of the first texts for each question."""
        embedder = QueryEmbedder(self._embedder, self._embedder_id, lambda: True, languages)
        search = Search(self._readers, embedder)
        return {
            question: [self._ids[hit.document_id] for hit in search.search(said, mode, DEPTH).hits]
            for question, said in questions.items()
        }

    def close(self) -> None:
        self._writer.close()
        self._readers.close()


def line(name: str, mode: str, count: int, found: Quality) -> str:
    """Return a line of the table."""
    return f"{name:28} {mode:24} {count:6} {found.ndcg:9.3f} {found.recall:9.3f} {found.mrr:9.3f}"


def report(
    collections: Sequence[Collection],
    embedder: Embedder,
    counter: TokenCounter,
    languages: frozenset[str] | None,
    *,
    tuning: bool = False,
) -> int:
    """Print the table; return in how many collections hybrid finds less than the better arm.

    Collections of the same texts, one after another, are indexed once.
    """
    print(f"{'collection':28} {'mode':24} {'asked':>6} {'nDCG@10':>9} {'recall@10':>9} {'MRR@10':>9}")
    worse = 0
    for _texts, group in groupby(collections, key=lambda collection: collection.texts):
        parts = list(group)
        with tempfile.TemporaryDirectory() as folder:
            indexed = Indexed(folder, parts[0], embedder, counter)
            indexed.open()
            for part in parts:
                worse += not _reported_part(indexed, part, languages, tuning)
            indexed.close()
    print("Hybrid is at least the better arm everywhere." if not worse else f"Hybrid is worse in {worse} collections.")
    return worse


def _reported_part(indexed: Indexed, part: Collection, languages: frozenset[str] | None, tuning: bool) -> bool:
    """Print the lines of a collection; return whether hybrid is as good as the better arm."""
    asked = {key: said for key, said in part.questions.items() if reported(key) is not tuning}
    runs: list[tuple[str, SearchMode, frozenset[str] | None]] = [(mode, mode, languages) for mode in MODES]
    # Evidence must do where nobody says what the model reads.
    runs.append(("hybrid, languages unknown", "hybrid", None))
    found = {}
    for name, mode, known in runs:
        found[name] = quality(indexed.rankings(mode, known, asked), part.relevant)
        print(line(part.name, name, len(asked), found[name]), flush=True)
    better = max(found["lexical"].ndcg, found["vector"].ndcg)
    return all(found[name].ndcg >= better - TOLERANCE for name, mode, _known in runs if mode == "hybrid")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.retrieval", description=__doc__)
    parser.add_argument("folders", nargs="*", metavar="FOLDER")
    parser.add_argument("--cache", metavar="FILE", help="keep vectors there, and use what is kept")
    parser.add_argument("--tuning", action="store_true", help="the other half of the questions")
    options = parser.parse_args(arguments)
    model, counter, languages = packaged_embedder()
    embedder = RememberingEmbedder(model, options.cache)
    functions = described_functions()
    collections = [*(judged(folder) for folder in options.folders), functions, in_other_words(functions)]
    worse = report(collections, embedder, counter, languages, tuning=options.tuning)
    embedder.save()
    return worse


if __name__ == "__main__":
    raise SystemExit(main())
