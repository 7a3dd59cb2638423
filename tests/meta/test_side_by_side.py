"""Tests in several processes: what needs the machine for itself has it, and what shares a fixture stays together."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.fakes.eventually import eventually
from tests.side_by_side import LONGEST, SHARED_FIXTURES, Room, group_of, turn_of


class Guest:
    """A process of the tests, played by a thread: comes, stays until it is told to go."""

    def __init__(self, room: Room, name: str, *, alone: bool, log: list[str]) -> None:
        self._room, self._name, self._alone, self._log = room, name, alone, log
        self._may_go = threading.Event()
        self._thread = threading.Thread(target=self._visit, daemon=True)

    def comes(self) -> None:
        self._thread.start()

    def goes(self) -> None:
        self._may_go.set()
        self._thread.join(20)
        assert not self._thread.is_alive()

    def _visit(self) -> None:
        with self._room.entered(alone=self._alone):
            self._log.append(f"{self._name} in")
            assert self._may_go.wait(20)
            self._log.append(f"{self._name} out")


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Callable[[], Room]]:
    """Return what opens the room once more, as each process does."""
    for name in ("door", "inside"):
        (tmp_path / name).touch()
    with ExitStack() as stack:

        def opened() -> Room:
            made = Room(tmp_path / "door", tmp_path / "inside")
            stack.callback(made.close)
            return made

        yield opened


def waits_for_a_lock(path: Path) -> bool:
    """Return whether somebody waits for a lock on that file, as the kernel tells it."""
    inode = f":{path.stat().st_ino} "
    return any("->" in line and inode in line for line in Path("/proc/locks").read_text().splitlines())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who waits for a lock")
def test_two_share_the_room_and_one_that_is_alone_comes_between_them_and_the_next(
    room: Callable[[], Room], tmp_path: Path
) -> None:
    log: list[str] = []
    first, second, next_ = (Guest(room(), name, alone=False, log=log) for name in ("first", "second", "next"))
    alone = Guest(room(), "alone", alone=True, log=log)
    first.comes()
    second.comes()
    eventually(lambda: len(log) == 2)
    alone.comes()
    eventually(lambda: waits_for_a_lock(tmp_path / "inside"))
    next_.comes()
    eventually(lambda: waits_for_a_lock(tmp_path / "door"))
    second.goes()
    first.goes()
    eventually(lambda: "alone in" in log)
    alone.goes()
    next_.goes()
    assert log[4:] == ["alone in", "alone out", "next in", "next out"]


def test_files_that_share_a_fixture_are_one_group_and_each_other_file_is_its_own() -> None:
    assert (
        group_of("tests/end_to_end/test_live.py::test_a") == group_of("tests/end_to_end/test_road.py::test_b") == "road"
    )
    assert group_of("tests/a/test_b.py::test_c[d::e]") == "tests/a/test_b.py"


def test_what_takes_longest_is_begun_first() -> None:
    assert sorted(["tests/a/test_b.py::test_c", "tests/end_to_end/test_live.py::test_a"], key=turn_of) == [
        "tests/end_to_end/test_live.py::test_a",
        "tests/a/test_b.py::test_c",
    ]


def test_who_asks_for_a_shared_fixture_is_in_its_group(request: pytest.FixtureRequest) -> None:
    strays = {
        item.nodeid
        for item in request.session.items
        for fixture in SHARED_FIXTURES
        if fixture in getattr(item, "fixturenames", ()) and group_of(item.nodeid) != fixture
    }
    assert not strays


def test_every_file_that_is_named_is_there(request: pytest.FixtureRequest) -> None:
    named = {name for name in LONGEST if name not in SHARED_FIXTURES} | set().union(*SHARED_FIXTURES.values())
    assert not [name for name in named if not (request.config.rootpath / name).is_file()]
