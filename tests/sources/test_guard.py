"""Which folder it is, and how much may go at once, as tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kbsync.filesystem import Stat
from kbsync.model import Held, RootIdentity
from kbsync.sources.guard import (
    FEW,
    Absent,
    Conclusion,
    SameRoot,
    agrees,
    conclude,
    differs_in_inode_only,
    held_after,
    is_confirmed,
    is_too_much,
    lost_mounts,
    same_root,
    told_names,
)

NAMES = ("archive", "diary", "letters", "recipes")
ROOT = RootIdentity(filesystem=5, device=1, inode=2, names=NAMES)
HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("now", "names", "verdict"),
    [
        # a disk that has a name
        (RootIdentity(5, 1, 2), ("all", "else"), "same"),
        (RootIdentity(5, 9, 2), (), "same"),  # the device's number changes when the machine starts
        (RootIdentity(5, 1, 3), NAMES, "same"),  # restored from a backup
        (RootIdentity(5, 1, 3), ("archive", "diary", "letters", "new"), "same"),
        (RootIdentity(5, 1, 3), ("archive", "diary", "new"), "other"),
        (RootIdentity(5, 1, 3), ("archive", "new"), "other"),
        (RootIdentity(6, 1, 2), ("photos",), "other"),  # every ext4 root has inode 2
        (RootIdentity(6, 1, 2), (*NAMES, "new"), "same"),  # copied to a new disk
        (RootIdentity(6, 1, 2), NAMES[:3], "other"),
        (RootIdentity(6, 1, 9), (), "bare"),
        (RootIdentity(6, 1, 9), ("lost+found", ".Trash-1000"), "bare"),
        # one that has none
        (RootIdentity(None, 1, 2), ("diary",), "same"),
        (RootIdentity(None, 1, 2), (), "same"),
        (RootIdentity(None, 1, 2), ("photos",), "other"),  # another stick at the same socket
        (RootIdentity(None, 9, 2), NAMES, "same"),
        (RootIdentity(None, 9, 2), ("diary",), "other"),
        (RootIdentity(None, 9, 2), (), "bare"),
    ],
)
def test_a_root_is_known_by_its_disk_and_inode_else_by_most_of_its_names(
    now: RootIdentity, names: tuple[str, ...], verdict: SameRoot
) -> None:
    """W06, F25: a table of what may be found at a root's path."""
    assert same_root(ROOT, now, lambda: names) == verdict


def test_one_name_makes_no_other_disk_the_same() -> None:
    assert same_root(replace(ROOT, names=("a.md",)), RootIdentity(6, 1, 2), lambda: ["a.md"]) == "other"


def test_names_are_asked_for_only_where_the_answer_hangs_on_them() -> None:
    def asked() -> tuple[str, ...]:
        raise AssertionError("listed for nothing")

    assert same_root(ROOT, RootIdentity(5, 1, 2), asked) == "same"
    assert same_root(None, RootIdentity(6, 1, 9), asked) == "same"
    assert same_root(replace(ROOT, names=()), RootIdentity(6, 1, 9), asked) == "same"


def test_a_root_is_remembered_by_few_names_and_none_that_systems_make() -> None:
    assert told_names(["b", ".hidden", "lost+found", "a"]) == ("a", "b")
    assert len(told_names(str(number) for number in range(100))) == 16


def test_a_disk_below_the_root_is_missed_where_none_begins_any_more() -> None:
    """F26"""
    assert lost_mounts(replace(ROOT, mounts=("a", "b/c")), ["a"]) == {"b/c"}
    assert lost_mounts(None, ["a"]) == frozenset()


@pytest.mark.parametrize(
    ("missing", "gone_lately", "known", "too_much"),
    [
        (20, 0, 20, False),
        (21, 0, 21, True),
        (21, 0, 70, False),
        (22, 0, 70, True),
        (300, 0, 1000, False),
        (301, 0, 1000, True),
        (1, 300, 700, True),
        (0, 700, 300, False),
        (1, 19, 1, False),
    ],
)
def test_too_much_is_over_twenty_files_and_over_the_share_within_an_hour(
    missing: int, gone_lately: int, known: int, too_much: bool
) -> None:
    """F27"""
    assert is_too_much(missing, gone_lately, known, 0.3) is too_much


def test_a_yes_to_some_files_is_none_to_the_whole_disk() -> None:
    assert is_confirmed(100, 100)
    assert is_confirmed(100 + FEW, 100)
    assert not is_confirmed(101 + FEW, 100)
    assert not is_confirmed(0, None)


def _looked(hours: list[float], missing: int = 100) -> Held:
    held = None
    for hour in hours:
        held = held_after(held, missing, 200, hour * HOUR_S)
    assert held is not None
    return held


@pytest.mark.parametrize(
    ("hours", "agreed"),
    [
        ([0, 0.1, 0.2, 0.3], False),
        ([0, 12, 24], True),
        ([0, 8, 16, 24], True),
        ([0, 8, 16], False),
        ([0, 8760], False),  # the clock was set a year ahead
        ([0, 8760, 8768], False),
        ([0, 8760, 8768, 8776], True),
        ([100, 99.9, 112, 120], False),  # the clock was set back: it begins anew
    ],
)
def test_what_is_held_agrees_after_three_looks_over_a_day(hours: list[float], agreed: bool) -> None:
    """F28, P15"""
    assert agrees(_looked(hours)) is agreed


def test_much_more_missing_than_before_begins_anew_and_less_goes_on() -> None:
    held = _looked([0, 12])
    assert held_after(held, 200, 200, 24 * HOUR_S).looks == 1
    assert agrees(held_after(held, 110, 200, 24 * HOUR_S))
    assert agrees(held_after(held, 50, 200, 24 * HOUR_S))


DUE, EARLY = tuple(f"/d{number}" for number in range(30)), tuple(f"/e{number}" for number in range(30))
HELD = Held(30, 60, 0.0, 1, 0.0, 0.0)
FULL_DAY = Held(30, 60, 0.0, 3, 24 * HOUR_S, 24 * HOUR_S)
FEW_DUE = Absent(("/a",), (), 1, 1, 60)
MANY_DUE = Absent(DUE, (), 30, 30, 60)
EMPTY = Absent(DUE, (), 30, 30, 30, is_empty=True)


@pytest.mark.parametrize(
    ("absent", "held", "confirmed", "conclusion"),
    [
        (Absent((), ()), None, None, Conclusion((), None, "watching", is_done=True)),
        (FEW_DUE, None, None, Conclusion(("/a",), None, "watching", is_done=True)),
        (replace(FEW_DUE, waits=True), None, None, Conclusion(("/a",), None, "watching", is_done=False)),
        # the brake, and what ends it
        (MANY_DUE, None, None, Conclusion((), HELD, "held", is_done=False)),
        (MANY_DUE, HELD, 30, Conclusion(DUE, HELD, "watching", is_done=True)),
        (MANY_DUE, HELD, 9, Conclusion((), HELD, "held", is_done=False)),
        (MANY_DUE, FULL_DAY, None, Conclusion(DUE, FULL_DAY, "watching", is_done=True)),
        (FEW_DUE, HELD, None, Conclusion(("/a",), None, "watching", is_done=True)),
        # the first look after a start, and in the middle of a checkout
        (Absent((), DUE, 0, 30, 60), HELD, None, Conclusion((), HELD, "held", is_done=False)),
        (Absent(("/a",), DUE, 1, 31, 60), None, None, Conclusion((), None, "watching", is_done=False)),
        (Absent((), ("/a",), 0, 1, 60), None, None, Conclusion((), None, "watching", is_done=False)),
        # an empty root
        (replace(EMPTY, due=(), early=DUE, lost=0), None, None, Conclusion((), None, "empty", is_done=False)),
        (EMPTY, None, None, Conclusion((), replace(HELD, known=30), "empty", is_done=False)),
        (EMPTY, None, 30, Conclusion(DUE, None, "watching", is_done=True)),
        (EMPTY, FULL_DAY, None, Conclusion(DUE, FULL_DAY, "watching", is_done=True)),
        (
            replace(EMPTY, is_sure=False),
            FULL_DAY,
            None,
            Conclusion((), replace(FULL_DAY, known=30), "empty", is_done=False),
        ),
    ],
)
def test_what_is_missing_is_hidden_or_held(
    absent: Absent, held: Held | None, confirmed: int | None, conclusion: Conclusion
) -> None:
    """F27, F28: as a table."""
    now = 0.0 if held is None or held is HELD else held.looked_at
    assert conclude(absent, held, confirmed, 0.3, now) == conclusion


def test_a_file_with_nothing_but_another_inode_is_told() -> None:
    """F22"""
    stat = Stat("file", 10, 1, 2, 3, 4)
    assert differs_in_inode_only(replace(stat, inode=9, device=9), stat)
    assert not differs_in_inode_only(replace(stat, inode=9, ctime_ns=9), stat)
    assert not differs_in_inode_only(stat, stat)
