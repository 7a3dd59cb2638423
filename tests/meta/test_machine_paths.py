"""No file of the project names a folder of the machine it was written on."""

from __future__ import annotations

import re

import pytest

from tests.meta.checkout import ROOT, project_files

# Names of people that examples use are no machine's: /home/you, /home/ann.
_EXAMPLES = r"(?!you\b|me\b|user\b|ann\b|alice\b|bob\b|name\b)"
MACHINE_PATH = re.compile(
    rf"(?<![\w.~/-])(?:/home/{_EXAMPLES}[a-z][\w-]*|/Users/{_EXAMPLES}[A-Za-z][\w-]*|/root(?=/|\b)|/work(?=/))"
)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("see /home/jane/notes", True),
        ('open("/root/.cache")', True),
        ("PATH=/Users/jane/bin", True),
        ("cd /work/main", True),
        ("/home/you/Documents", False),
        ("/rootless", False),
        ("the folder /srv/home/jane", False),
        ("~/root/x", False),
    ],
)
def test_pattern_knows_a_machine_path(line: str, found: bool) -> None:
    assert bool(MACHINE_PATH.search(line)) is found


def test_no_file_names_a_path_of_a_machine() -> None:
    found = []
    for path in project_files():
        if path.name == "test_machine_paths.py":
            continue
        for number, line in enumerate(path.read_bytes().decode("utf-8", "replace").splitlines(), start=1):
            if MACHINE_PATH.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert not found
