"""Group F of the fault list on a real disk: locks, holes, pipes, links that are swapped, folders that are huge.

Each test begins with the ids of the rows it shows.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import psutil
import pytest

from kbsync.errors import FileChanged, KbsyncError, SkipFile
from kbsync.filesystem import Entry, RealFileSystem, Stat
from kbsync.ingest import TEXT_BYTES
from kbsync.model import Source
from kbsync.reasons import Reason
from kbsync.sources.reconcile import Enqueue, decide
from kbsync.sources.scanner import judge_path, scan
from kbsync.sources.snapshot import read_snapshot
from tests.fakes.hash_embedder import HashDevice
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_engine import SimulatedEngine, World
from tests.fakes.simulated_filesystem import SimulatedFileSystem

CANARY = b"canary91c4 of a file outside"
ROUNDS = 10_000
FS = RealFileSystem()


def reasons(root: Path) -> dict[str, Reason | None]:
    return {os.path.relpath(seen.path, root): seen.reason for seen in scan(FS, Source(1, str(root)))}


@contextmanager
def engine_on(folder: Path, home: Path) -> Iterator[SimulatedEngine]:
    """Yield the engine over a real folder, stepped by hand; every file is old for its clock."""
    world = World(home, ManualClock(), cast("SimulatedFileSystem", FS), HashDevice())
    world.clock.advance(max(0.0, os.stat(folder).st_ctime + 10_000 - world.clock.now()))
    world.configure(str(folder))
    engine = SimulatedEngine(world)
    try:
        yield engine
    finally:
        engine.close()


def _append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def _overwrite(path: Path) -> None:
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"OTHER")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replace(path: Path) -> None:
    beside = path.with_suffix(".new")
    beside.write_bytes(path.read_bytes())
    os.replace(beside, path)


def _truncate(path: Path) -> None:
    os.truncate(path, 3)


@pytest.mark.parametrize("change", [_append, _overwrite, _replace, _truncate])
def test_f01_f02_f20_whatever_changes_while_it_is_read_is_not_taken_for_one_version(
    tmp_path: Path, change: object
) -> None:
    """F01, F02, F20: grown, overwritten with its old time, replaced, cut off: between two blocks of the reading."""
    path = tmp_path / "a.md"
    path.write_bytes(b"x" * (3 << 20))
    blocks: list[int] = []

    def read(block: bytes) -> None:
        blocks.append(len(block))
        if len(blocks) == 1:
            change(path)  # type: ignore[operator]  # one of the four above

    with pytest.raises(FileChanged):
        read_snapshot(FS, str(path), 0, read)


def test_f06_a_lock_that_another_program_holds_is_in_nobodys_way(tmp_path: Path) -> None:
    """F06: flock and lockf only ask, and kbsync only reads."""
    path = tmp_path / "a.md"
    path.write_bytes(b"the larch")
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert read_snapshot(FS, str(path), 99).head == b"the larch"


def test_f07_a_large_text_is_hashed_whole_and_held_in_part(tmp_path: Path) -> None:
    """F07: memory is flat: the start that is read, and a block."""
    path = tmp_path / "a.log"
    with path.open("wb") as file:
        file.truncate(96 << 20)
    tracemalloc.start()
    try:
        snapshot = read_snapshot(FS, str(path), TEXT_BYTES)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (snapshot.size, len(snapshot.head)) == (96 << 20, TEXT_BYTES)
    assert most < 3 * TEXT_BYTES


@pytest.mark.parametrize("name", ["a.log", "a.md", "a.pdf", "a.csv"])
def test_f08_a_file_of_holes_is_not_read(tmp_path: Path, name: str) -> None:
    """F08: a terabyte in its stat, nothing on the disk."""
    with (tmp_path / name).open("wb") as file:
        file.truncate(1 << 40)
    assert reasons(tmp_path) == {name: Reason.TOO_LARGE}


def test_f09_what_is_no_file_is_counted_and_never_opened(tmp_path: Path) -> None:
    """F09: a pipe nobody writes to, a socket, devices."""
    os.mkfifo(tmp_path / "pipe.md")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket.md"))
    expected = ["pipe.md", "socket.md"]
    if os.geteuid() == 0:
        try:
            os.mknod(tmp_path / "zeros.md", 0o600 | 0o020000, os.makedev(1, 5))
            os.mknod(tmp_path / "disk.md", 0o600 | 0o060000, os.makedev(7, 0))
            expected += ["zeros.md", "disk.md"]
        except PermissionError:
            pass  # a container without the right to make devices
    (tmp_path / "a.md").write_text("the larch")
    assert reasons(tmp_path) == {"a.md": None, **dict.fromkeys(expected, Reason.SPECIAL)}
    for name in expected:
        with pytest.raises(KbsyncError):
            read_snapshot(FS, str(tmp_path / name), 9)


def test_f11_links_that_lead_nowhere_or_round_are_counted(tmp_path: Path) -> None:
    """F11: broken, to its own folder, to each other, a chain of 41."""
    (tmp_path / "broken.md").symlink_to(tmp_path / "nothing")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "a.md").symlink_to("b.md")
    (tmp_path / "b.md").symlink_to("a.md")
    (tmp_path / "chain0.md").write_text("the end of the chain")
    for number in range(1, 42):
        (tmp_path / f"chain{number}.md").symlink_to(f"chain{number - 1}.md")
    found = reasons(tmp_path)
    assert found.pop("chain0.md") is None
    assert set(found.values()) == {Reason.SYMLINK}
    assert len(found) == 45
    for path in (tmp_path / "chain41.md", tmp_path / "a.md"):
        with pytest.raises(SkipFile):
            read_snapshot(FS, str(path), 9)
    seen = judge_path(FS, Source(1, str(tmp_path)), frozenset(), str(tmp_path / "loop" / "loop" / "chain0.md"))
    assert seen is not None
    assert (seen.path, seen.reason) == (str(tmp_path / "loop"), Reason.SYMLINK)


# Puts one thing after the other in a file's and a folder's place, until it is ended.
_SWAPPER = """
import os, sys
root, outside = sys.argv[1:]
print("ready", flush=True)
number = 0
while True:
    number += 1
    os.symlink(outside + "/canary.md", root + "/link.tmp")
    os.rename(root + "/link.tmp", root + "/file.md")
    os.rename(root + "/folder", root + "/aside")
    os.symlink(outside, root + "/folder")
    os.mkfifo(root + "/pipe.tmp")
    os.rename(root + "/pipe.tmp", root + "/file.md")
    os.unlink(root + "/folder")
    os.rename(root + "/aside", root + "/folder")
    with open(root + "/file.tmp", "wb") as file:
        file.write(b"harmless")
    os.rename(root + "/file.tmp", root + "/file.md")
"""


@pytest.fixture
def swapped(tmp_path: Path) -> Iterator[Path]:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "folder").mkdir(parents=True)
    outside.mkdir()
    (outside / "canary.md").write_bytes(CANARY)
    (outside / "file.md").write_bytes(CANARY)
    (root / "folder" / "file.md").write_bytes(b"harmless")
    (root / "file.md").write_bytes(b"harmless")
    with subprocess.Popen(
        [sys.executable, "-c", _SWAPPER, str(root), str(outside)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as swapper:
        try:
            assert swapper.stdout is not None
            assert swapper.stdout.readline() == b"ready\n"
            yield root
            assert swapper.poll() is None, "it swapped to the end"
        finally:
            swapper.kill()


def test_f10_f12_a14_nothing_outside_is_read_while_links_and_pipes_are_swapped_in(swapped: Path) -> None:
    """F10, F12, A14: ten thousand looks at files and folders that change under the eyes; and none of them blocks."""
    source = Source(1, str(swapped))
    outcomes: dict[str, int] = {}
    for number in range(ROUNDS):
        path = str(swapped / ("file.md" if number % 2 else "folder/file.md"))
        try:
            head = read_snapshot(FS, path, 99).head
            assert head == b"harmless"
            outcome = "read"
        except KbsyncError as error:
            outcome = type(error).__name__
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        if number % 50 == 0:
            try:
                names = {entry.name for entry in FS.list_directory(str(swapped / "folder"))}
                assert "canary.md" not in names
            except OSError:
                pass  # at this moment it was a link, or away
            seen = [os.path.relpath(one.path, swapped) for one in scan(FS, source)]
            assert not [name for name in seen if "canary" in name]
    print(outcomes)
    assert outcomes["read"] > ROUNDS / 20
    assert outcomes.get("SkipFile", 0) + outcomes.get("FileGone", 0) > 0, "the swaps were met"


@pytest.mark.parametrize("what", ["overwritten", "mapped"])
def test_f19_f20_a_change_of_the_same_size_with_its_old_time_is_seen(tmp_path: Path, what: str) -> None:
    """F19, F20: by ctime, which nobody can set; also where the file was changed through memory."""
    import mmap

    path = tmp_path / "a.md"
    path.write_bytes(b"the larch")
    with engine_on(tmp_path, tmp_path / ".home") as engine:
        engine.rescan()
        before = path.stat()
        if what == "overwritten":
            path.write_bytes(b"the alder")
        else:
            with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
                memory[:] = b"the alder"
                memory.flush()
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        for mtime_ns in (before.st_mtime_ns, -(10**18), 7 * 10**18):
            os.utime(path, ns=(mtime_ns, mtime_ns))
            engine.rescan()
            assert engine.found("alder") == [str(path)]
        assert len(engine.embedded()) == 2


def test_f16_hard_links_on_a_real_disk(tmp_path: Path) -> None:
    """F16: two names, one document; the last name keeps it."""
    a, b = tmp_path / "a.md", tmp_path / "b.md"
    a.write_text("the larch")
    os.link(a, b)
    (tmp_path / "c.md").write_text("another file stays")
    with engine_on(tmp_path, tmp_path / ".home") as engine:
        engine.rescan()
        assert engine.read("SELECT count(*) FROM documents") == [(2,)]
        a.write_text("the alder")
        engine.rescan()
        assert [row[0] for row in engine.read("SELECT count(*) FROM origins WHERE live = 1")] == [3]
        a.unlink()
        engine.rescan()
        engine.rescan()
        assert engine.found("alder") == [str(b)]


def test_f24_rights_attributes_and_reading_convert_nothing(tmp_path: Path) -> None:
    """F24: chmod and an extended attribute move ctime; reading moves nothing that counts."""
    path = tmp_path / "a.md"
    path.write_text("the larch")
    with engine_on(tmp_path, tmp_path / ".home") as engine:
        engine.rescan()
        path.chmod(0o600)
        try:
            os.setxattr(path, "user.kbsync-test", b"1")
        except OSError:
            pass  # this disk keeps none
        os.utime(path, ns=(0, path.stat().st_mtime_ns))
        engine.rescan()
        assert len(engine.embedded()) == 1
        jobs = engine.read("SELECT count(*) FROM jobs")
        engine.rescan()
        assert engine.read("SELECT count(*) FROM jobs") == jobs


class Crowd(RealFileSystem):
    """A disk with one folder in which so many names are that making them would take a minute."""

    def __init__(self, count: int) -> None:
        self._count = count

    def list_directory(self, path: str) -> list[Entry]:
        return [Entry(f"{number}.md", Stat("file", 1, 0, 0, number, 1)) for number in range(self._count)]


def test_f33_two_hundred_thousand_names_in_one_folder(tmp_path: Path) -> None:
    """F33: every one is seen, in memory that holds one listing. On a real disk: 65 MB more while it is walked."""
    process, most, seen = psutil.Process(), 0, 0
    before = process.memory_info().rss
    walk = scan(Crowd(200_000), Source(1, str(tmp_path)))
    for one in walk:
        seen += one.reason is None
        if seen % 20_000 == 0:
            most = max(most, process.memory_info().rss)
    assert (seen, walk.complete) == (200_000, True)
    assert most - before < 250 << 20


def test_f33_ten_thousand_names_and_three_hundred_folders_inside_each_other(tmp_path: Path) -> None:
    """F33: on a real disk, without recursion."""
    for number in range(10_000):
        os.mknod(tmp_path / f"{number}.md")
    deep = tmp_path / "z"
    for _ in range(300):
        deep.mkdir()
        deep /= "d"
    walk = scan(FS, Source(1, str(tmp_path)))
    assert sum(one.reason is Reason.EMPTY for one in walk) == 10_000
    assert (walk.complete, walk.folders) == (True, 301)


def test_f34_kbsyncs_own_folder_inside_a_source_makes_no_work(tmp_path: Path) -> None:
    """F34: index, log and everything else of its own, whatever they are called; idle is idle."""
    (tmp_path / "a.md").write_text("the larch")
    with engine_on(tmp_path, tmp_path / "kbsync-home") as engine:
        engine.rescan()
        engine.rescan()
        paths = {os.fsdecode(path) for (path,) in engine.read("SELECT path FROM files WHERE state = 'indexed'")}
        assert paths == {str(tmp_path / "a.md")}
        before = engine.dump()
        for _ in range(5):
            engine.rescan()
        assert engine.dump() == before


def test_f12_a_link_in_a_files_place_between_look_and_reading_ends_as_a_link(tmp_path: Path) -> None:
    """F12: the verdict was about a file; what is opened is not followed."""
    (tmp_path / "outside").write_bytes(CANARY)
    path = tmp_path / "root" / "a.md"
    path.parent.mkdir()
    path.write_bytes(b"the larch")
    seen = judge_path(FS, Source(1, str(path.parent)), frozenset(), str(path))
    assert seen is not None
    assert isinstance(decide(seen, None, seen.stat.mtime + 10), Enqueue)
    path.unlink()
    path.symlink_to(tmp_path / "outside")
    with pytest.raises(SkipFile) as refused:
        read_snapshot(FS, str(path), 99)
    assert refused.value.reason is Reason.SYMLINK


def test_f02_the_converter_gets_the_bytes_that_were_hashed(tmp_path: Path) -> None:
    """F02: block by block what is hashed is what is copied, whatever comes of the file."""
    path = tmp_path / "a.pdf"
    path.write_bytes(os.urandom(3 << 20))
    copied = bytearray()
    snapshot = read_snapshot(FS, str(path), 0, copied.extend)
    assert hashlib.sha256(copied).hexdigest() == snapshot.content_hash
