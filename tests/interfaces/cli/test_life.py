"""What a start is busy with is told in the lock file; starts that soon end are counted, those that last are not."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kbsync.daemon.lock import DataLock, owner_of
from kbsync.interfaces.cli.life import Life
from kbsync.interfaces.service import early_ends
from kbsync.interfaces.service.early_ends import EarlyEnds
from kbsync.interfaces.service.notify import Notifier


class Start:
    """A life with its lock, whose process is told to end when `stop` is set."""

    def __init__(self, folder: Path, *, is_served: bool = True) -> None:
        self.path = str(folder / "kb.lock")
        self.counted = str(folder / "early-ends.json")
        self.lock = DataLock(self.path)
        self.stop = False
        self.life = Life(self.lock, Notifier(None), lambda: self.stop, self.counted if is_served else None)
        self.waited: list[float] = []

    def begin(self) -> None:
        self.life.begin(self._wait)

    def _wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.stop = True  # at the first wait: the test has no time


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return Start(tmp_path)


def test_what_it_is_busy_with_is_read_by_whoever_looks(start: Start) -> None:
    start.life.says("waiting for another kbsync to end")  # it has no lock yet: nothing to be written
    start.lock.acquire("daemon")
    try:
        before = time.time()
        start.life.says("filling the full-text index anew")
        owner = owner_of(start.path)
        assert owner is not None
        assert owner.since is not None
        assert (owner.role, owner.socket, owner.doing) == ("daemon", None, "filling the full-text index anew")
        assert before <= owner.since <= time.time()
        assert not owner.is_held_up
        start.life.stands("/run/kb.sock", "watching 1 folder")
        owner = owner_of(start.path)
        assert owner is not None
        assert (owner.socket, owner.doing, owner.since) == ("/run/kb.sock", None, None)
    finally:
        start.lock.release()


def test_what_holds_it_up_keeps_its_beginning_over_all_tries(start: Start) -> None:
    start.lock.acquire("daemon")
    try:
        moments = []
        for _ in range(3):
            start.life.says("getting ready")
            start.life.says("The disk is full.", is_held_up=True)
            owner = owner_of(start.path)
            assert owner is not None
            assert owner.is_held_up
            moments.append(owner.since)
        assert len(set(moments)) == 1
    finally:
        start.lock.release()


def test_a_start_is_counted_until_it_has_lasted(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """S03: a quick end is one whatever ended it."""
    start.begin()
    assert start.waited == []
    assert early_ends.read(start.counted).count == 1
    start.lock.acquire("daemon")
    try:
        start.life.stands("/run/kb.sock", "watching 1 folder")
        start.life.turns("watching 1 folder")
        assert early_ends.read(start.counted).count == 1
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + early_ends.LASTED_S + 1)
        start.life.turns("watching 1 folder")
        assert early_ends.read(start.counted) == EarlyEnds()
    finally:
        start.lock.release()


def test_after_several_early_ends_it_waits_and_can_be_told_to_end(start: Start) -> None:
    """S03: such a wait holds up no shutdown."""
    early_ends.write(start.counted, EarlyEnds(9, time.time()))
    start.begin()
    assert len(start.waited) == 1
    assert 0 < start.waited[0] <= 1.0


@pytest.mark.parametrize("deed", [Life.ended_in_order, Life.stops])
def test_only_an_end_in_order_is_not_counted(start: Start, deed: Callable[[Life], None]) -> None:
    start.begin()
    deed(start.life)
    assert early_ends.read(start.counted).count == (0 if deed is Life.ended_in_order else 1)


def test_a_daemon_of_a_terminal_counts_nothing(tmp_path: Path) -> None:
    start = Start(tmp_path, is_served=False)
    early_ends.write(start.counted, EarlyEnds(9, time.time()))
    start.begin()
    assert start.waited == []
    assert early_ends.read(start.counted).count == 9
