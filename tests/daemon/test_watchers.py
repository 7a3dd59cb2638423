"""Watchers under supervision: one that fails is begun again and its source walked, one that cannot begin later."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kbsync.daemon.watchers import Watchers
from kbsync.model import Change, Source
from kbsync.sources.coverage import WalkedFolders
from kbsync.sources.mounts import Mount
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_engine import ReportingWatcher

SOURCE = Source(1, "/simulated/notes")
WATCHED = {
    "path": SOURCE.path,
    "watching": True,
    "mode": "native",
    "folders": 1,
    "unwatched": 0,
    "events_lost": 0,
    "last_event_at": None,
    "error": None,
    "notice": None,
}


class Setup:
    """Watchers whose making, starting and marks are recorded."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.made: list[ReportingWatcher] = []
        self.refused: set[str] = set()
        self.marks: list[tuple[int, str]] = []
        self.changes: list[Change] = []
        self.mounts: list[Mount] = []
        self.watchers = Watchers(
            self.make,
            self.clock,
            self.changes.append,
            lambda source_id, why: self.marks.append((source_id, why)),
            lambda: self.mounts,
        )

    def make(
        self, source: Source, sink: Callable[[Change], None], dirty: Callable[[int, str], None]
    ) -> ReportingWatcher:
        self.made.append(ReportingWatcher(source, sink, dirty, self.refused))
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
        setup.make,
        setup.clock,
        setup.changes.append,
        lambda source_id, why: running_at_the_mark.append(setup.made[-1].running),
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
    setup.clock.advance(4)
    setup.watchers.supervise()
    assert len(setup.made) == 1
    setup.clock.advance(2)
    setup.watchers.supervise()
    assert len(setup.made) == 2, "tried again"
    assert setup.taken_marks() == [], "nothing is gained by a walk as long as it is not watched"
    setup.refused.clear()
    setup.clock.advance(6)
    setup.watchers.supervise()
    assert setup.made[-1].running
    assert setup.taken_marks() == [(1, "watch begun")]
    assert setup.watchers.status() == [WATCHED]


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
    setup.clock.advance(6)
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


def test_what_is_lost_and_when_an_event_came_last_outlives_the_watcher(setup: Setup) -> None:
    setup.watchers.begin(SOURCE)
    setup.made[0].report(f"{SOURCE.path}/quince.md")
    assert [change.path for change in setup.changes] == [f"{SOURCE.path}/quince.md"]
    setup.made[0].lose_events()
    assert (1, "overflow") in setup.taken_marks()
    heard_at = setup.clock.now()
    setup.clock.advance(3)
    setup.made[0].alive = False
    setup.watchers.supervise()
    (status,) = setup.watchers.status()
    assert (status["events_lost"], status["last_event_at"]) == (1, heard_at)


def test_folders_without_a_watch_are_polled_and_the_notice_names_a_limit_that_fits(setup: Setup) -> None:
    setup.watchers.begin(SOURCE)
    setup.taken_marks()
    setup.made[0].unwatched = 21
    polls = 0
    for _ in range(60):
        setup.clock.advance(2)
        setup.watchers.supervise()
        polls += (1, "poll") in setup.taken_marks()
    assert polls == 4
    (status,) = setup.watchers.status()
    assert (status["mode"], status["unwatched"]) == ("native", 21)
    assert "sudo sysctl fs.inotify.max_user_watches=" in str(status["notice"])
    setup.made[0].unwatched = 0
    setup.clock.advance(31)
    setup.watchers.supervise()
    assert setup.taken_marks() == []
    assert setup.watchers.status() == [WATCHED]


def test_w20_a_source_on_a_share_is_polled_and_begins_no_watcher(setup: Setup) -> None:
    """W20: decided by the type of the mount, told with its name."""
    setup.mounts = [Mount("/", "ext4"), Mount("/simulated", "nfs4")]
    setup.watchers.begin(SOURCE)
    assert setup.made == []
    assert setup.taken_marks() == [(1, "watch begun")]
    (status,) = setup.watchers.status()
    assert (status["watching"], status["mode"]) == (False, "polling")
    assert "nfs4" in str(status["error"])
    assert setup.watchers.is_polled(1)
    setup.clock.advance(31)
    setup.watchers.supervise()
    assert setup.taken_marks() == [(1, "poll")]


def test_w20_a_share_that_is_mounted_or_unmounted_later_is_followed(setup: Setup) -> None:
    """W20: the other way of watching begins with a walk."""
    setup.watchers.begin(SOURCE)
    setup.mounts = [Mount("/simulated", "cifs")]
    setup.clock.advance(31)
    setup.watchers.supervise()
    assert not setup.made[0].running
    assert setup.watchers.is_polled(1)
    setup.taken_marks()
    setup.mounts = []
    setup.clock.advance(31)
    setup.watchers.supervise()
    assert setup.made[1].running
    assert setup.taken_marks() == [(1, "watch begun")]
    assert setup.watchers.status() == [WATCHED]


def test_w20_a_share_mounted_inside_a_source_has_it_polled_besides(setup: Setup) -> None:
    """W20: what lies on the local file system is still told at once."""
    setup.mounts = [Mount(f"{SOURCE.path}/share", "fuse.sshfs")]
    setup.watchers.begin(SOURCE)
    setup.taken_marks()
    assert setup.made[0].running
    setup.clock.advance(31)
    setup.watchers.supervise()
    assert setup.taken_marks() == [(1, "poll")]
    assert setup.watchers.status()[0]["mode"] == "native"


def test_the_setting_polls_a_local_folder(setup: Setup) -> None:
    setup.watchers.begin(Source(1, SOURCE.path, watch="polling"))
    assert setup.made == []
    (status,) = setup.watchers.status()
    assert (status["mode"], status["error"]) == ("polling", None)


def test_a_heartbeat_is_asked_for_once_a_minute_and_costs_nothing_else(setup: Setup) -> None:
    setup.watchers.begin(SOURCE)
    setup.taken_marks()
    for _ in range(150):
        setup.clock.advance(2)
        setup.watchers.supervise()
    assert 4 <= setup.made[0].pulse <= 5, "five minutes"
    assert len(setup.made) == 1
    assert setup.taken_marks() == []


def test_w20_a_heartbeat_that_does_not_come_back_begins_the_watcher_anew_and_walks(setup: Setup) -> None:
    """W20: a watcher that seems healthy and hears nothing."""
    setup.watchers.begin(SOURCE)
    setup.taken_marks()
    setup.made[0].hears = False
    setup.clock.advance(61)
    setup.watchers.supervise()
    setup.clock.advance(8)
    setup.watchers.supervise()
    assert len(setup.made) == 1, "it has some seconds to come back"
    setup.clock.advance(4)
    setup.watchers.supervise()
    assert [watcher.running for watcher in setup.made] == [False, True]
    assert setup.taken_marks() == [(1, "no heartbeat")]
    assert setup.watchers.status()[0]["events_lost"] == 1


def test_another_event_proves_as_well_that_events_arrive(setup: Setup) -> None:
    setup.watchers.begin(SOURCE)
    setup.made[0].hears = False
    setup.clock.advance(61)
    setup.watchers.supervise()
    setup.made[0].report(f"{SOURCE.path}/quince.md")
    setup.clock.advance(20)
    setup.watchers.supervise()
    assert len(setup.made) == 1


def test_w20_a_source_that_stays_deaf_is_polled_and_tried_again_later(setup: Setup) -> None:
    """W20: shown as polling, with the reason."""
    setup.watchers.begin(SOURCE)
    for _ in range(120):
        for watcher in setup.made:
            watcher.hears = False
        setup.clock.advance(2)
        setup.watchers.supervise()
    assert len(setup.made) == 3
    assert setup.watchers.is_polled(1)
    (status,) = setup.watchers.status()
    assert (status["mode"], status["events_lost"]) == ("polling", 3)
    assert "events do not arrive" in str(status["error"])
    setup.taken_marks()
    setup.clock.advance(31)
    setup.watchers.supervise()
    assert setup.taken_marks() == [(1, "poll")]
    setup.clock.advance(600)
    setup.watchers.supervise()
    assert len(setup.made) == 4
    assert setup.made[3].running


def test_what_a_walk_saw_reaches_the_watcher_of_its_source(setup: Setup) -> None:
    folders = WalkedFolders({SOURCE.path: 1}, frozenset())
    setup.watchers.begin(SOURCE)
    setup.watchers.walked(1, folders)
    setup.watchers.walked(2, folders)
    assert setup.made[0].followed == [folders]
