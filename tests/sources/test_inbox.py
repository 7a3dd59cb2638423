"""The door of an inbox on the real disk: it opens for inboxes only, and lets nothing go that is not the very file."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbsync.errors import FailFile, FileChanged, FileGone
from kbsync.filesystem import RealFileSystem, Stat
from kbsync.model import Source
from kbsync.sources import inbox as inbox_module
from kbsync.sources.inbox import UNTOLD_QUIET_S, RealInbox, writing_wait

CONTENT = b"the conference pear"
HASH = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "pears.md").write_bytes(CONTENT)
    return tmp_path / "in"


@pytest.fixture
def inbox(root: Path) -> RealInbox:
    return RealInbox(Source(1, str(root), "inbox"))


def stat_of(path: Path) -> Stat:
    return RealFileSystem().lstat(str(path))


def test_a_mirror_has_no_such_door(root: Path) -> None:
    with pytest.raises(ValueError, match="no inbox"):
        RealInbox(Source(1, str(root)))


@pytest.mark.parametrize("path", ["/etc/hostname", "{root}-other/pears.md", "{root}/../pears.md", "{root}"])
def test_nothing_outside_the_inbox_is_touched(inbox: RealInbox, root: Path, path: str) -> None:
    named = path.replace("{root}", str(root))
    for call in (inbox.is_open_for_writing, lambda path: inbox.remove(path, stat_of(root / "pears.md"), HASH)):
        with pytest.raises(ValueError, match="does not lie in the inbox"):
            call(named)


def test_the_very_file_goes(inbox: RealInbox, root: Path) -> None:
    inbox.remove(str(root / "pears.md"), stat_of(root / "pears.md"), HASH)
    assert list(root.iterdir()) == []


def _append(path: Path) -> None:
    path.write_bytes(CONTENT + b" keeps")


def _replace(path: Path) -> None:
    (path.parent / "new").write_bytes(CONTENT)
    os.replace(path.parent / "new", path)


def _rewrite_with_the_old_time(path: Path) -> None:
    before = path.stat()
    path.write_bytes(CONTENT.upper())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", [_append, _replace, _rewrite_with_the_old_time])
def test_any_other_version_stays(inbox: RealInbox, root: Path, change: object) -> None:
    path = root / "pears.md"
    stat = stat_of(path)
    change(path)  # type: ignore[operator]  # one of the three above
    with pytest.raises(FileChanged):
        inbox.remove(str(path), stat, HASH)
    assert path.exists()


def test_other_bytes_with_the_same_stat_stay(inbox: RealInbox, root: Path) -> None:
    path = root / "pears.md"
    with pytest.raises(FileChanged):
        inbox.remove(str(path), stat_of(path), hashlib.sha256(b"other").hexdigest())
    assert path.read_bytes() == CONTENT


def test_a_file_that_is_gone_is_gone(inbox: RealInbox, root: Path) -> None:
    stat = stat_of(root / "pears.md")
    (root / "pears.md").unlink()
    with pytest.raises(FileGone):
        inbox.remove(str(root / "pears.md"), stat, HASH)


def test_a_link_in_its_place_or_on_the_way_lets_nothing_go(inbox: RealInbox, root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    target = tmp_path / "outside" / "pears.md"
    target.write_bytes(CONTENT)
    (root / "link.md").symlink_to(target)
    (root / "folder").symlink_to(tmp_path / "outside")
    for path in (root / "link.md", root / "folder" / "pears.md"):
        with pytest.raises(Exception, match=r"link|not there"):
            inbox.remove(str(path), stat_of(target), HASH)
    assert target.read_bytes() == CONTENT


def _leases_here(folder: Path) -> bool:
    with (folder / "pears.md").open("ab"):
        return RealInbox(Source(1, str(folder), "inbox")).is_open_for_writing(str(folder / "pears.md")) is not None


def test_who_has_a_file_open_for_writing_is_noticed_and_it_stays(inbox: RealInbox, root: Path) -> None:
    """F01: also where the writer pauses for as long as he likes."""
    if not _leases_here(root):
        pytest.skip("this disk does not tell who writes to a file")
    path = root / "pears.md"
    with path.open("ab"):
        assert inbox.is_open_for_writing(str(path))
        with pytest.raises(FileChanged):
            inbox.remove(str(path), stat_of(path), HASH)
    with path.open("rb"):  # who reads is in nobody's way
        assert inbox.is_open_for_writing(str(path)) is False
        inbox.remove(str(path), stat_of(path), HASH)


@pytest.fixture
def late_writer(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Thread, list[int]]]:
    """Have a program open the file for writing while it is compared. Yields its thread and what it wrote."""
    written: list[int] = []
    known = inbox_module._is_version

    def write() -> None:
        with (root / "pears.md").open("ab") as file:
            written.append(file.write(b" and more"))

    writer = threading.Thread(target=write)

    def compared(descriptor: int, stat: Stat, content_hash: str) -> bool:
        same = known(descriptor, stat, content_hash)
        writer.start()
        while open_waits(descriptor) is False:
            pass
        return same

    monkeypatch.setattr(inbox_module, "_is_version", compared)
    yield writer, written
    writer.join()


def open_waits(descriptor: int) -> bool:
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_GETLEASE) != fcntl.F_RDLCK


def test_who_begins_to_write_at_the_last_moment_loses_nothing(
    inbox: RealInbox, root: Path, request: pytest.FixtureRequest
) -> None:
    if not _leases_here(root):
        pytest.skip("this disk does not tell who writes to a file")
    writer, written = request.getfixturevalue("late_writer")
    with pytest.raises(FileChanged):
        inbox.remove(str(root / "pears.md"), stat_of(root / "pears.md"), HASH)
    writer.join()
    assert written == [9]
    assert (root / "pears.md").read_bytes() == CONTENT + b" and more"


def test_a_refused_removal_says_what_to_do(inbox: RealInbox, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(FailFile, match=r"taken in and is searchable, but may not be removed.*Remove it yourself"):
        inbox.remove(str(root / "pears.md"), stat_of(root / "pears.md"), HASH)


@pytest.mark.parametrize(
    ("is_open", "quiet_s", "wait_s"),
    [
        (False, 0.0, 0.0),
        (True, 0.0, 1.0),
        (True, 10.0, 10.0),
        (True, 9999.0, 60.0),
        (True, -9999.0, 1.0),
        (None, 0.0, UNTOLD_QUIET_S),
        (None, 10.0, UNTOLD_QUIET_S - 10.0),
        (None, UNTOLD_QUIET_S, 0.0),
        (None, -9999.0, 0.0),
    ],
)
def test_how_long_a_file_waits_for_whoever_writes_it(is_open: bool | None, quiet_s: float, wait_s: float) -> None:
    assert writing_wait(is_open, quiet_s) == wait_s
