"""T4: what the writer told to be done is there, whichever of its system calls was its last, or was refused.

`python -m tests.faults.syscall_points --all` takes every call; here a sample is taken of the writes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.syscall_points import CALLS, KILL, MODES
from tests.meta.checkout import ROOT

pytestmark = pytest.mark.timeout(600)

_NO_STRACE = 2
# Without any of these the store would not do what it promises.
_MUST_BE_MADE = ("pwrite64", "fdatasync", "fsync", "ftruncate")


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.faults.syscall_points", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    if ran.returncode == _NO_STRACE:
        said = f"the writer cannot be killed at its system calls here: {ran.stdout.strip()}"
        assert os.environ.get("CI") != "true", said
        pytest.skip(said)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_nothing_told_is_lost_whatever_system_call_was_the_last_one_or_failed(
    report: dict[str, Any], told: Callable[[str], None], tally: Callable[..., None]
) -> None:
    """P01, D15 and F29: SIGKILL at the k-th call; a disk that is full from there on; one call with an I/O error."""
    runs = report["runs"]
    by_mode = ", ".join(f"{runs[mode]} {mode}" for mode in MODES)
    told(
        f"T4: {sum(report['calls'].values())} system calls, {sum(runs.values())} plays ({by_mode}), "
        f"{report['acknowledged']} deeds acknowledged, {report['refused']} refused clearly, "
        f"{len(report['wrong'])} lost something, {report['seconds']:.0f} s"
    )
    tally(crash_points=sum(runs.values()), lost=len(report["wrong"]))
    assert report["wrong"] == []


def test_the_plays_bite(report: dict[str, Any]) -> None:
    calls, runs = report["calls"], report["runs"]
    assert set(calls) <= set(CALLS)
    assert min(calls.get(call, 0) for call in _MUST_BE_MADE) > 0
    assert calls.get("unlink", 0) + calls.get("unlinkat", 0) > 0
    assert sum(calls.get(call, 0) for call in ("rename", "renameat", "renameat2")) > 0
    assert sum(calls.get(call, 0) for call in ("link", "linkat")) > 0
    assert runs[KILL] > 100
    assert report["missed"] == 0, "every kill came where it was planned"
    # Otherwise the plays would break off before anything was promised, or no call that fails would be noticed.
    assert report["acknowledged"] > sum(runs.values())
    assert report["refused"] > runs[MODES[1]] / 2
