"""When a path is quiet, told step by step."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbsync.filesystem import Stat
from kbsync.model import Change
from kbsync.sources.debounce import Debounce

PATH = "/notes/a.md"
FILE = Stat("file", 10, 1_000, 1_000, 5, 1)


class Disk(dict[str, Stat]):
    """What the looks show, and how many there were."""

    looks = 0

    def look(self, path: str) -> Stat | None:
        self.looks += 1
        return self.get(path)


def change(path: str = PATH, *, closed: bool = False, gone: bool = False) -> Change:
    return Change(1, path, closed=closed, gone=gone)


def run(debounce: Debounce, disk: Disk, now: float, until: float) -> list[tuple[float, Change]]:
    """Step whenever something may be due; return what came out and when."""
    out = []
    while (wait := debounce.next_due(now)) is not None and now + wait <= until:
        now += wait
        out += [(round(now, 6), found) for found in debounce.due(now, disk.look)]
    return out


def test_a_file_written_and_closed_once_comes_out_after_a_third_of_a_second() -> None:
    debounce, disk = Debounce(), Disk({PATH: FILE})
    debounce.note(change(), 100.0)
    debounce.note(change(closed=True), 100.01)
    assert run(debounce, disk, 100.01, 110.0) == [(100.31, change(closed=True))]
    assert disk.looks == 2
    assert len(debounce) == 0
    assert debounce.next_due(200.0) is None


def test_a_file_not_known_to_be_closed_waits_the_whole_quiet_time() -> None:
    debounce, disk = Debounce(), Disk({PATH: FILE})
    debounce.note(change(), 100.0)
    assert run(debounce, disk, 100.0, 110.0) == [(101.0, change())]


def test_a_later_event_begins_the_quiet_time_anew() -> None:
    debounce, disk = Debounce(), Disk({PATH: FILE})
    debounce.note(change(closed=True), 100.0)
    assert run(debounce, disk, 100.0, 100.2) == []
    debounce.note(change(), 100.2)
    assert run(debounce, disk, 100.2, 110.0) == [(101.2, change())]


def test_never_without_two_looks_apart_even_when_the_step_comes_late() -> None:
    debounce, disk = Debounce(), Disk({PATH: FILE})
    debounce.note(change(closed=True), 100.0)
    assert debounce.due(105.0, disk.look) == []
    assert debounce.next_due(105.0) == pytest.approx(0.3)
    assert debounce.due(105.2, disk.look) == []
    assert debounce.due(105.4, disk.look) == [change(closed=True)]


def test_a_look_from_before_an_event_does_not_count_when_the_step_comes_late() -> None:
    debounce, disk = Debounce(), Disk({PATH: FILE})
    debounce.note(change(closed=True), 100.0)
    assert debounce.due(100.0, disk.look) == []
    debounce.note(change(closed=True), 100.1)
    assert debounce.due(105.0, disk.look) == []
    assert debounce.due(105.3, disk.look) == [change(closed=True)]


@pytest.mark.parametrize(
    "other",
    [replace(FILE, size=11), replace(FILE, mtime_ns=1_001), replace(FILE, inode=6)],
    ids=["size", "mtime", "inode"],
)
def test_a_change_between_the_looks_without_an_event_waits_for_two_equal_ones(other: Stat) -> None:
    debounce, disk = Debounce(), Disk({PATH: FILE})
    debounce.note(change(closed=True), 100.0)
    assert run(debounce, disk, 100.0, 100.1) == []
    disk[PATH] = other
    assert run(debounce, disk, 100.1, 110.0) == [(100.6, change(closed=True))]


def test_what_the_looks_do_not_compare_does_not_delay() -> None:
    debounce, disk = Debounce(), Disk({PATH: FILE})
    debounce.note(change(closed=True), 100.0)
    run(debounce, disk, 100.0, 100.1)
    disk[PATH] = replace(FILE, ctime_ns=9_999, device=9)
    assert run(debounce, disk, 100.1, 110.0) == [(100.3, change(closed=True))]


def test_an_empty_file_waits_longer() -> None:
    debounce, disk = Debounce(), Disk({PATH: replace(FILE, size=0)})
    debounce.note(change(closed=True), 100.0)
    assert run(debounce, disk, 100.0, 110.0) == [(101.3, change(closed=True))]


def test_a_file_truncated_and_written_anew_is_never_given_out_empty() -> None:
    debounce, disk = Debounce(), Disk({PATH: replace(FILE, size=0)})
    debounce.note(change(closed=True), 100.0)
    assert run(debounce, disk, 100.0, 101.2) == []
    disk[PATH] = FILE
    debounce.note(change(closed=True), 101.2)
    assert run(debounce, disk, 101.2, 110.0) == [(101.5, change(closed=True))]


def test_a_path_that_is_gone_comes_out_as_gone_after_the_quiet_time() -> None:
    debounce = Debounce()
    debounce.note(change(gone=True), 100.0)
    assert run(debounce, Disk(), 100.0, 110.0) == [(101.0, change(gone=True))]


def test_a_path_that_went_without_an_event_comes_out_as_gone() -> None:
    debounce = Debounce()
    debounce.note(change(closed=True), 100.0)
    assert run(debounce, Disk(), 100.0, 110.0) == [(101.0, change(gone=True))]


def test_a_path_that_went_and_came_back_is_never_given_out_as_gone() -> None:
    debounce, disk = Debounce(), Disk()
    debounce.note(change(gone=True), 100.0)
    assert run(debounce, disk, 100.0, 100.5) == []
    disk[PATH] = FILE
    debounce.note(change(closed=True), 100.5)
    assert run(debounce, disk, 100.5, 110.0) == [(100.8, change(closed=True))]


def test_an_event_of_a_deletion_does_not_outweigh_a_file_that_is_there() -> None:
    debounce, disk = Debounce(), Disk({PATH: FILE})
    debounce.note(change(gone=True), 100.0)
    assert run(debounce, disk, 100.0, 110.0) == [(101.0, change())]


def test_a_log_that_grows_for_ever_comes_out_once_a_minute_and_starves_nobody() -> None:
    debounce, disk = Debounce(), Disk({PATH: FILE, "/notes/b.md": FILE})
    out = []
    for tick in range(6_000):
        now = 1_000.0 + tick / 10
        disk[PATH] = replace(FILE, size=100 + tick, mtime_ns=tick)
        debounce.note(change(), now)
        if tick == 3_000:
            debounce.note(change("/notes/b.md", closed=True), now)
        out += run(debounce, disk, now, now + 0.09)
    times = [when for when, found in out if found.path == PATH]
    assert len(times) == 9
    assert all(60.0 <= later - earlier <= 60.3 for earlier, later in itertools.pairwise(times))
    (other,) = [when for when, found in out if found.path == "/notes/b.md"]
    assert 1_300.3 <= other <= 1_300.4


def test_a_flood_of_events_leaves_one_entry_a_path_and_bounded_memory() -> None:
    debounce, disk = Debounce(), Disk()
    for number in range(20_000):
        debounce.note(change(f"/notes/{number % 10}"), 100.0 + number / 1e5)
        if number % 100 == 0:
            debounce.due(100.0 + number / 1e5, disk.look)
    assert len(debounce) == 10
    assert len(debounce._steps) <= 2 * 10 + 64
    assert len(run(debounce, disk, 100.2, 110.0)) == 10


def test_a_look_that_raises_loses_nothing() -> None:
    debounce, disk = Debounce(), Disk({PATH: FILE})

    def broken(path: str) -> Stat | None:
        raise PermissionError(13, "denied", path)

    debounce.note(change(closed=True), 100.0)
    with pytest.raises(PermissionError):
        debounce.due(100.0, broken)
    assert run(debounce, disk, 100.0, 110.0) == [(100.3, change(closed=True))]


@given(
    events=st.lists(
        st.tuples(
            st.integers(0, 300),
            st.sampled_from("abc"),
            st.booleans(),
            st.booleans(),
            st.one_of(st.none(), st.integers(0, 3)),
        ),
        max_size=40,
    )
)
def test_every_noted_path_comes_out_with_what_the_disk_shows_at_last(
    events: list[tuple[int, str, bool, bool, int | None]],
) -> None:
    debounce, disk, now = Debounce(), Disk(), 0.0
    last_event: dict[str, float] = {}
    out: list[tuple[float, Change]] = []
    for ticks, path, closed, gone, size in sorted(events, key=lambda event: event[0]):
        out += run(debounce, disk, now, ticks / 50)
        now = ticks / 50
        disk.pop(path, None)
        if size is not None:
            disk[path] = replace(FILE, size=size)
        debounce.note(change(path, closed=closed, gone=gone), now)
        last_event[path] = now
    out += run(debounce, disk, now, now + 100)
    assert len(debounce) == 0
    final = {found.path: (when, found) for when, found in out}
    assert final.keys() == last_event.keys()
    for path, (when, found) in final.items():
        assert when - last_event[path] >= 0.3 - 1e-5
        assert found.gone == (path not in disk)


def test_an_event_makes_a_path_that_a_walk_came_by_urgent_and_a_walk_never_the_other_way() -> None:
    debounce = Debounce()
    walked, told = Change(1, "/a", scanned=True), Change(1, "/b", scanned=True)
    debounce.note(walked, 0.0)
    debounce.note(told, 0.0)
    debounce.note(Change(1, "/b"), 0.1)
    debounce.note(told, 0.2)
    out = [change for now in (0.5, 1.0, 1.5, 2.0) for change in debounce.due(now, lambda path: FILE)]
    assert {change.path: change.scanned for change in out} == {"/a": True, "/b": False}
