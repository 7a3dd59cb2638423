"""The name that a folder lists, on disks that find a file under others too."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import pytest

from kbsync.sources.spelling import listed_as
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_filesystem import SimulatedFileSystem

NFC, NFD = unicodedata.normalize("NFC", "Käse.md"), unicodedata.normalize("NFD", "Käse.md")


def folded(name: str) -> str:
    return unicodedata.normalize("NFD", name).casefold()


@pytest.mark.parametrize(
    ("fold", "there", "asked", "listed"),
    [
        (None, "/notes/a.md", "/notes/a.md", "/notes/a.md"),
        (None, f"/notes/{NFC}", f"/notes/{NFC}", f"/notes/{NFC}"),
        (folded, "/notes/a.md", "/notes/A.md", "/notes/a.md"),
        (folded, "/notes/a.md", "/notes/a.md", "/notes/a.md"),
        (folded, f"/notes/{NFD}", f"/notes/{NFC}", f"/notes/{NFD}"),
        (folded, f"/notes/{NFD}", f"/notes/{NFD}", f"/notes/{NFD}"),
        (folded, "/notes/Docs/a.md", "/notes/docs/A.md", "/notes/Docs/a.md"),
    ],
)
def test_a_path_is_told_as_its_folders_list_it(
    fold: Callable[[str], str] | None, there: str, asked: str, listed: str
) -> None:
    """F13, F15"""
    fs = SimulatedFileSystem(ManualClock())
    fs.fold = fold
    fs.write(there, b"1")
    assert listed_as(fs, "/notes", asked) == listed


def test_names_that_differ_in_case_stay_two_where_the_disk_tells_them_apart() -> None:
    """F15: even where both are one file."""
    fs = SimulatedFileSystem(ManualClock())
    fs.write("/notes/a.md", b"1")
    fs.link("/notes/a.md", "/notes/A.md")
    for path in ("/notes/a.md", "/notes/A.md"):
        assert listed_as(fs, "/notes", path) == path


def test_what_is_not_there_raises() -> None:
    fs = SimulatedFileSystem(ManualClock())
    fs.make_directory("/notes")
    with pytest.raises(FileNotFoundError):
        listed_as(fs, "/notes", "/notes/a.md")
