"""Tests that want the corpus are left out and counted where it is absent, and fail in CI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import os
import pytest

def test_wants_it(corpus):
    assert (corpus / "one.md").read_text() == "1"

@pytest.mark.skipif("KBSYNC_TEST_CORPUS" not in os.environ, reason="KBSYNC_TEST_CORPUS is not set")
def test_asks_by_itself():
    pass

def test_is_skipped_for_another_reason():
    pytest.skip("no such device")
"""


def run(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(Path(__file__).parents[1] / "conftest.py", folder / "conftest.py")
    (folder / "test_one.py").write_text(TESTS)
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "KBSYNC_TEST_CORPUS")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", str(folder)],
        cwd=folder,
        env=kept | variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("variables", [{}, {"KBSYNC_TEST_CORPUS": "/nowhere"}])
def test_absent_corpus_leaves_tests_out_and_says_how_many(tmp_path: Path, variables: dict[str, str]) -> None:
    outcome = run(tmp_path, **variables)
    assert outcome.returncode == 0, outcome.stdout
    left_out = 1 if variables else 2
    assert f"{left_out} tests left out: KBSYNC_TEST_CORPUS names no folder" in outcome.stdout


def test_absent_corpus_fails_in_ci_and_other_skips_do_not(tmp_path: Path) -> None:
    outcome = run(tmp_path, CI="true")
    assert outcome.returncode == 1
    assert re.search(r"^1 skipped, 2 errors", outcome.stdout, re.MULTILINE), outcome.stdout
    assert "left out" not in outcome.stdout


def test_present_corpus_is_used(tmp_path: Path) -> None:
    corpus = tmp_path / "documents"
    corpus.mkdir()
    (corpus / "one.md").write_text("1")
    outcome = run(tmp_path, CI="true", KBSYNC_TEST_CORPUS=str(corpus))
    assert outcome.returncode == 0, outcome.stdout
    assert "2 passed, 1 skipped" in outcome.stdout
    assert "left out" not in outcome.stdout
