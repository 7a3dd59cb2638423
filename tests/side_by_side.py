"""How tests share a machine when several processes run them: `pytest -n 2`. With one process nothing of it happens."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Fixtures of the whole session that take long to make, and the files that ask for them: one process runs them all.
SHARED_FIXTURES: dict[str, tuple[str, ...]] = {
    "conversions": tuple(
        f"tests/pipelines/test_{name}.py" for name in ("docling_converter", "docling_chunks", "sheets", "epub")
    ),
    "road": tuple(
        f"tests/end_to_end/test_{name}.py"
        for name in ("adding", "configuration", "cost", "live", "names", "one_owner", "pause", "road")
    ),
}
_GROUPS = {file: fixture for fixture, files in SHARED_FIXTURES.items() for file in files}
# What takes longest, longest first: begun at the end, one of these would leave the other processes without work.
LONGEST = (
    "tests/end_to_end/test_documents.py",
    "conversions",
    "road",
    "tests/end_to_end/test_ingestion_scenarios.py",
    "tests/faults/test_bad_documents.py",
    "tests/end_to_end/test_interrupted.py",
    "tests/faults/test_failpoints.py",
    "tests/faults/test_random_kills.py",
    "tests/faults/test_syscalls.py",
    "tests/faults/test_process.py",
    "tests/meta/test_install_script.py",
    "tests/interfaces/service/test_unit_life.py",
    "tests/meta/test_wheel.py",
)


def group_of(nodeid: str) -> str:
    """Return what one process runs as a whole: the tests of a file, or of the files that share a fixture."""
    file = nodeid.partition("::")[0]
    return _GROUPS.get(file, file)


def turn_of(nodeid: str) -> int:
    """Return the place of a test's group in the order in which groups are begun."""
    group = group_of(nodeid)
    return LONGEST.index(group) if group in LONGEST else len(LONGEST)


class Room:
    """Lets a test have the machine for itself while the other processes wait between two of their tests.

    Two files are locked, never read or written: `door` and `inside`. The locks end with the process.
    """

    def __init__(self, door: Path, inside: Path) -> None:
        self._door = os.open(door, os.O_RDONLY)
        self._inside = os.open(inside, os.O_RDONLY)

    @contextmanager
    def entered(self, *, alone: bool) -> Iterator[None]:
        """Wait for a place, which may take as long as another process's longest test, and keep it."""
        # Who waits to be alone stands in the door, so that no later one passes.
        fcntl.flock(self._door, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._inside, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        finally:
            fcntl.flock(self._door, fcntl.LOCK_UN)
        try:
            yield
        finally:
            # Said, not left to close: a child that the test forked may still hold the same open file.
            fcntl.flock(self._inside, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._door)
        os.close(self._inside)
