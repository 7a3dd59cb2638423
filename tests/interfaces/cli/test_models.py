"""`kbsync models` says what there is and never fetches unasked; `add` looks at the password file first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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
