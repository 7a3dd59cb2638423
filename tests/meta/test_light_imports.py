"""What is started often starts fast: the command line leaves heavy libraries alone until it needs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "torch",
    "docling",
    "sentence_transformers",
    "transformers",
    "tokenizers",
    "numpy",
    "apsw",
    "pydantic",
    "pydantic_settings",
    "structlog",
    "fastapi",
    "uvicorn",
    "watchdog",
    "rich",
}
# Runs the program as its console script does, then names what it has imported, on a line of its own.
WRAPPER = """
import json, sys
from kbsync.__main__ import main
code = 0
try:
    code = main()
except SystemExit as stop:
    code = stop.code
print("\\n" + json.dumps([code or 0, sorted(sys.modules)]))
"""


def imported_by(home: Path, *arguments: str) -> tuple[int, set[str]]:
    outcome = subprocess.run(
        [sys.executable, "-c", WRAPPER, *arguments],
        env=os.environ | {"KBSYNC_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    code, names = json.loads(outcome.stdout.splitlines()[-1])
    return code, set(names)


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("--version",), ("search", "--help"), ("models", "--help"), ("completion", "bash")],
    ids=" ".join,
)
def test_help_imports_nothing_heavy(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, names = imported_by(tmp_path, *arguments)
    assert code == 0
    assert "kbsync.interfaces.cli.app" in names
    assert not HEAVY & names


@pytest.mark.parametrize("text", ["", "[[sources]]\npath = '/a'\n"], ids=["nothing", "a folder"])
def test_what_to_do_next_is_told_without_anything_heavy(tmp_path: Path, text: str) -> None:
    """Whether a configuration can be used the settings know; without one nothing is asked."""
    (tmp_path / "config.toml").write_text(text)
    code, names = imported_by(tmp_path)
    assert code == 0
    assert not (HEAVY - ({"pydantic", "pydantic_settings"} if text else set())) & names


def test_models_are_listed_without_loading_any(tmp_path: Path) -> None:
    code, names = imported_by(tmp_path, "models", "list")
    assert code == 0
    assert not {"torch", "docling", "sentence_transformers", "rapidocr", "onnxruntime", "huggingface_hub"} & names


def test_status_without_daemon_or_data_imports_nothing_heavy(tmp_path: Path) -> None:
    code, names = imported_by(tmp_path, "status")
    assert code == 4
    assert not HEAVY & names
