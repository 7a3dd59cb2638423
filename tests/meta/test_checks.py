"""README lists what `kbsync doctor` looks at, as the program does."""

from __future__ import annotations

import pytest

from kbsync.interfaces.doctor.examine import EXAMINATIONS
from tests.meta.checks import BEGIN, README, table, with_table


def test_table_has_a_line_for_each_check() -> None:
    lines = table().splitlines()
    assert len(lines) == 2 + len(EXAMINATIONS)
    assert lines[2].startswith("| `python` | ")


def test_table_replaces_what_is_between_the_markers_only() -> None:
    once = with_table("before\n<!-- checks:begin -->\nwhat stood there\n<!-- checks:end -->\nafter\n")
    assert once.startswith("before\n<!-- checks:begin -->\n\n| check |")
    assert once.endswith("\n\n<!-- checks:end -->\nafter\n")
    assert "what stood there" not in once
    assert with_table(once) == once


def test_readme_without_the_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="checks:begin"):
        with_table("# kbsync\n")


def test_table_in_the_readme_is_that_of_the_program() -> None:
    readme = README.read_text(encoding="utf-8")
    if BEGIN not in readme:
        pytest.skip("README has no table of checks")
    assert with_table(readme) == readme
