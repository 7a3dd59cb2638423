"""The catalogue knows which models are whole on this disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbsync.pipelines.docling_converter import converter_fingerprint
from kbsync.pipelines.model_catalogue import are_there, docling_models, packaged_models
from tests.fakes.docling_models import FILES, lay_out


def test_packaged_models_are_files_of_installed_packages() -> None:
    for model in packaged_models():
        assert model.path is None or model.size == os.path.getsize(model.path)
    assert {model.purpose for model in packaged_models() if model.path is not None} >= {"layout", "OCR"}


def test_doclings_own_models_are_there_when_all_their_files_are(tmp_path: Path) -> None:
    assert not are_there(docling_models(str(tmp_path)))
    lay_out(tmp_path)
    assert are_there(docling_models(str(tmp_path)))
    assert [model.size for model in docling_models(str(tmp_path))] == [24, 16]


@pytest.mark.parametrize("lacking", FILES)
def test_a_model_that_lacks_a_file_is_not_there(tmp_path: Path, lacking: str) -> None:
    lay_out(tmp_path)
    (tmp_path / lacking).unlink()
    assert [model.path is None for model in docling_models(str(tmp_path))].count(True) == 1


def test_documents_read_with_other_models_are_not_taken_for_the_same() -> None:
    assert converter_fingerprint("auto", ()) != converter_fingerprint("auto", (), "/models")
    assert converter_fingerprint("auto", (), "/models") == converter_fingerprint("auto", (), "/elsewhere")
