"""A sentence-transformers model of random weights: one layer of BERT, as wide as it is asked for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from kbsync.embed.model_files import packaged_model

_LAYER = "encoder.layer.0."


def make_random_model(folder: Path, dimension: int = 768, seed: int = 0) -> Path:
    """Write a model that gives vectors of `dimension` numbers, a multiple of 12, and return its folder.

    It counts tokens as the packaged model does, whose tokenizer it has.
    """
    source = Path(packaged_model().folder)
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.safetensors", "README.md"))
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    config |= {"hidden_size": dimension, "intermediate_size": dimension, "num_hidden_layers": 1}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    pooling = json.loads((source / "1_Pooling" / "config.json").read_text(encoding="utf-8"))
    pooling["word_embedding_dimension"] = dimension
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling), encoding="utf-8")
    random = np.random.default_rng(seed)
    weights = {}
    for name, rows in (
        ("embeddings.word_embeddings", config["vocab_size"]),
        ("embeddings.position_embeddings", config["max_position_embeddings"]),
        ("embeddings.token_type_embeddings", config["type_vocab_size"]),
        (f"{_LAYER}attention.self.query", dimension),
        (f"{_LAYER}attention.self.key", dimension),
        (f"{_LAYER}attention.self.value", dimension),
        (f"{_LAYER}attention.output.dense", dimension),
        (f"{_LAYER}intermediate.dense", dimension),
        (f"{_LAYER}output.dense", dimension),
        ("pooler.dense", dimension),
    ):
        weights[f"{name}.weight"] = random.normal(0, 0.02, (rows, dimension)).astype(np.float32)
        if not name.startswith("embeddings"):
            weights[f"{name}.bias"] = np.zeros(dimension, dtype=np.float32)
    for name in ("embeddings", f"{_LAYER}attention.output", f"{_LAYER}output"):
        weights[f"{name}.LayerNorm.weight"] = np.ones(dimension, dtype=np.float32)
        weights[f"{name}.LayerNorm.bias"] = np.zeros(dimension, dtype=np.float32)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder
