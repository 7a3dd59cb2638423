"""packaging/test.sh runs its steps in order and stops at the first that fails, with that step's exit code."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.meta.checkout import ROOT

# Every check is a run of this Python: it writes down which, and fails the one that FAILING names.
PYTHON = f"""#!/bin/sh
case "$*" in
    "-m pip --version" | *"import apsw"*) exit 0 ;;
    *importlib.metadata* | *"(3, 13)"*) exit 1 ;;
    "-c "*) exec {sys.executable} "$@" ;;
esac
echo "$*" >>"$CALLS"
[ -z "${{FAILING:-}}" ] || case "$*" in *"$FAILING"*) exit 9 ;; esac
"""


def run(folder: Path, *arguments: str, **variables: str) -> tuple[int, str, list[str]]:
    checkout, binaries = folder / "checkout", folder / "venv" / "bin"
    (checkout / "packaging").mkdir(parents=True)
    for name in ("packaging/test.sh", "packaging/environment.sh", "pyproject.toml", "VERSION"):
        shutil.copy(ROOT / name, checkout / name)
    binaries.mkdir(parents=True)
    (binaries / "python").write_text(PYTHON)
    (binaries / "python").chmod(0o755)
    outcome = subprocess.run(
        [str(checkout / "packaging" / "test.sh"), *arguments],
        env={
            "PATH": os.environ["PATH"],
            "KBSYNC_VENV": str(folder / "venv"),
            "CALLS": str(folder / "calls"),
            "HOME": str(folder),
        }
        | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    return outcome.returncode, outcome.stdout, (folder / "calls").read_text().splitlines()


def test_all_steps_run_in_order_and_each_says_its_time(tmp_path: Path) -> None:
    code, said, calls = run(tmp_path, "-k", "two words")
    assert code == 0
    assert [call.replace(str(tmp_path), "") for call in calls] == [
        "-m pip install --disable-pip-version-check --quiet -e .[test]",
        "-m ruff check .",
        "-m ruff format --check .",
        "-m mypy",
        "/venv/bin/lint-imports",
        "-m pytest -n 2 -k two words",
    ]
    passed = re.findall(r"^== (\w+): passed in \d+ s$", said, re.MULTILINE)
    assert passed == ["environment", "lint", "format", "types", "layers", "tests"]


def test_first_failing_step_ends_it_with_its_exit_code(tmp_path: Path) -> None:
    code, said, calls = run(tmp_path, FAILING="mypy")
    assert code == 9
    assert calls[-1] == "-m mypy"
    assert re.search(r"^== types: FAILED with exit code 9 after \d+ s$", said, re.MULTILINE)


def test_help_is_told_and_nothing_is_made(tmp_path: Path) -> None:
    (tmp_path / "calls").touch()
    code, said, calls = run(tmp_path, "--help")
    assert (code, calls) == (0, [])
    assert "packaging/test.sh [PYTEST ARGUMENT...]" in said
    assert "set -e" not in said
