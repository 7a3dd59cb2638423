"""A machine prepared to fail `kbsync doctor` in seventeen ways: each is named with its remedy, and is well after it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the machine is made of Linux' namespaces")

CHECKOUT = Path(__file__).parent.parent.parent
# What is wrong, and what of the sentence says so.
FAULTS = (
    ("python", "problem", "Imported in place of what is installed: "),
    ("libraries", "problem", "apsw 3.40.0 is installed, >=3.51.3 is wanted"),
    ("variables", "warning", "KBSYNC_WORKRES"),
    ("embedding_model", "problem", "has no *.safetensors file"),
    ("opencv", "problem", "cv2 is imported from "),
    ("graphics_card", "warning", "cuda:3, but there is only 1 card"),
    ("watched_folders", "warning", "user.max_inotify_watches is 5"),
    ("open_files", "warning", "200 files open"),
    ("permissions", "problem", "data/documents is closed to "),
    ("permissions", "warning", "Others can look into "),
    ("logs", "warning", "ingest-errors.log is a folder"),
    ("sources", "problem", "closed notes is not readable for "),
    ("disk", "problem", "67 MB are free"),
    ("clock", "warning", "is from 2096-10-02"),
    ("daemon", "warning", "was ended in the middle of its work and left "),
    ("port", "warning", "is taken by "),
    ("service", "warning", "is not what this kbsync, and this shell's variables, would write now"),
)
# Here the remedy is one command of an ordinary user's: it was run as it stands.
COMMANDS = {"permissions", "logs", "sources", "daemon", "service"}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what doctor said of the machine before and after its remedies."""
    base = tmp_path_factory.mktemp("machine").resolve()
    child = [sys.executable, "-W", "ignore", "-m", "tests.faults.ill_machine", str(base)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        ["unshare", "-Urm", *child],
        capture_output=True,
        text=True,
        timeout=110,
        env=environment,
        cwd=CHECKOUT,
        check=False,
    )
    if done.stderr.startswith("unshare"):
        assert os.environ.get("CI") != "true", done.stderr
        pytest.skip(f"no user namespaces here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("SEEN ")]
    found: dict[str, Any] = json.loads(line.removeprefix("SEEN "))
    return found


def ill(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what is wrong of all that was made wrong: what else the machine lacks, such as memory, is its own."""
    names = {name for name, _, _ in FAULTS}
    return [check for check in answer["checks"] if check["state"] != "ok" and check["name"] in names]


def test_every_fault_is_named_with_a_remedy(seen: dict[str, Any], tally: Callable[..., None]) -> None:
    found = ill(seen["ill"])
    assert [(check["name"], check["state"]) for check in found] == [(name, state) for name, state, _ in FAULTS]
    for check, (_, _, words) in zip(found, FAULTS, strict=True):
        assert words in check["detail"]
        assert check["remedy"]
    assert (seen["ill"]["ok"], seen["ill"]["code"], seen["ill"]["stderr"]) == (False, 1, "")
    tally(ills_of_a_machine=len(found))


def test_doctor_leaves_everything_as_it_is(seen: dict[str, Any]) -> None:
    assert seen["is_untouched"]


def test_after_its_remedies_the_machine_is_well(seen: dict[str, Any]) -> None:
    assert ill(seen["well"]) == []
    assert seen["well"]["stderr"] == ""
    assert set(seen["by_command"]) == COMMANDS
