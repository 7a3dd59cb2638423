"""`config check` says what `run` would end with 78 for, in words of this program, as JSON too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kbsync.interfaces.cli.app import app


def check(home: Path, text: str, *arguments: str) -> Result:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text)
    return CliRunner().invoke(app, ["config", "check", *arguments], env={"KBSYNC_HOME": str(home)})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[models]\nembedder = "/nowhere"', "models.embedder"),
        ('[models]\nreranker = "/nowhere"', "models.reranker"),
        ('[models]\ndocling = "docling"', "models.docling"),
        ('[models]\ndevice = "cuda:99"', "cuda:99"),
        ('[[sources]]\npath = "/tmp"\nignore = ["[z-a]"]\n[models]\nembedder = "/nowhere"', "models.embedder"),
    ],
)
def test_what_cannot_be_used_here_is_told(tmp_path: Path, text: str, words: str) -> None:
    answer = check(tmp_path / "home", text)
    assert answer.exit_code == 78
    assert words in answer.stderr
    answer = check(tmp_path / "home", text, "--json")
    record = json.loads(answer.stdout)
    assert (answer.exit_code, record["ok"]) == (78, False)
    assert any(words in problem for problem in record["problems"])


def test_a_password_file_that_is_not_there_is_told_and_is_no_reason_to_end(tmp_path: Path) -> None:
    answer = check(tmp_path / "home", '[[sources]]\npath = "/tmp"\npassword_file = "/nowhere"')
    assert answer.exit_code == 0
    assert "password file /nowhere" in answer.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("workers = 0", "workers: must be 1 or more"),
        ('workers = "many"', "workers: must be a whole number"),
        ("bogus = 1", "bogus: there is no such setting"),
        ('log_level = "loud"', "log_level: must be one of: 'debug', 'info', 'warning' or 'error'"),
        ("[models]\ndevice = 5", "models.device: must be text in quotes, or must be a list"),
        ("keep_versions_days = -1", 'keep_versions_days: must be a number of days from 0 to 36500, or "forever"'),
        ("[http]\nenabled = 3", "http.enabled: must be true or false"),
        ("ocr = 3", "ocr: must be a table of settings"),
    ],
)
def test_a_mistake_is_told_in_words_of_this_program_as_json_too(tmp_path: Path, text: str, words: str) -> None:
    answer = check(tmp_path / "home", text, "--json")
    assert answer.exit_code == 78
    (problem,) = json.loads(answer.stdout)["problems"]
    assert words in problem
    assert words in answer.stderr
    assert "nput should" not in problem


def test_every_mistake_is_told_with_its_line(tmp_path: Path) -> None:
    text = '# mine\n[[sources]]\npath = "b"\n[chunks]\nmin_token = 2\n'
    answer = check(tmp_path / "home", text)
    config = tmp_path / "home" / "config.toml"
    first, second = answer.stderr.splitlines()
    assert first.startswith(f"kbsync: {config}, line 3: path of source b (number 1): must be an absolute path")
    assert second == f"kbsync: {config}, line 5: chunks.min_token: there is no such setting; did you mean min_tokens?"
    answer = check(tmp_path / "home", text, "--json")
    record = json.loads(answer.stdout)
    assert [(mistake["line"], mistake["setting"]) for mistake in record["mistakes"]] == [
        (3, "path of source b (number 1)"),
        (5, "chunks.min_token"),
    ]


def test_a_file_that_is_no_toml_is_told_with_line_and_column(tmp_path: Path) -> None:
    answer = check(tmp_path / "home", "workers = 2\nrescan_s = = 3\n", "--json")
    (mistake,) = json.loads(answer.stdout)["mistakes"]
    assert (answer.exit_code, mistake["line"], mistake["column"]) == (78, 2, 12)


def test_a_model_that_is_not_there_is_told_with_the_line_that_names_it(tmp_path: Path) -> None:
    answer = check(tmp_path / "home", '# mine\n\n[models]\nembedder = "/nowhere"\n')
    assert f"{tmp_path / 'home' / 'config.toml'}, line 4: " in answer.stderr


def test_models_and_patterns_are_looked_at_although_another_setting_is_wrong(tmp_path: Path) -> None:
    text = (
        'workers = 0\n[models]\nembedder = "/nowhere"\nreranker = "/gone"\n[[sources]]\npath = "/a"\nignore = ["[z-a]"]'
    )
    told = check(tmp_path / "home", text).stderr.splitlines()
    for words, line in zip(("workers", "embedder", "reranker", "[z-a]"), told, strict=True):
        assert words in line


def test_a_language_that_ocr_does_not_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[ocr]\nlanguages = ["xx"]\n')
    # Docling warns while it is imported, which ends tests.
    command = [sys.executable, "-W", "ignore", "-m", "kbsync", "config", "check"]
    answer = subprocess.run(
        command, env=os.environ | {"KBSYNC_HOME": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 78
    assert "config.toml, line 2: ocr.languages: OCR cannot read 'xx'." in answer.stderr


def test_a_language_that_ocr_reads_by_name_takes_no_docling(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[ocr]\nlanguages = ["de"]\n')
    loaded = "import sys; from kbsync.interfaces.cli.app import app; app(standalone_mode=False); "
    loaded += "print('docling' in sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", loaded, "config", "check"],
        env=os.environ | {"KBSYNC_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.splitlines()[-1] == "False"
