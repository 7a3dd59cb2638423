"""The faults that befall such programs and the tests that carry their ids: `python -m tests.faults.rows W F [--run]`.

A test carries an id where its docstring, or that of its whole file, begins with it: `W05, W06: ...`.
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

from tests.scenarios import CORPUS_VARIABLE, TESTS, Outcomes

# The page of faults lies beside the corpus.
PAGE = "faults.md"
_ROW = re.compile(r"^\| ([A-Z]\d\d) \| ([^|]+?) \|", re.MULTILINE)
_IDS = re.compile(r"((?:[A-Z]\d\d[,; ]*(?:and )?)+)(?::|$)")
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Row:
    """A fault, how it is made, and the node ids of the tests that carry its id."""

    id: str
    setup: str
    tests: tuple[str, ...]


def page() -> Path:
    """Return the page of faults; it is not there where no corpus is."""
    return Path(os.environ.get(CORPUS_VARIABLE) or os.devnull).resolve().parent / PAGE


def ids_in(docstring: str | None) -> list[str]:
    """Return the ids that a docstring begins with."""
    told = _IDS.match(docstring or "")
    return [] if told is None else re.findall(r"[A-Z]\d\d", told[1])


def carriers(folder: Path = TESTS) -> dict[str, list[str]]:
    """Return the node ids of the tests that carry each id; a whole file where its own docstring does."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        module = ast.parse(path.read_bytes())
        place = path.relative_to(folder.parent).as_posix()
        for number in ids_in(ast.get_docstring(module)):
            found.setdefault(number, []).append(place)
        for node in module.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for number in ids_in(ast.get_docstring(node)):
                    found.setdefault(number, []).append(f"{place}::{node.name}")
    return found


def rows(groups: Sequence[str]) -> list[Row]:
    """Return the page's rows of these groups (letters) with their tests, each once, in the page's order."""
    tests = carriers()
    told = dict(reversed(_ROW.findall(page().read_text(encoding="utf-8"))))
    return [Row(number, told[number], tuple(tests.get(number, ()))) for number in sorted(told) if number[0] in groups]


def state_of(test: str, outcomes: Outcomes) -> str:
    """Return how a test, or the worst of a file's tests, ended."""
    ended = [
        state for node, state in outcomes.by_test.items() if node == test or node.startswith((f"{test}::", f"{test}["))
    ]
    return next((state for state in ("failed", "skipped", "passed") if state in ended), "not run")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 where a fault has no test, or with --run one that did not pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", default=["W", "F"], help="letters of the groups, such as W F")
    parser.add_argument("--run", action="store_true", help="run the tests first and say how they ended")
    chosen = parser.parse_args(arguments)
    if not page().is_file():
        sys.stdout.write(f"no {PAGE}: it lies beside the folder that {CORPUS_VARIABLE} names\n")
        return 1
    found, outcomes, bad = rows(chosen.groups), Outcomes(), 0
    if chosen.run:
        pytest.main(["-q", *dict.fromkeys(test for row in found for test in row.tests)], plugins=[outcomes])
    for row in found:
        states = [state_of(test, outcomes) for test in row.tests] if chosen.run else []
        bad += not row.tests or any(state != "passed" for state in states)
        setup = row.setup if len(row.setup) <= _LONGEST else row.setup[: _LONGEST - 3] + "..."
        sys.stdout.write(f"{row.id}  {setup:{_LONGEST}}  {'' if row.tests else 'NO TEST'}".rstrip() + "\n")
        for test, state in zip(row.tests, states or [""] * len(row.tests), strict=True):
            sys.stdout.write(f"     {state:8}{test.removeprefix('tests/')}\n")
    sys.stdout.write(f"\n{len(found)} faults, {bad} without a {'passing ' if chosen.run else ''}test\n")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
