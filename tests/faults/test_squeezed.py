"""A machine with little of everything: slower, and the same index."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults import squeezed
from tests.faults.table_dump import tables_of

ROOT = Path(__file__).parents[2]
MEGABYTES = 512
FILES = 100


def indexed(folder: Path, home: Path, *megabytes: int) -> dict[str, Any]:
    outcome = subprocess.run(
        [sys.executable, "-m", squeezed.__name__, folder, home, *map(str, megabytes)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    answer = json.loads(outcome.stdout.splitlines()[-1])
    assert isinstance(answer, dict)
    return answer


@pytest.mark.timeout(200)
@pytest.mark.skipif(sys.platform != "linux", reason="limits of cores and memory as Linux has them")
def test_with_one_core_two_rivals_and_little_memory_the_index_is_the_same(
    tmp_path: Path, told: Callable[[str], None]
) -> None:
    """P17: bounded queue and memory, nothing left out, nothing twice."""
    at_random = random.Random(17)
    folder = tmp_path / "folder"
    for number in range(FILES):
        words = " ".join(at_random.choice(("medlar", "quince", "sloe", "damson", "rowan")) for _ in range(200))
        path = folder / f"{number % 7}" / f"note {number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Note {number}\n\n{words}\n", encoding="utf-8")
    indexed(folder, tmp_path / "clean")
    short = indexed(folder, tmp_path / "short", MEGABYTES)
    with tables_of(str(tmp_path / "clean/data/kb.sqlite3")) as tables:
        clean = tables.searchable([str(folder)])
    with tables_of(str(tmp_path / "short/data/kb.sqlite3")) as tables:
        assert tables.damages() == []
        assert tables.searchable([str(folder)]) == clean
    assert len(clean["documents"]) == FILES
    assert short["queued"] <= FILES
    assert short["resident"] < MEGABYTES << 20
    told(f"one core, two rivals, {MEGABYTES} MB: {FILES} files, {short['resident'] >> 20} MB resident, the same index")
