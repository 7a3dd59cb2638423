"""Between starts that soon end kbsync waits longer each time, and never for ever."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbsync.interfaces.service import early_ends
from kbsync.interfaces.service.early_ends import EarlyEnds


def test_the_waits_grow_to_ten_minutes() -> None:
    """S03: a crash loop costs less and less."""
    ends, now, waits = EarlyEnds(), 1e9, []
    for _ in range(11):
        waits.append(ends.wait_s(now))
        now += waits[-1]
        ends = ends.begun(now)
    assert waits == [0, 0, 10, 20, 40, 80, 160, 320, 600, 600, 600]


def test_what_has_passed_since_the_last_start_counts() -> None:
    ends = EarlyEnds(5, 1e9)
    assert ends.wait_s(1e9 + 30) == 50
    assert ends.wait_s(1e9 + 3600) == 0


def test_a_clock_that_was_set_back_makes_nobody_wait_longer() -> None:
    assert EarlyEnds(3, 2e9).wait_s(1e9) == 20


def test_a_number_of_starts_without_end_is_still_a_wait() -> None:
    assert EarlyEnds(10**9, 1e9).wait_s(1e9) == 600


def test_what_is_kept_is_read_again_until_it_is_forgotten(tmp_path: Path) -> None:
    path = str(tmp_path / "early-ends.json")
    early_ends.write(path, EarlyEnds(3, 12.5))
    assert early_ends.read(path) == EarlyEnds(3, 12.5)
    assert os.listdir(tmp_path) == ["early-ends.json"]
    early_ends.forget(path)
    early_ends.forget(path)
    assert early_ends.read(path) == EarlyEnds()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"count": "many", "at": 0}', b"\xff", b'{"count": 1e400, "at": 0}']
)
def test_a_file_that_says_nothing_sensible_says_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "early-ends.json"
    path.write_bytes(content)
    assert early_ends.read(str(path)) == EarlyEnds()


def test_a_folder_that_is_not_there_is_no_reason_not_to_start(tmp_path: Path) -> None:
    early_ends.write(str(tmp_path / "nowhere" / "early-ends.json"), EarlyEnds(1, 0.0))
