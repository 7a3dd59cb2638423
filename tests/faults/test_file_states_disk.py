"""Group F of the fault list: disks that are full or fail, files in the cloud, folders without end.

Each test begins with the ids of the rows it shows.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kbsync.errors import RetryLater, SkipFile
from kbsync.filesystem import Stat
from kbsync.model import IngestOptions
from kbsync.reasons import FileState, Reason
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World

A = f"{NOTES}/a.md"


def test_f29_a_full_disk_pauses_the_work_which_goes_on_by_itself(engine: SimulatedEngine) -> None:
    """F29: SQLite itself says that there is no room."""
    engine.write(A, "# A\n\nthe larch")
    engine.settle()

    def limit(pages: int) -> None:
        connection = engine.engine.writer._connection
        assert connection is not None
        used = int(connection.execute("PRAGMA page_count").get)
        connection.execute(f"PRAGMA max_page_count = {used + pages}")

    limit(0)
    for number in range(30):
        engine.fs.write(f"{NOTES}/{number}.md", b"# Page\n\n" + b"the alder %d " % number * 300)
    engine.clock.advance(60)
    engine.daemon.rescan()
    full = 0
    for _ in range(40):
        for step in (engine.loops.producer.step, engine.loops.rescans.step, *(w.step for w in engine.loops.workers)):
            try:
                step()
            except RetryLater as error:
                full += error.reason is Reason.NO_SPACE
        engine.clock.advance(5)
    assert full, "it was full"
    assert engine.found("larch") == [A]
    limit(10_000_000)
    engine.rescan()
    assert len(engine.documents("current")) == 31
    assert engine.kb.check() == []


def test_f31_an_error_of_the_disk_in_the_middle_of_a_file_keeps_what_was_known(engine: SimulatedEngine) -> None:
    """F31: nothing of the half that could be read is indexed."""
    path = f"{NOTES}/a.pdf"
    for name in (A, path):
        engine.write(name, f"%PDF-1.4\n\nthe larch {name}")
    engine.settle()
    for name in (A, path):
        engine.fs.write(name, b"%PDF-1.4\n\nthe alder and more")
        engine.fs.break_at(name, 16)
        engine.report(name, closed=True)
    engine.settle()
    for name in (A, path):
        assert engine.state(name) == (FileState.FAILED, "io")
    assert sorted(map(str, engine.found("larch"))) == [A, path]
    assert engine.found("alder") == []
    for name in (A, path):
        engine.fs.break_at(name, None)
        engine.write(name, f"%PDF-1.4\n\nthe hazel {name}")
    engine.settle()
    assert sorted(map(str, engine.found("hazel"))) == [A, path]


def test_f32_what_is_in_the_cloud_only_is_never_downloaded(engine: SimulatedEngine) -> None:
    """F32: macOS and Windows mark it in the stat; the disk in memory fails a test that reads it."""
    cloud, folder = f"{NOTES}/cloud.md", f"{NOTES}/albums"
    engine.fs.write(A, b"# A\n\nthe larch")
    engine.fs.write(cloud, b"# Cloud\n\nthe alder")
    engine.fs.write(f"{folder}/b.md", b"# B\n\nthe hazel")
    engine.fs.evict(cloud)
    engine.fs.evict(folder)
    engine.rescan()
    assert engine.state(cloud) == (FileState.SKIPPED, "cloud_only")
    assert engine.state(folder) == (FileState.SKIPPED, "cloud_only")
    with pytest.raises(SkipFile) as refused:
        engine.add(cloud, IngestOptions(type="text"))
    assert refused.value.reason is Reason.CLOUD_ONLY
    for path in (cloud, folder):
        engine.fs.fetch(path)
    engine.rescan()
    assert sorted(map(str, [*engine.found("alder"), *engine.found("hazel")])) == [f"{folder}/b.md", cloud]


def test_f32_what_leaves_for_the_cloud_between_look_and_reading_is_left_there(engine: SimulatedEngine) -> None:
    """F32: the job opens it and reads nothing."""
    engine.write(A, "# A\n\nthe larch")
    for _ in range(8):
        engine.clock.advance(0.25)
        engine.loops.producer.step()
    assert engine.kb.unsettled() == 1
    known = engine.fs.lstat

    engine.fs.evict(A)
    marked = known(A)

    def lagging(path: str) -> Stat:
        found = known(path)
        return replace(found, cloud_only=False) if path == A else found

    engine.fs.lstat = lagging  # type: ignore[method-assign]  # the look was a moment before
    assert marked.cloud_only
    engine.settle()
    assert engine.state(A) == (FileState.SKIPPED, "cloud_only")


def test_f33_f14_a_very_deep_tree_is_walked_without_recursion(world: World) -> None:
    """F33: 300 folders inside each other and more."""
    life = SimulatedEngine(world)
    deep = "/".join(["d"] * 400)
    life.fs.write(f"{NOTES}/{deep}/a.md", b"# Deep\n\nthe larch")
    life.rescan()
    assert life.found("larch") == [f"{NOTES}/{deep}/a.md"]
    life.close()
