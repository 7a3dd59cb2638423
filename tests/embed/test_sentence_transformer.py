"""The real model on the CPU, and which devices a setting means."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from kbsync.embed.sentence_transformer import (
    SentenceTransformerDevice,
    device_info,
    devices,
    model_at,
    packaged_model,
    resolve_devices,
)
from kbsync.errors import ConfigurationError, FailFile
from kbsync.reasons import Reason


@pytest.mark.parametrize(
    ("setting", "cuda", "mps", "wanted"),
    [
        ("auto", 0, False, ["cpu"]),
        ("auto", 0, True, ["mps"]),
        ("auto", 2, False, ["cuda:0", "cuda:1"]),
        ("auto", 1, True, ["cuda:0"]),
        ("cpu", 2, True, ["cpu"]),
        ("mps", 0, True, ["mps"]),
        ("cuda", 2, False, ["cuda:0", "cuda:1"]),
        ("cuda:1", 2, False, ["cuda:1"]),
        (["cuda:1", "cuda:0"], 3, False, ["cuda:1", "cuda:0"]),
        (["cuda:0", "cpu"], 1, False, ["cuda:0", "cpu"]),
    ],
)
def test_a_setting_names_devices(setting: str | list[str], cuda: int, mps: bool, wanted: list[str]) -> None:
    assert resolve_devices(setting, cuda, mps) == wanted


@pytest.mark.parametrize(
    ("setting", "cuda", "mps"),
    [
        ("cuda", 0, False),
        ("mps", 1, False),
        ("cuda:2", 2, False),
        (["cuda:0", "cuda:1"], 1, False),
        ([], 1, False),
        ("gpu", 1, True),
    ],
)
def test_a_device_that_is_not_there_is_told_with_those_that_are(setting: str | list[str], cuda: int, mps: bool) -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve_devices(setting, cuda, mps)
    assert "cpu" in caught.value.hint


@pytest.fixture(scope="module")
def device() -> SentenceTransformerDevice:
    found = SentenceTransformerDevice(packaged_model(), "cpu")
    found.load()
    return found


def test_this_machine_has_a_device_and_can_tell_about_it() -> None:
    names = devices("auto")
    info = device_info(names)

    assert info.kind == names[0].split(":")[0]
    assert info.name
    assert info.count == len(names)
    assert info.memory is not None
    assert info.memory > 1 << 28


def test_loading_keeps_the_libraries_off_the_network(device: SentenceTransformerDevice) -> None:
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert os.environ["TRANSFORMERS_OFFLINE"] == "1"


def test_a_device_embeds_texts_of_any_length_in_order(device: SentenceTransformerDevice) -> None:
    texts = ["short", "word " * 200, "", "another short one", "long " * 5000, *[f"note {n}" for n in range(50)]]

    vectors = device.encode(texts, query=False)

    assert vectors.shape == (len(texts), 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    for number in (0, 3, 7, 54):
        assert float(vectors[number] @ device.encode([texts[number]], query=False)[0]) >= 0.9999


def test_it_gives_what_the_bare_library_gives(device: SentenceTransformerDevice) -> None:
    from sentence_transformers import SentenceTransformer

    texts = ["Suitcase Locks\n\nSteve = 363", "def retry(attempts: int) -> None: ...", "rain " * 100]
    bare = SentenceTransformer(packaged_model().folder, device="cpu").encode(texts, show_progress_bar=False)

    np.testing.assert_allclose(device.encode(texts, query=True), bare, atol=1e-4)


def test_a_text_of_as_many_tokens_as_promised_is_read_to_its_end(device: SentenceTransformerDevice) -> None:
    words = "rain " * (packaged_model().max_tokens - 1)

    snow, hail = device.encode([words + "snow", words + "hail"], query=False)

    assert not np.array_equal(snow, hail)


def test_prompts_of_the_model_are_used(tmp_path: Path, device: SentenceTransformerDevice) -> None:
    folder = tmp_path / "prompted"
    shutil.copytree(packaged_model().folder, folder)
    (folder / "config_sentence_transformers.json").write_text(
        '{"prompts": {"query": "query: ", "passage": "passage: "}, "default_prompt_name": "query"}'
    )
    prompted = SentenceTransformerDevice(model_at(str(folder)), "cpu")

    np.testing.assert_allclose(
        prompted.encode(["rain"], query=True), device.encode(["query: rain"], query=False), atol=1e-5
    )
    np.testing.assert_allclose(
        prompted.encode(["rain"], query=False), device.encode(["passage: rain"], query=False), atol=1e-5
    )


def test_the_cpu_takes_over_from_a_device_that_fails(device: SentenceTransformerDevice) -> None:
    # torch's "meta" device takes the model and cannot compute anything.
    failing = SentenceTransformerDevice(packaged_model(), "meta")
    failing.load()
    assert failing.name == "meta"
    assert failing.batch_tokens > device.batch_tokens

    vectors = failing.encode(["rain", "snow"], query=False)

    np.testing.assert_allclose(vectors, device.encode(["rain", "snow"], query=False), atol=1e-5)
    assert failing.name == "cpu"
    assert failing.batch_tokens == device.batch_tokens


def test_damaged_weights_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(packaged_model().folder, folder)
    os.truncate(folder / "model.safetensors", 1 << 20)

    with pytest.raises(FailFile, match="damaged") as caught:
        SentenceTransformerDevice(model_at(str(folder)), "cpu").load()
    assert caught.value.reason is Reason.MODEL


def test_a_folder_that_vanished_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "vanished"
    shutil.copytree(packaged_model().folder, folder)
    files = model_at(str(folder))
    shutil.rmtree(folder)

    with pytest.raises(FailFile, match="vanished"):
        SentenceTransformerDevice(files, "cpu").encode(["text"], query=False)


def test_loading_and_embedding_print_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    SentenceTransformerDevice(packaged_model(), "cpu").encode(["text"], query=False)

    assert capfd.readouterr() == ("", "")
