"""The real model on the CPU, and which devices a setting means."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kbsync.embed.sentence_transformer import (
    SentenceTransformerDevice,
    device_info,
    devices,
    model_at,
    packaged_model,
    resolve_devices,
    those_there,
)
from kbsync.errors import ConfigurationError, RetryLater, Unready
from kbsync.reasons import Reason

if TYPE_CHECKING:
    from kbsync.model import Vectors


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


def test_a_model_that_was_let_go_comes_back_with_the_next_text(device: SentenceTransformerDevice) -> None:
    before = device.encode(["rain"], query=False)
    assert device.info is not None
    device.unload()
    assert not device.loaded
    device.end()
    np.testing.assert_array_equal(device.encode(["rain"], query=False), before)


@pytest.mark.parametrize(
    ("device", "said"), [("cuda:1", [("cuda", 0.25, "cuda:1")]), ("mps", [("mps", 0.25)]), ("cpu", [])]
)
def test_no_more_is_taken_of_an_accelerators_memory_than_is_set(
    monkeypatch: pytest.MonkeyPatch, device: str, said: list[tuple[object, ...]]
) -> None:
    import torch

    heard: list[tuple[object, ...]] = []
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda *told: heard.append(("cuda", *told)))
    monkeypatch.setattr(torch.mps, "set_per_process_memory_fraction", lambda *told: heard.append(("mps", *told)))
    with pytest.raises(Unready):  # it is not here, or has no such folder: the bound comes before
        SentenceTransformerDevice(replace(packaged_model(), folder="/nowhere"), device, memory_share=0.25).load()
    assert heard == said


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
    assert "meta failed" in str(failing.notice)


class ScriptedModel:
    """Stands for the model on a device: raises what `fails` says of a batch, else gives vectors."""

    def __init__(self, fails: Callable[[int], Exception | None]) -> None:
        self._fails = fails
        self.batches: list[int] = []

    def encode(self, texts: list[str], **_options: object) -> Vectors:
        self.batches.append(len(texts))
        if (error := self._fails(len(texts))) is not None:
            raise error
        return np.ones((len(texts), 384), dtype=np.float32)


class ScriptedDevice(SentenceTransformerDevice):
    """A device whose model is one of the scripts, by the device's name; a name without one cannot be loaded."""

    def __init__(self, scripts: dict[str, Callable[[int], Exception | None]]) -> None:
        super().__init__(packaged_model(), "cuda:0")
        self.models = {name: ScriptedModel(script) for name, script in scripts.items()}

    def _loaded(self) -> Any:
        if self.name not in self.models:
            raise Unready(Reason.MODEL, f"The model cannot be loaded on {self.name}.")
        return self.models[self.name]


def gpu_errors() -> dict[str, Exception]:
    import torch

    return {
        "lost": torch.AcceleratorError("CUDA error: device-side assert triggered\nCUDA kernel errors might be ..."),
        "gone": RuntimeError("CUDA error: the GPU has fallen off the bus"),
        "context": RuntimeError("CUBLAS_STATUS_EXECUTION_FAILED when calling cublasSgemm"),
        "operation": NotImplementedError("The operator 'aten::x' is not currently implemented for the MPS device."),
        "memory": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        "mps memory": RuntimeError("MPS backend out of memory (MPS allocated: 8.0 GB)"),
    }


@pytest.mark.parametrize("kind", ["lost", "gone", "context", "operation", "memory", "mps memory"])
def test_whatever_the_gpu_fails_with_the_cpu_embeds_in_its_place(kind: str) -> None:
    """P11: the texts are embedded, a person hears why it is slower, and the device is not asked again."""
    error = gpu_errors()[kind]
    failing = ScriptedDevice({"cuda:0": lambda count: error, "cpu": lambda count: None})

    assert failing.encode(["a", "b", "c"], query=False).shape == (3, 384)
    assert failing.encode(["d"], query=False).shape == (1, 384)

    gpu, cpu = failing.models["cuda:0"], failing.models["cpu"]
    assert gpu.batches == ([3, 1] if "memory" in kind else [3])
    assert sum(cpu.batches) == 4
    assert failing.name == "cpu"
    assert str(failing.notice).startswith("The embedding device cuda:0 failed (")
    assert "\n" not in str(failing.notice)


@pytest.mark.parametrize("kind", ["memory", "mps memory"])
def test_a_batch_that_is_too_large_is_halved_and_later_ones_are_smaller(kind: str) -> None:
    """P11: a little less memory is no reason to leave the GPU."""
    error = gpu_errors()[kind]
    small = ScriptedDevice({"cuda:0": lambda count: error if count > 2 else None})
    before = small.batch_tokens

    assert small.encode(["a"] * 8, query=False).shape == (8, 384)

    assert small.models["cuda:0"].batches == [8, 4, 2, 2, 4, 2, 2]
    assert small.batch_tokens < before
    assert (small.name, small.notice) == ("cuda:0", None)


def test_where_the_cpu_has_no_memory_either_the_texts_wait() -> None:
    """P11: the job is tried again later; it is not its text's fault."""
    full = ScriptedDevice(dict.fromkeys(("cuda:0", "cpu"), lambda count: MemoryError()))
    with pytest.raises(RetryLater, match="memory"):
        full.encode(["a", "b"], query=False)


def test_where_the_cpu_cannot_load_the_model_either_everything_waits() -> None:
    """P11: no text is blamed for a device."""
    broken = ScriptedDevice({"cuda:0": lambda count: RuntimeError("CUDA error: unspecified launch failure")})
    with pytest.raises(Unready):
        broken.encode(["a", "b"], query=False)


@pytest.mark.parametrize(
    ("setting", "cuda", "mps", "wanted"),
    [
        ("mps", 0, False, ["cpu"]),
        ("cuda", 0, False, ["cpu"]),
        ("cuda:1", 1, False, ["cpu"]),
        (["cuda:0", "cuda:1"], 1, False, ["cuda:0"]),
    ],
)
def test_a_device_that_is_missing_is_told_and_what_is_there_works(
    setting: str | list[str], cuda: int, mps: bool, wanted: list[str]
) -> None:
    """P11: a GPU that did not come up with the machine does not stop everything."""
    names, notice = those_there(setting, cuda, mps)
    assert names == wanted
    assert "is not on this machine" in str(notice)
    assert those_there("auto", cuda, mps)[1] is None


def test_damaged_weights_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(packaged_model().folder, folder)
    files = model_at(str(folder))
    os.truncate(folder / "model.safetensors", 1 << 20)

    with pytest.raises(Unready, match="damaged") as caught:
        SentenceTransformerDevice(files, "cpu").load()
    assert caught.value.reason is Reason.MODEL


def test_a_folder_that_vanished_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "vanished"
    shutil.copytree(packaged_model().folder, folder)
    files = model_at(str(folder))
    shutil.rmtree(folder)

    with pytest.raises(Unready, match="vanished"):
        SentenceTransformerDevice(files, "cpu").encode(["text"], query=False)


def test_loading_and_embedding_print_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    SentenceTransformerDevice(packaged_model(), "cpu").encode(["text"], query=False)

    assert capfd.readouterr() == ("", "")
