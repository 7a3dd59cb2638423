"""A path is gone after two whole looks that are far enough apart."""

from __future__ import annotations

import errno

import pytest

from kbsync.model import Source
from kbsync.sources.absence import Absences, Missing, has_left
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_filesystem import SimulatedFileSystem

SOURCE = Source(1, "/notes")


def test_a_path_is_due_at_the_second_look_two_seconds_after_the_end_of_the_first() -> None:
    absences = Absences()
    assert absences.after_look({"/b", "/a"}, begun=10.0, ended=11.0) == Missing((), ("/a", "/b"))
    assert absences.after_look({"/a", "/b"}, begun=12.9, ended=12.95) == Missing((), ("/a", "/b"))
    assert absences.after_look({"/a", "/c"}, begun=13.0, ended=13.1) == Missing(("/a",), ("/c",))
    assert absences.since("/a", 99.0) == 11.0


def test_a_path_that_was_there_in_between_begins_anew() -> None:
    absences = Absences()
    absences.after_look({"/a"}, begun=10.0, ended=10.0)
    absences.after_look(set(), begun=13.0, ended=13.0)
    assert absences.after_look({"/a"}, begun=16.0, ended=16.0) == Missing((), ("/a",))


@pytest.mark.parametrize(
    ("path", "left"),
    [
        ("/notes/there.md", False),
        ("/notes/gone.md", True),
        ("/notes/none/gone.md", True),
        ("/notes/there.md/below", True),
        ("/notes/locked/a.md", False),
        ("/notes/node_modules/a.md", True),
    ],
)
def test_the_last_look_says_no_where_it_cannot_tell(path: str, left: bool) -> None:
    fs = SimulatedFileSystem(ManualClock())
    for there in ("/notes/there.md", "/notes/locked/a.md", "/notes/node_modules/a.md"):
        fs.write(there, b"1")
    fs.fail("/notes/locked", OSError(errno.EIO, "Input/output error"))
    assert has_left(fs, SOURCE, frozenset(), path) is left
    fs.fail("/notes", OSError(errno.ESTALE, "Stale file handle"))
    assert not has_left(fs, SOURCE, frozenset(), path)
