"""T12: the tests have teeth: each bug that is planted into a copy of the program is caught by the test named for it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.faults.planted_bugs import BUGS, CHECKOUT, UNHARMED, Bug, Edit, Verdict, edited, wrong_with

# Together: they share a process that has imported the libraries.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict]:
    if sys.platform != "linux":
        pytest.skip("the bugs are those of Linux: inotify, the parent-death signal")
    command = [sys.executable, "-m", "tests.faults.planted_bugs", "--json"]
    told = subprocess.run(command, cwd=CHECKOUT, stdout=subprocess.PIPE, check=True, timeout=280).stdout
    return {name: Verdict(**verdict) for name, verdict in json.loads(told).items()}


@pytest.mark.parametrize("bug", [*BUGS, UNHARMED], ids=lambda bug: bug.name)
def test_each_bug_is_caught_by_the_tests_named_for_it_and_nothing_is_without_one(
    bug: Bug, verdicts: dict[str, Verdict], told: Callable[[str], None]
) -> None:
    assert wrong_with(bug, verdicts[bug.name]) == []
    if bug.edits:
        names = ", ".join(test.rpartition("::")[2] for test in bug.tests)
        told(f"T12 planted bug: {bug.name}: caught by {names}")


def test_there_are_ten_of_them_by_ten_names() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) == 10


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_bug_can_still_be_planted(bug: Bug) -> None:
    assert edited(bug).keys() == {edit.file for edit in bug.edits}


def test_an_edit_that_does_not_fit_any_more_is_told() -> None:
    bug = Bug("old", (Edit("clock.py", "what was there once", ""),), (), "")
    with pytest.raises(ValueError, match="0 times: what was there once"):
        edited(bug)


@pytest.mark.parametrize(
    ("outcomes", "errors", "package", "wrong"),
    [
        ({"t": "E   assert [] == ['a']"}, [], "/copy/kbsync", []),
        ({"t": ""}, [], "/copy/kbsync", ["t passes in spite of the bug"]),
        ({"t": "ImportError"}, [], "/copy/kbsync", ["t fails for another reason: ImportError"]),
        ({}, [], "/copy/kbsync", ["t did not run"]),
        ({"t": "assert []"}, ["no such file"], "/copy/kbsync", ["no such file"]),
        ({"t": "assert []"}, [], f"{CHECKOUT}/kbsync", [f"not the copy was tried, but {CHECKOUT}/kbsync"]),
    ],
)
def test_only_a_failure_of_the_named_test_for_the_named_reason_counts(
    outcomes: dict[str, str], errors: list[str], package: str, wrong: list[str]
) -> None:
    bug = Bug("a bug", (Edit("clock.py", "a", "b"),), ("t",), r"assert \[\]")
    assert wrong_with(bug, Verdict(outcomes, errors, package)) == wrong
