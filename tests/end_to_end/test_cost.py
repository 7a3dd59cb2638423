"""Commands that people type all the time are cheap: few imports, little CPU time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from tests.end_to_end.conftest import Road

TRIES = 3
HEAVY = {
    *("torch", "docling", "sentence_transformers", "transformers", "tokenizers", "numpy", "apsw", "pydantic"),
    *("pydantic_settings", "structlog", "fastapi", "uvicorn", "watchdog", "rich"),
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


def cpu_seconds(environment: Mapping[str, str], *arguments: str) -> float:
    """Return the user and system time of one run of the program."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kbsync", *arguments], env=dict(environment), stdout=subprocess.DEVNULL
    )
    _pid, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


@pytest.mark.alone
@pytest.mark.parametrize(("arguments", "limit"), [(["--help"], 0.3), (["status"], 0.5), (["search", "Boskoop"], 0.5)])
def test_a_command_takes_little_cpu_time(road: Road, arguments: list[str], limit: float) -> None:
    assert min(cpu_seconds(road.program.environment, *arguments) for _ in range(TRIES)) < limit


@pytest.mark.parametrize("arguments", [["status"], ["search", "Boskoop"], ["why", __file__], ["wait"]], ids=" ".join)
def test_a_command_with_a_daemon_imports_nothing_heavy(road: Road, arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRAPPER, *arguments],
        env=road.program.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    code, names = json.loads(done.stdout.splitlines()[-1])
    assert code == (3 if arguments[0] == "why" else 0)
    assert "http.client" in names
    assert not HEAVY & set(names)
