"""The repository keeps its shape: fixed top level, telling names, files of a readable size."""

from __future__ import annotations

import ast
import os
import stat
from pathlib import Path

import pytest

from tests.meta.checkout import ROOT, TOP_LEVEL, modules

LONGEST_MODULE = 400
NAMES_THAT_SAY_NOTHING = {
    "util",
    "utils",
    "helper",
    "helpers",
    "common",
    "base",
    "core",
    "misc",
    "manager",
    "managers",
    "handler",
    "handlers",
}
# What Python's own tools leave in a checkout; .gitignore names them.
LEFT_BEHIND = {"build", "dist", "__pycache__", "kbsync.egg-info"}


def test_top_level_holds_only_what_was_agreed() -> None:
    visible = {name for name in os.listdir(ROOT) if not name.startswith(".")}
    assert visible - LEFT_BEHIND <= TOP_LEVEL


def test_packaging_folder_does_not_shadow_the_library_of_that_name() -> None:
    assert not list((ROOT / "packaging").rglob("__init__.py"))


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_module_has_a_telling_name_a_first_line_and_a_readable_size(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    parts = [Path(part).stem for part in path.relative_to(ROOT).parts]
    assert not NAMES_THAT_SAY_NOTHING.intersection(parts)
    assert ast.get_docstring(ast.parse(text)), "the first line has to say what the module holds"
    assert len(text.splitlines()) <= LONGEST_MODULE


@pytest.mark.parametrize("script", ["packaging/quickstart.sh", "packaging/test.sh", ".ci/run"])
def test_script_can_be_started(script: str) -> None:
    path = ROOT / script
    assert path.stat().st_mode & stat.S_IXUSR
    assert path.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")
