"""Watchers under supervision: one that fails is begun again and its source walked, one that cannot begin later."""

from __future__ import annotations

import pytest

from kbsync.daemon.watchers import Watchers
from kbsync.model import Source
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_engine import ReportingWatcher

SOURCE = Source(1, "/simulated/notes")


class Setup:
    """Watchers whose making, starting and marks are recorded."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.made: list[ReportingWatcher] = []
        self.refused: set[str] = set()
        self.marks: list[tuple[int, str]] = []
        self.watchers = Watchers(self._make, self.clock, lambda source_id, why: self.marks.append((source_id, why)))

    def _make(self, source: Source) -> ReportingWatcher:
        self.made.append(ReportingWatcher(source, lambda change: None, lambda source_id, why: None, self.refused))
        return self.made[-1]

    def taken_marks(self) -> list[tuple[int, str]]:
        marks, self.marks = self.marks, []
        return marks


@pytest.fixture
def setup() -> Setup:
    return Setup()


def test_a_source_is_watched_before_it_is_walked(setup: Setup) -> None:
    running_at_the_mark: list[bool] = []
    watchers = Watchers(
        setup._make, setup.clock, lambda source_id, why: running_at_the_mark.append(setup.made[-1].running)
    )
    watchers.begin(SOURCE)
    assert running_at_the_mark == [True]


def test_a_source_that_cannot_be_watched_is_walked_all_the_same_and_tried_again_later(setup: Setup) -> None:
    setup.refused.add(SOURCE.path)
    setup.watchers.begin(SOURCE)
    assert setup.taken_marks() == [(1, "watch begun")]
    (status,) = setup.watchers.status()
    assert status["watching"] is False
    assert "cannot be watched" in str(status["error"])
    setup.clock.advance(29)
    setup.watchers.supervise()
    assert len(setup.made) == 1
    setup.clock.advance(2)
    setup.watchers.supervise()
    assert len(setup.made) == 2, "tried again"
    assert setup.taken_marks() == [], "nothing is gained by a walk as long as it is not watched"
    setup.refused.clear()
    setup.clock.advance(31)
    setup.watchers.supervise()
    assert setup.made[-1].running
    assert setup.taken_marks() == [(1, "watch begun")]
    assert setup.watchers.status() == [{"path": SOURCE.path, "watching": True, "folders": 1, "error": None}]


def test_a_watcher_that_reports_no_more_is_begun_again_and_its_source_walked(setup: Setup) -> None:
    setup.watchers.begin(SOURCE)
    setup.taken_marks()
    setup.watchers.supervise()
    assert len(setup.made) == 1
    setup.made[0].alive = False
    setup.watchers.supervise()
    assert [watcher.running for watcher in setup.made] == [False, True]
    assert setup.taken_marks() == [(1, "watcher lost")]


def test_a_watcher_that_is_lost_and_cannot_begin_again_is_said_and_tried_again(setup: Setup) -> None:
    setup.watchers.begin(SOURCE)
    setup.made[0].alive = False
    setup.refused.add(SOURCE.path)
    setup.watchers.supervise()
    assert setup.watchers.status()[0]["watching"] is False
    setup.refused.clear()
    setup.clock.advance(31)
    setup.watchers.supervise()
    assert setup.watchers.status()[0]["watching"] is True


def test_a_source_that_ends_is_not_watched_any_more(setup: Setup) -> None:
    setup.watchers.begin(SOURCE)
    setup.watchers.begin(Source(2, "/simulated/archive"))
    setup.watchers.end(1)
    setup.watchers.end(1)
    assert [watcher.running for watcher in setup.made] == [False, True]
    assert [status["path"] for status in setup.watchers.status()] == ["/simulated/archive"]
    setup.watchers.stop()
    setup.watchers.stop()
    assert [watcher.running for watcher in setup.made] == [False, False]
    assert setup.watchers.status() == []
