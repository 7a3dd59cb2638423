"""What is noted beside a database outlives the process, and is believed as far as it goes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbsync.store import damage

DAY = 86_400.0


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = tmp_path / "kb.sqlite3"
    path.write_bytes(b"x")
    return str(path)


def test_a_database_is_marked_as_made_in_use_and_closed(database: str) -> None:
    assert damage.mark_of(database) is None
    damage.opened(database, 5.0)
    mark = damage.mark_of(database)
    assert mark == damage.Mark(5.0, os.stat(database).st_ino)
    damage.closed(database)
    damage.opened(database, 9.0)
    mark = damage.mark_of(database)
    assert mark is not None
    assert (mark.made_at, mark.closed_ns) == (5.0, None)
    damage.closed(database)
    mark = damage.mark_of(database)
    assert mark is not None
    assert mark.closed_ns == os.stat(database).st_mtime_ns


def test_one_that_leaves_a_log_is_not_closed_cleanly(database: str) -> None:
    damage.opened(database, 5.0)
    Path(database + "-wal").write_bytes(b"frames")
    damage.closed(database)
    mark = damage.mark_of(database)
    assert mark is not None
    assert mark.closed_ns is None


def test_the_first_suspicion_is_kept_until_a_look_clears_it(database: str) -> None:
    assert not damage.is_noted(database)
    damage.suspect(database, "malformed")
    damage.suspect(database, "something else")
    assert damage.is_noted(database)
    assert damage.noted(database) == "malformed"
    damage.clear(database, 1.0)
    assert damage.noted(database) is None


@pytest.mark.parametrize(("gap", "is_told", "worn"), [(60.0, True, True), (60.0, False, False), (2 * DAY, True, False)])
def test_what_sqlite_says_again_and_again_is_believed_in_the_end(
    database: str, gap: float, is_told: bool, worn: bool
) -> None:
    now = 1000.0
    damage.opened(database, now)
    for _ in range(2):
        damage.suspect(database, "malformed", is_told=is_told)
        assert not damage.is_worn_out(database, now)
        damage.clear(database, now)
        now += gap
    damage.suspect(database, "malformed", is_told=is_told)
    assert damage.is_worn_out(database, now) is worn


@pytest.mark.parametrize("content", ["", "{", "[]", '{"made_at": 1, "unknown": 2}', "null"])
def test_a_mark_that_cannot_be_read_is_none(database: str, content: str) -> None:
    Path(database).with_suffix(".mark").write_text(content, encoding="utf-8")
    assert damage.mark_of(database) is None
    damage.opened(database, 5.0)
    assert damage.mark_of(database) is not None


def test_a_folder_that_takes_nothing_is_no_reason_to_end(database: str, tmp_path: Path) -> None:
    gone = str(tmp_path / "absent" / "kb.sqlite3")
    damage.suspect(gone, "malformed")
    damage.clear(gone, 1.0)
    damage.closed(gone)
    damage.forget(gone)
    assert damage.noted(gone) is None


def test_a_rebuild_is_written_down_until_it_ends(database: str) -> None:
    assert damage.pending(database) is None
    state = {"aside": "a", "why": "malformed", "staged": []}
    damage.set_pending(database, state)
    damage.set_pending(database, {**state, "is_moved": True})
    assert damage.pending(database) == {**state, "is_moved": True}
    damage.end_pending(database)
    assert damage.pending(database) is None


def test_what_is_written_is_private(database: str) -> None:
    before = os.umask(0)
    try:
        damage.opened(database, 1.0)
        damage.suspect(database, "malformed")
    finally:
        os.umask(before)
    folder = os.path.dirname(database)
    assert {os.stat(os.path.join(folder, name)).st_mode & 0o777 for name in ("kb.mark", "kb.suspect")} == {0o600}


def test_what_is_no_account_of_a_rebuild_is_none(tmp_path: Path) -> None:
    database = str(tmp_path / "kb.sqlite3")
    damage.set_pending(database, {"aside": "somewhere"})
    assert damage.pending(database) is None
    damage.set_pending(database, {"aside": "somewhere", "why": "it is text", "staged": []})
    assert damage.pending(database) is not None
