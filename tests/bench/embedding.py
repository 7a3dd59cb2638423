"""How fast the batcher embeds against bare `SentenceTransformer.encode` on the same texts, in one run.

python -m tests.bench.embedding
"""

from __future__ import annotations

import importlib
import inspect
import time
from statistics import median

from kbsync.embed.batcher import Batcher
from kbsync.embed.sentence_transformer import SentenceTransformerDevice, packaged_model
from kbsync.embed.token_counter import HuggingFaceCounter
from kbsync.model import Priority

TEXTS = 300
ROUNDS = 3
_MODULES = ["argparse", "asyncio", "collections", "datetime", "decimal", "email.message", "fractions", "inspect"]
_MODULES += ["ipaddress", "logging", "multiprocessing.pool", "os", "pathlib", "pickle", "random", "shutil", "socket"]
_MODULES += ["statistics", "subprocess", "tarfile", "tempfile", "threading", "turtle", "typing", "unittest.mock"]


def docstrings(counter: HuggingFaceCounter, max_tokens: int) -> list[str]:
    """Return texts as chunks are: a name and what is said of it, short and long, none longer than the model reads."""
    found: dict[str, None] = {}
    for name in _MODULES:
        module = importlib.import_module(name)
        for owner in [module, *(value for _, value in inspect.getmembers(module, inspect.isclass))]:
            for member, value in inspect.getmembers(owner, callable):
                text = f"{name} > {member}\n\n{inspect.getdoc(value) or ''}"
                if len(text) > 200 and counter.count(text) <= max_tokens:
                    found[text] = None
    texts = sorted(found)
    return texts[:: max(1, len(texts) // TEXTS)][:TEXTS]


def measure() -> dict[str, float]:
    """Return texts a second of both and their ratio (over 1: the batcher is faster); medians of alternating runs."""
    files = packaged_model()
    counter = HuggingFaceCounter(files.tokenizer_json)
    device = SentenceTransformerDevice(files, "cpu")
    batcher = Batcher(
        [device],
        counter,
        files.max_tokens,
        fingerprint=files.fingerprint,
        model_name=files.name,
        dimension=files.dimension,
    )
    batcher.start()
    if not batcher.wait_ready(120):
        raise SystemExit(f"The model could not be loaded: {batcher.error}")
    from sentence_transformers import SentenceTransformer

    bare = SentenceTransformer(files.folder, device="cpu")
    texts = docstrings(counter, files.max_tokens - 2)  # bare encode cuts at 256 with its two special tokens
    batcher.embed(texts[:20], Priority.SCAN)
    bare.encode(texts[:20], batch_size=32, show_progress_bar=False)
    seconds: dict[str, list[float]] = {"batcher": [], "bare": []}
    for _ in range(ROUNDS):
        started = time.perf_counter()
        batcher.embed(texts, Priority.SCAN)
        between = time.perf_counter()
        bare.encode(texts, batch_size=32, show_progress_bar=False)
        seconds["batcher"].append(between - started)
        seconds["bare"].append(time.perf_counter() - between)
    batcher.stop()
    ours, theirs = median(seconds["batcher"]), median(seconds["bare"])
    return {
        "embedding_texts": float(len(texts)),
        "embedding_batcher_texts_per_second": len(texts) / ours,
        "embedding_bare_texts_per_second": len(texts) / theirs,
        "embedding_ratio": theirs / ours,
    }


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:40} {value:8.2f}")
