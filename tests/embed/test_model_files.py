"""What is known of a model before it is loaded, and what tells two models apart."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kbsync.embed.model_files import model_at, packaged_model
from kbsync.errors import FailFile
from kbsync.reasons import Reason

ENCODINGS = {".safetensors": "latin-1"}


def weights(size: int, pad: int = 1 << 20) -> str:
    """Return a file of weights of that many bytes of numbers, its header as long as one with many tensors."""
    header = json.dumps({"x": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).ljust(pad)
    return len(header).to_bytes(8, "little").decode("latin-1") + header + "x" * size


def write(folder: Path, files: dict[str, object]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            content if isinstance(content, str) else json.dumps(content), encoding=ENCODINGS.get(path.suffix)
        )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the small files of a model with prompts, and weights that are none."""
    folder = tmp_path / "Some Model v1.5"
    write(
        folder,
        {
            "config.json": {"hidden_size": 32, "max_position_embeddings": 514},
            "modules.json": [{"path": ""}, {"path": "1_Pooling"}, {"path": "2_Normalize"}],
            "1_Pooling/config.json": {"word_embedding_dimension": 32},
            "sentence_bert_config.json": {"max_seq_length": 512},
            "config_sentence_transformers.json": {"prompts": {"query": "query: ", "document": "passage: "}},
            "tokenizer.json": "{}",
            "model.safetensors": weights(2 << 20),
            "README.md": "---\nlanguage:\n- de\n- en\ntags:\n- x\n---\n# Title\nlanguage: fr\n",
        },
    )
    return folder


def test_the_default_model_is_known_before_it_is_loaded() -> None:
    files = packaged_model()

    assert files.name == "sentence-transformers/all-MiniLM-L6-v2"
    assert files.dimension == 384
    assert files.max_tokens == 256
    assert files.languages == {"en"}
    assert (files.query_prompt, files.passage_prompt) == ("", "")
    assert files.fingerprint.startswith("all-minilm-l6-v2-384-")
    assert files == packaged_model()


def test_a_folder_is_read_the_same_way(folder: Path) -> None:
    files = model_at(str(folder))

    assert files.name == "Some Model v1.5"
    assert files.dimension == 32
    assert (files.query_prompt, files.passage_prompt) == ("query: ", "passage: ")
    assert files.languages == {"de", "en"}
    assert files.max_tokens < 512
    assert files.sequence_tokens <= 514
    assert files.fingerprint.startswith("some-model-v1-5-32-")
    assert files.tokenizer_json == str(folder / "tokenizer.json")


def test_without_optional_files_the_configuration_decides(folder: Path) -> None:
    for name in ("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json", "README.md"):
        (folder / name).unlink()

    files = model_at(str(folder))

    assert files.dimension == 32
    assert 500 <= files.max_tokens <= 512
    assert (files.query_prompt, files.passage_prompt) == ("", "")
    assert files.languages == frozenset()


def test_a_dense_layer_at_the_end_decides_the_dimension(folder: Path) -> None:
    write(
        folder,
        {
            "modules.json": [{"path": ""}, {"path": "1_Pooling"}, {"path": "2_Dense"}],
            "2_Dense/config.json": {"in_features": 32, "out_features": 8},
        },
    )

    assert model_at(str(folder)).dimension == 8


@pytest.mark.parametrize(
    ("front", "languages"),
    [
        ("language: en", {"en"}),
        ("language: [en, zh]", {"en", "zh"}),
        ("language:\n  - ja\n  - ko\nlicense: mit", {"ja", "ko"}),
        ("language:\n- multilingual\n- af", set()),
        ("license: mit", set()),
    ],
)
def test_languages_come_from_the_model_card(folder: Path, front: str, languages: set[str]) -> None:
    write(folder, {"README.md": f"---\n{front}\n---\ntext"})

    assert model_at(str(folder)).languages == languages


def change_byte(place: int) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        with open(folder / "model.safetensors", "r+b") as file:
            file.seek(place, 2 if place < 0 else 0)
            file.write(b"y")

    return change


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(change_byte(10), id="weights at the start"),
        pytest.param(change_byte(-100), id="weights at the end"),
        pytest.param(lambda folder: write(folder, {"model.safetensors": weights((2 << 20) + 1)}), id="weights longer"),
        pytest.param(lambda folder: write(folder, {"2_Dense/model.safetensors": weights(1)}), id="more weights"),
        pytest.param(
            lambda folder: write(folder, {"config_sentence_transformers.json": {"prompts": {"query": "q: "}}}),
            id="prompts",
        ),
        pytest.param(lambda folder: write(folder, {"sentence_bert_config.json": {"max_seq_length": 100}}), id="limit"),
        pytest.param(
            lambda folder: write(folder, {"1_Pooling/config.json": {"word_embedding_dimension": 32, "cls": True}}),
            id="pooling",
        ),
        pytest.param(lambda folder: write(folder, {"tokenizer.json": "{ }"}), id="tokenizer"),
    ],
)
def test_what_decides_a_vector_changes_the_fingerprint(folder: Path, change: Callable[[Path], None]) -> None:
    """D08: of the same dimension too, other weights, prompts, limits or pooling are another model."""
    before = model_at(str(folder)).fingerprint
    change(folder)

    assert model_at(str(folder)).fingerprint != before


def test_what_decides_no_vector_leaves_the_fingerprint(folder: Path, tmp_path: Path) -> None:
    before = model_at(str(folder)).fingerprint
    write(folder, {"README.md": "other", "onnx.txt": "x"})
    moved = tmp_path / "elsewhere" / folder.name
    moved.parent.mkdir()
    folder.rename(moved)

    assert model_at(str(moved)).fingerprint == before


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda folder: (folder / "config.json").unlink(), id="no configuration"),
        pytest.param(lambda folder: write(folder, {"config.json": "{"}), id="half a configuration"),
        pytest.param(lambda folder: write(folder, {"config.json": []}), id="a list"),
        pytest.param(
            lambda folder: write(folder, {"1_Pooling/config.json": {"word_embedding_dimension": "x"}}), id="dimension"
        ),
        pytest.param(lambda folder: write(folder, {"sentence_bert_config.json": {"max_seq_length": 0}}), id="limit"),
        pytest.param(lambda folder: write(folder, {"modules.json": {"path": 1}}), id="modules"),
        pytest.param(
            lambda folder: write(folder, {"1_Pooling/config.json": {"word_embedding_dimension": 48}}),
            id="pooling of another model",
        ),
        pytest.param(lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"), id="pickle"),
        pytest.param(lambda folder: (folder / "tokenizer.json").unlink(), id="no tokenizer"),
        pytest.param(lambda folder: os.truncate(folder / "tokenizer.json", 1), id="half a tokenizer"),
        pytest.param(lambda folder: os.truncate(folder / "model.safetensors", 2 << 20), id="half the weights"),
        pytest.param(lambda folder: os.truncate(folder / "model.safetensors", 1 << 10), id="a part of their header"),
        pytest.param(lambda folder: os.truncate(folder / "model.safetensors", 0), id="empty weights"),
        pytest.param(lambda folder: write(folder, {"model.safetensors": "x" * (3 << 20)}), id="no weights at all"),
    ],
)
def test_a_folder_that_holds_no_whole_model_is_told(folder: Path, spoil: Callable[[Path], object]) -> None:
    spoil(folder)

    with pytest.raises(FailFile, match="Some Model") as caught:
        model_at(str(folder))
    assert caught.value.reason is Reason.MODEL


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FailFile, match="missing"):
        model_at(str(tmp_path / "missing"))


@pytest.mark.parametrize("name", ["config.json", "modules.json", "tokenizer.json", "1_Pooling/config.json"])
@pytest.mark.parametrize("content", [b"nonsense", b"", b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_named(folder: Path, name: str, content: bytes) -> None:
    """D08: a person has to know which one to mend."""
    (folder / name).write_bytes(content)
    with pytest.raises(FailFile, match=f"its {os.path.basename(name)} is damaged"):
        model_at(str(folder))
