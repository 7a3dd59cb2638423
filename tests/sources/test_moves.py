"""Which new path is a known file at another place."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256

import pytest

from kbsync.filesystem import Stat
from kbsync.reasons import Reason
from kbsync.sources import moves
from kbsync.sources.moves import IndexedFile, WaitingFile, is_same_file, pair, recognise
from kbsync.sources.scanner import Seen
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_filesystem import SimulatedFileSystem

STAT = Stat("file", 10, 1_000, 2_000, 5, 1)
OLD = IndexedFile(1, "/notes/old.md", STAT, "h", 7)


def seen(path: str = "/notes/new.md", stat: Stat = STAT, reason: Reason | None = None) -> Seen:
    return Seen(path, stat, reason, "r")


@pytest.mark.parametrize(
    ("now", "same"),
    [
        (STAT, True),
        (replace(STAT, ctime_ns=9), True),  # a move changes it
        (replace(STAT, mtime_ns=9), False),
        (replace(STAT, size=9), False),
        (replace(STAT, inode=9), False),
        (replace(STAT, device=9), False),
        (replace(STAT, kind="directory"), False),
    ],
)
def test_a_file_is_the_same_by_device_inode_size_and_mtime(now: Stat, same: bool) -> None:
    assert is_same_file(now, STAT) is same


def _pairs(arrived: list[Seen], *known: IndexedFile, left: Callable[[IndexedFile], bool] = lambda _: True) -> list[str]:
    indexed: dict[int, list[IndexedFile]] = {}
    for file in known:
        indexed.setdefault(file.stat.inode, []).append(file)
    return [f"{move.old.path} {move.path}" for move in pair(((1, one) for one in arrived), indexed, left)]


def test_a_file_that_left_its_place_is_moved_and_one_that_is_still_there_was_linked() -> None:
    """F16"""
    assert _pairs([seen()], OLD) == ["/notes/old.md /notes/new.md"]
    assert _pairs([seen()], OLD, left=lambda _: False) == []
    other = replace(OLD, path="/notes/link.md")
    assert _pairs([seen()], OLD, other, left=lambda file: file is other) == ["/notes/link.md /notes/new.md"]


def test_one_file_moves_to_one_place() -> None:
    two = [seen("/notes/a.md"), seen("/notes/b.md")]
    assert _pairs(two, OLD) == ["/notes/old.md /notes/a.md"]
    other = replace(OLD, path="/notes/link.md")
    assert _pairs(two, OLD, other) == ["/notes/old.md /notes/a.md", "/notes/link.md /notes/b.md"]


@pytest.fixture
def fs() -> SimulatedFileSystem:
    return SimulatedFileSystem(ManualClock())


def _missing(content: bytes, path: str = "/notes/old.md") -> IndexedFile:
    stat = Stat("file", len(content), 1, 1, 999, 1)
    return IndexedFile(1, path, stat, sha256(content).hexdigest(), 7)


def _waiting(fs: SimulatedFileSystem, path: str, content: bytes) -> WaitingFile:
    fs.write(path, content)
    return WaitingFile(2, path, fs.lstat(path), "r")


def test_a_file_with_another_inode_is_recognised_by_what_it_holds(fs: SimulatedFileSystem) -> None:
    """W12: a checkout makes its files anew."""
    waiting = [_waiting(fs, "/other/a.md", b"12345"), _waiting(fs, "/other/b.md", b"quince"), _waiting(fs, "/c", b"1")]
    found = recognise(fs, [_missing(b"quince"), _missing(b"medlar", "/notes/x.md")], waiting)
    assert [(move.old.path, move.source_id, move.path, move.proved) for move in found.moves] == [
        ("/notes/old.md", 2, "/other/b.md", True)
    ]
    assert found.unread_sizes == frozenset()


def test_a_waiting_file_with_the_same_inode_is_not_read(fs: SimulatedFileSystem) -> None:
    waiting = _waiting(fs, "/other/a.md", b"quince")
    old = replace(_missing(b"quince"), stat=waiting.stat)
    fs.fail("/other/a.md", OSError(errno.EIO, "Input/output error"))
    [move] = recognise(fs, [old], [waiting]).moves
    assert (move.path, move.proved) == ("/other/a.md", False)


def test_equal_files_go_to_places_of_their_own(fs: SimulatedFileSystem) -> None:
    waiting = [_waiting(fs, f"/other/{name}.md", b"quince") for name in "abc"]
    found = recognise(fs, [_missing(b"quince", "/notes/1"), _missing(b"quince", "/notes/2")], waiting)
    assert [(move.old.path, move.path) for move in found.moves] == [
        ("/notes/1", "/other/a.md"),
        ("/notes/2", "/other/b.md"),
    ]


def test_what_cannot_be_read_or_is_too_much_leaves_its_size_unread(
    fs: SimulatedFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = _waiting(fs, "/other/a.md", b"quince"), _waiting(fs, "/other/b.md", b"medlars")
    missing = [_missing(b"quince"), _missing(b"medlars", "/notes/x.md")]
    fs.fail("/other/a.md", OSError(errno.EIO, "Input/output error"))
    assert recognise(fs, missing, [first, second]).unread_sizes == {6}
    fs.heal("/other/a.md")
    monkeypatch.setattr(moves, "READ_BYTES", 10)
    found = recognise(fs, missing, [first, second])
    assert ([move.path for move in found.moves], found.unread_sizes) == (["/other/a.md"], frozenset({7}))


def test_a_candidate_that_went_meanwhile_holds_nothing_up(fs: SimulatedFileSystem) -> None:
    waiting = _waiting(fs, "/other/a.md", b"quince")
    fs.remove("/other/a.md")
    found = recognise(fs, [_missing(b"quince")], [waiting])
    assert (found.moves, found.unread_sizes) == ((), frozenset())
