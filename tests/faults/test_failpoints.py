"""T3: a crash anywhere on the road changes nothing.

At its named places the process ends, the disk is full, or the call fails; then the daemon is started on what is left,
the scenario goes on, and all is compared with a clean run: the index (texts, full text, vectors), the ledger, origins,
stored and kept copies, the person's files; that the check finds nothing, that what was acknowledged is there, and that
no text was embedded again but those of the document that was under way.
`python -m tests.faults.crash_points --all` takes every hit of every place.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from kbsync import failpoints
from kbsync.failpoints import failpoint
from tests.faults.crash_points import EXIT, MODES
from tests.faults.places import named_places
from tests.meta.checkout import ROOT

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.faults.crash_points", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_a_crash_anywhere_changes_nothing(
    report: dict[str, Any], told: Callable[[str], None], tally: Callable[..., None]
) -> None:
    """P02, D04, D13 and D20: also in the middle of a migration, of compaction, of a repair, of a switch of models."""
    runs = report["runs"]
    places = {name for hits in report["hits"].values() for name in hits}
    by_mode = ", ".join(f"{runs[mode]} {mode}" for mode in MODES)
    told(
        f"T3: {len(places)} places, {sum(runs.values())} plays ({by_mode}), {report['lives']} processes, "
        f"{len(report['wrong'])} lost something, {report['seconds']:.0f} s"
    )
    tally(crash_points=sum(runs.values()), lost=len(report["wrong"]))
    assert report["wrong"] == []
    assert report["missed"] == [], "every play was broken off where it was to be"
    assert runs[EXIT] > len(places)


def test_every_named_place_is_come_by(report: dict[str, Any]) -> None:
    assert set(named_places()) == {name for hits in report["hits"].values() for name in hits}


def test_no_two_places_have_one_name() -> None:
    assert [name for name, count in named_places().items() if count > 1] == []


def test_nobody_is_told_of_a_place_outside_of_tests() -> None:
    heard: list[str] = []
    failpoints.listen(heard.append)
    try:
        failpoint("road.walked")
    finally:
        failpoints.listen(None)
    failpoint("road.walked")
    assert heard == ["road.walked"]
