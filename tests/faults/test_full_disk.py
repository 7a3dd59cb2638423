"""Must show: a small disk filled to its last byte again and again under the real engine, and freed: nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.full_disk_start import ROOMS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a disk of one's own takes Linux' namespaces")

CHECKOUT = Path(__file__).parent.parent.parent
# Room for what twenty moments index, and little more.
DISK, MOMENTS, SEED = "16m", 20, 7


def on_small_disk(disk: Path, module: str, *arguments: str) -> dict[str, Any]:
    """Return what a program of ours saw, run where `disk` is a small disk of its own."""
    disk.mkdir()
    mount = f'mount -t tmpfs -o size={DISK} tmpfs "$1" && shift && exec "$@"'
    child = [sys.executable, "-W", "ignore", "-m", module, str(disk), *arguments]
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", mount, "sh", str(disk), *child],
        capture_output=True,
        text=True,
        timeout=150,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=CHECKOUT,
        check=False,
    )
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        assert os.environ.get("CI") != "true", done.stderr
        pytest.skip(f"no user namespaces here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("SEEN ")]
    seen: dict[str, Any] = json.loads(line.removeprefix("SEEN "))
    return seen


def test_a_disk_filled_to_the_last_byte_at_twenty_moments_loses_nothing(
    tmp_path: Path, memory_disk: Path | None, told: Callable[[str], None], tally: Callable[..., None]
) -> None:
    """F29 and D15: everything waits and goes on by itself, no file fails for it, and the log stays short."""
    folder = (memory_disk or tmp_path) / "full-disk"
    folder.mkdir()
    seen = on_small_disk(tmp_path / "disk", "tests.faults.full_disk", str(folder), str(SEED), str(MOMENTS))
    told(
        f"full disk: {seen['moments']} moments ({seen['at_named_places']} at named places), {seen['told']} told, "
        f"{seen['documents']} documents, {len(seen['lost'])} lost; seed {SEED}"
    )
    tally(full_disks=seen["moments"], lost=len(seen["lost"]))
    assert seen["lost"] == []
    assert seen["problems"] == []
    assert (seen["moments"], seen["searches"]) == (MOMENTS, MOMENTS)
    assert seen["told"] >= MOMENTS - 2, "the disk was full for the engine too"
    assert seen["attempts"] == 1, "no attempt was counted"
    assert 1 <= seen["log_lines"] <= 2, "it is said once, not with every try"


def test_a_start_on_a_full_disk_waits_says_so_and_goes_on_or_ends_when_told(tmp_path: Path) -> None:
    """D15: a service manager would start it in vain again and again; a command says what is wrong and ends with 1."""
    home = tmp_path / "home"
    home.mkdir()
    seen = on_small_disk(tmp_path / "disk", "tests.faults.full_disk_start", str(home))
    assert (seen["ended"], seen["ended_again"]) == (0, 0)
    assert seen["end_s"] < 10.0
    assert not seen["served_too_early"]
    code, complaint = seen["command"]
    assert code == 1
    assert "is full. Free some space" in complaint
    assert "Traceback" not in complaint + seen["messages"]
    assert seen["notices"] == []
    assert seen["messages"].count("is full") == 2
    for room in ROOMS:
        assert "is full. Free some space." in seen[f"with {room} bytes"].pop("held_up"), "`status` tells it"
        assert seen[f"with {room} bytes"] == {"files": {"indexed": 1}, "notices": []}
