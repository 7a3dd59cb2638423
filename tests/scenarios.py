"""The scenarios of the specifications and the tests that carry their names: `python -m tests.scenarios [--run]`.

A scenario's test is called like it: "Auto-detect PDF file" is `test_auto_detect_pdf_file`, wherever it stands.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
# The specifications lie beside the corpus.
CORPUS_VARIABLE, FOLDER = "KBSYNC_TEST_CORPUS", "specs"
_SCENARIO = re.compile(r"^#### Scenario: (.+?)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario and the node ids of the tests that carry its name: one, if all is well."""

    specification: str
    name: str
    tests: tuple[str, ...]


def specifications() -> list[Path]:
    """Return the specifications that hold scenarios; none where their folder is absent."""
    folder = Path(os.environ.get(CORPUS_VARIABLE) or os.devnull).resolve().parent / FOLDER
    return [path for path in sorted(folder.glob("*.md")) if names_in(path.read_text(encoding="utf-8"))]


def names_in(specification: str) -> list[str]:
    """Return the names of a specification's scenarios, in its order."""
    return _SCENARIO.findall(specification)


def name_of(scenario: str) -> str:
    """Return the name that a scenario's test carries."""
    return "test_" + re.sub(r"[^a-z0-9]+", "_", scenario.lower()).strip("_")


def named_tests(folder: Path = TESTS) -> dict[str, list[str]]:
    """Return every test function's name with the node ids that have it."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found.setdefault(node.name, []).append(f"{path.relative_to(folder.parent).as_posix()}::{node.name}")
    return found


def scenarios(specification: Path, tests: dict[str, list[str]]) -> list[Scenario]:
    """Return a specification's scenarios with their tests."""
    names = names_in(specification.read_text(encoding="utf-8"))
    return [Scenario(specification.name, name, tuple(tests.get(name_of(name), ()))) for name in names]


class Outcomes:
    """A plugin of pytest that keeps how each test ended: the worst of its phases and of its parameters."""

    _WORST = ("failed", "skipped", "passed")

    def __init__(self) -> None:
        self.by_test: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = report.nodeid.partition("[")[0]
        before = self.by_test.get(test, "passed")
        self.by_test[test] = min(before, report.outcome, key=self._WORST.index)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 where a scenario has no test, or with --run one that did not pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("specifications", nargs="*", help="such as engine.md; all of them if none is named")
    parser.add_argument("--run", action="store_true", help="run the tests first and say how they ended")
    chosen = parser.parse_args(arguments)
    tests = named_tests()
    found = [
        scenario
        for path in specifications()
        if not chosen.specifications or path.name in chosen.specifications
        for scenario in scenarios(path, tests)
    ]
    if not found:
        sys.stdout.write(f"no specification: they lie in {FOLDER}/ beside the folder that {CORPUS_VARIABLE} names\n")
        return 1
    outcomes = Outcomes()
    if chosen.run:
        pytest.main(["-q", *(test for scenario in found for test in scenario.tests)], plugins=[outcomes])
    width = max(len(scenario.name) for scenario in found)
    bad = number = 0
    for before, scenario in zip([None, *found], found, strict=False):
        number += 1
        if before is None or before.specification != scenario.specification:
            sys.stdout.write(f"\n{scenario.specification}\n")
            number = 1
        states = [outcomes.by_test.get(test, "not run") for test in scenario.tests] if chosen.run else []
        bad += not scenario.tests or any(state != "passed" for state in states)
        told = [" ".join(pair) for pair in zip(states or [""] * len(scenario.tests), scenario.tests, strict=True)]
        sys.stdout.write(f"{number:3}  {scenario.name:{width}}  {'; '.join(told) or 'NO TEST'}".rstrip() + "\n")
    sys.stdout.write(f"\n{len(found)} scenarios, {bad} without a {'passing ' if chosen.run else ''}test\n")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
