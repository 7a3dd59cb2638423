"""A small cross-encoder, made here with random weights, gives scores that search orders by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kbsync.compose import configured_reranker, require_reranker
from kbsync.config.sections import ModelSettings
from kbsync.config.settings import Settings
from kbsync.embed.sentence_transformer import CrossEncoderReranker
from kbsync.errors import ConfigurationError, FailFile, Unready
from kbsync.reasons import Reason

# Importing the libraries takes a while where other tests run beside.
pytestmark = pytest.mark.timeout(300)

TEXTS = ["about apples", "about pears and plums", "", "文", "apples " * 500]


def made_cross_encoder(folder: Path, labels: int = 1) -> str:
    """Write a whole cross-encoder of a few thousand weights and return its folder."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # it has no annotations
    folder.mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "about", "apples", "pears", "plums", "and", "quince"]
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    torch.manual_seed(7)
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig.from_dict(
        {
            **sizes,
            "vocab_size": len(words),
            "max_position_embeddings": 64,
            "num_labels": labels,
            "initializer_range": 0.5,
        }
    )
    BertForSequenceClassification(config).save_pretrained(folder, safe_serialization=True)
    AutoTokenizer.from_pretrained(folder, model_max_length=64).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> CrossEncoderReranker:
    return CrossEncoderReranker(made_cross_encoder(tmp_path_factory.mktemp("models") / "small"), "cpu")


def test_every_text_gets_a_score_from_0_to_1_that_does_not_depend_on_the_others(reranker: CrossEncoderReranker) -> None:
    scores = reranker.scores("apples", TEXTS)
    assert len(scores) == len(TEXTS)
    assert all(0 <= score <= 1 for score in scores)
    assert len({round(score, 4) for score in scores}) > 2
    for text, score in zip(TEXTS, scores, strict=True):
        assert reranker.scores("apples", [text]) == pytest.approx([score], abs=1e-4)


def test_texts_that_no_tokenizer_takes_are_scored_too(reranker: CrossEncoderReranker) -> None:
    assert len(reranker.scores("\ud800", ["a\ud800b", "\0"])) == 2


def test_a_model_with_several_labels_is_no_reranker(tmp_path: Path) -> None:
    with pytest.raises(FailFile, match="one label") as caught:
        CrossEncoderReranker(made_cross_encoder(tmp_path / "three", labels=3), "cpu").scores("apples", TEXTS)
    assert caught.value.reason is Reason.MODEL


@pytest.mark.parametrize("spoil", [lambda path: path.unlink(), lambda path: path.write_bytes(b"no weights")])
def test_a_folder_without_whole_weights_is_told(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    folder = made_cross_encoder(tmp_path / "spoilt")
    spoil(Path(folder) / "model.safetensors")
    with pytest.raises(FailFile, match=r"models\.reranker"):
        CrossEncoderReranker(folder, "cpu").scores("apples", TEXTS)


def test_none_is_used_unless_the_settings_name_one() -> None:
    assert configured_reranker(Settings()) is None


def test_a_folder_that_is_not_there_is_told_until_it_is_back(tmp_path: Path) -> None:
    settings = Settings(models=ModelSettings(reranker=str(tmp_path / "away"), device="cpu"))
    with pytest.raises(ConfigurationError, match=r"models\.reranker"):
        require_reranker(settings)
    configured = configured_reranker(settings)
    assert configured is not None
    assert "away" in str(configured.missing())
    with pytest.raises(Unready, match=r"models\.reranker"):
        configured.scores("apples", TEXTS)
    made_cross_encoder(tmp_path / "away")
    assert configured.missing() is None
    assert len(configured.scores("apples", TEXTS)) == len(TEXTS)
    require_reranker(settings)


def test_the_model_that_is_set_is_the_one_that_is_asked(tmp_path: Path, reranker: CrossEncoderReranker) -> None:
    folder = made_cross_encoder(tmp_path / "same")
    configured = configured_reranker(Settings(models=ModelSettings(reranker=folder, device="cpu")))
    assert configured is not None
    assert configured.scores("apples", TEXTS) == pytest.approx(reranker.scores("apples", TEXTS), abs=1e-5)
