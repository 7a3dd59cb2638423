"""The shell scripts are sound as far as shellcheck can tell."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.meta.checkout import ROOT

SCRIPTS = (ROOT / ".ci" / "run", *sorted((ROOT / "packaging").glob("*.sh")))


def test_shellcheck_finds_nothing() -> None:
    if shutil.which("shellcheck") is None:
        message = "shellcheck is missing"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{message}; .ci/run brings it")
        pytest.skip(message)
    command = ["shellcheck", "-x", *(str(script) for script in SCRIPTS)]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stdout) == (0, "")


def test_what_is_run_can_be_run_and_what_is_sourced_cannot() -> None:
    runnable = {script.name for script in SCRIPTS if os.access(script, os.X_OK)}
    assert {script.name for script in SCRIPTS} - runnable == {"environment.sh", "installation.sh"}
