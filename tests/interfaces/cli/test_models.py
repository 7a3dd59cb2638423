"""`kbsync models` says what there is and never fetches unasked; `add` looks at the password file first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.fakes.docling_models import lay_out


def kbsync(home: Path, *arguments: str, **variables: str) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of a command without a terminal and without the hub."""
    outcome = subprocess.run(
        [sys.executable, "-m", "kbsync", *arguments],
        env=os.environ | {"KBSYNC_HOME": str(home), "HF_HUB_OFFLINE": "1"} | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return outcome.returncode, outcome.stdout, outcome.stderr


def test_list_names_every_model_with_place_size_and_licence(tmp_path: Path) -> None:
    code, out, _ = kbsync(tmp_path, "models", "list", "--json")
    models = json.loads(out)["models"]
    assert code == 0
    assert {model["purpose"] for model in models} == {"embedding", "layout", "tables", "OCR"}
    assert all(model["license"] and model["size_bytes"] > 100_000 for model in models)
    for model in models:
        if model["origin"] == "docling":
            assert (model["path"], model["in_use"]) == (None, False)
        elif model["purpose"] != "tables":  # that package may be absent
            assert os.path.exists(model["path"])
            assert model["in_use"]


def test_list_says_that_doclings_own_models_are_used_where_they_are_set_and_there(tmp_path: Path) -> None:
    lay_out(tmp_path / "data" / "models")
    _, out, _ = kbsync(tmp_path, "models", "list", "--json", KBSYNC_MODELS__DOCLING="docling")
    used = {(model["purpose"], model["origin"]) for model in json.loads(out)["models"] if model["in_use"]}
    assert used == {("embedding", "package"), ("OCR", "package"), ("layout", "docling"), ("tables", "docling")}


def test_nothing_is_fetched_where_nobody_can_be_asked(tmp_path: Path) -> None:
    code, out, error = kbsync(tmp_path, "models", "download")
    assert code == 5
    assert "172.0 MB, licence Apache-2.0" in out
    assert "213.0 MB, licence CDLA-Permissive-2.0" in out
    assert "--yes" in error


def test_a_download_that_fails_is_told_in_a_sentence(tmp_path: Path) -> None:
    code, _, error = kbsync(tmp_path, "models", "download", "--yes")
    assert code == 1
    assert error.startswith("kbsync: Docling layout heron could not be fetched from huggingface.co")
    assert "Traceback" not in error


def test_what_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    lay_out(tmp_path / "data" / "models")
    code, out, _ = kbsync(tmp_path, "models", "download")
    assert code == 0
    assert f"are in {tmp_path / 'data' / 'models'}" in out


def lay_out_embedder(folder: Path) -> Path:
    """Write the small files of an embedding model, and whole weights that hold nothing."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"hidden_size": 32, "max_position_embeddings": 514}')
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    return folder


def test_use_writes_the_model_into_the_configuration_and_keeps_what_stands_there(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("# mine\nworkers = 3\n\n[models]\ndevice = 'cpu' # only that\n")
    folder = lay_out_embedder(tmp_path / "models here" / "small")
    code, out, error = kbsync(tmp_path, "models", "use", str(folder))
    assert code == 0, error
    assert "small (32 dimensions)" in out
    written = config.read_text()
    assert tomllib.loads(written)["models"] == {"device": "cpu", "embedder": str(folder)}
    assert "# mine" in written
    assert "# only that" in written
    code, out, _ = kbsync(tmp_path, "models", "use", "packaged")
    assert code == 0
    assert tomllib.loads(config.read_text())["models"]["embedder"] == "packaged"


def test_use_makes_a_configuration_where_there_is_none(tmp_path: Path) -> None:
    code, _, error = kbsync(tmp_path / "home", "models", "use", "packaged")
    assert code == 0, error
    assert tomllib.loads((tmp_path / "home" / "config.toml").read_text()) == {"models": {"embedder": "packaged"}}


@pytest.mark.parametrize(
    ("model", "code", "said"),
    [("unheard-of", 2, "There is no model 'unheard-of'"), (".", 1, "cannot be used"), ("multilingual", 5, "--yes")],
    ids=["no such model", "a folder without one", "not on this disk"],
)
def test_use_changes_nothing_where_the_model_cannot_be_used(tmp_path: Path, model: str, code: int, said: str) -> None:
    (tmp_path / "config.toml").write_text("workers = 3\n")
    ended, out, error = kbsync(tmp_path, "models", "use", model)
    assert ended == code
    assert said in error
    assert (tmp_path / "config.toml").read_text() == "workers = 3\n"
    assert ("471.0 MB, licence MIT" in out) == (model == "multilingual")


def test_a_model_that_cannot_be_fetched_changes_nothing(tmp_path: Path) -> None:
    code, _, error = kbsync(tmp_path, "models", "use", "multilingual", "--yes")
    assert code == 1
    assert error.startswith("kbsync: multilingual could not be fetched from huggingface.co/intfloat")
    assert not (tmp_path / "config.toml").exists()


def test_a_model_that_was_fetched_before_is_used_without_the_network(tmp_path: Path) -> None:
    folder = lay_out_embedder(tmp_path / "data" / "models" / "intfloat--multilingual-e5-small")
    code, _, error = kbsync(tmp_path, "models", "use", "multilingual")
    assert code == 0, error
    assert tomllib.loads((tmp_path / "config.toml").read_text())["models"]["embedder"] == str(folder)
    prompts = json.loads((folder / "config_sentence_transformers.json").read_text())["prompts"]
    assert prompts == {"query": "query: ", "document": "passage: "}


def test_use_says_that_a_variable_would_beat_what_it_writes(tmp_path: Path) -> None:
    code, _, error = kbsync(tmp_path, "models", "use", "packaged", KBSYNC_MODELS__EMBEDDER="packaged")
    assert code == 2
    assert "KBSYNC_MODELS__EMBEDDER" in error


def test_doclings_own_models_are_not_asked_for_in_vain(tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("# Note\n")
    code, _, error = kbsync(tmp_path, "add", str(tmp_path / "note.md"), KBSYNC_MODELS__DOCLING="docling")
    assert code == 78
    assert "kbsync models download" in error


@pytest.mark.parametrize("name", ["absent", "."])
def test_a_password_file_that_cannot_be_read_is_told_at_once(tmp_path: Path, name: str) -> None:
    code, _, error = kbsync(tmp_path, "add", "paper.pdf", "--password-file", str(tmp_path / name))
    assert code == 2
    assert "password file" in error
