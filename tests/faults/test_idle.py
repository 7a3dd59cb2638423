"""Idle is idle, and work is bounded: nothing wakes for nothing, nothing grows with the number of jobs."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import psutil
import pytest

from kbsync.store.connection import Connection
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World
from tests.faults.full_disk import Life
from tests.faults.nursery import Nursery

FILES, VERSIONS = 500, 4
# A third of this is what it takes; a busy machine accounts more.
MOST_CPU_SHARE, MOST_WAKES_PER_S = 0.02, 12.0
IDLE_S = 8.0


def changes(engine: SimulatedEngine) -> int:
    def total(connection: Connection) -> int:
        return connection.total_changes()

    return engine.engine.writer.run_alone(total)


def test_a_simulated_hour_without_a_change_has_no_job_and_no_write(tmp_path: Path) -> None:
    """I16: walks every five minutes included, and the first of them after all was indexed."""
    world = World.new(tmp_path / "home")
    world.configure(NOTES)
    world.fs.make_directory(NOTES)
    for number in range(30):
        world.fs.write(f"{NOTES}/{number}.md", b"the quince ripens late %d" % number)
    engine = SimulatedEngine(world)
    try:
        engine.settle()
        engine.rescan()
        watching = apsw.Connection(world.locations.database, flags=apsw.SQLITE_OPEN_READONLY)
        version, written = watching.pragma("data_version"), changes(engine)
        jobs = engine.read("SELECT count(*), max(id) FROM jobs")
        embedded = len(engine.embedded())
        for second in range(0, 3600 - 360, 10):
            if second % 300 == 0:
                engine.daemon.rescan()
            engine.clock.advance(10.0)
            engine.turn()
            engine.daemon._look_after()
        assert engine.read("SELECT count(*), max(id) FROM jobs") == jobs
        assert (watching.pragma("data_version"), changes(engine)) == (version, written)
        assert len(engine.embedded()) == embedded
        watching.close()
    finally:
        engine.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's account of threads is Linux'")
def test_an_idle_daemon_writes_nothing_and_hardly_wakes(tmp_path: Path, told: Callable[[str], None]) -> None:
    """I16: the whole program, with its watchers, its HTTP server and its timetable."""
    notes = tmp_path / "notes"
    notes.mkdir()
    for number in range(50):
        (notes / f"{number}.md").write_text(f"the quince ripens late {number}\n")
    (tmp_path / "config.toml").write_text(f'[[sources]]\npath = "{notes}"\n')
    with Nursery() as nursery:
        client = nursery.begin_serving(tmp_path)
        ticket = client.post("local/rescan")["ticket"]
        while not client.get("local/settled", ticket=ticket)["settled"]:
            time.sleep(0.1)
        watching = apsw.Connection(nursery.places.database, flags=apsw.SQLITE_OPEN_READONLY)
        process = psutil.Process(nursery.pid)
        time.sleep(1.0)  # connections that are kept alive end
        before = (watching.pragma("data_version"), _log_of(nursery.places.database), _jobs(watching))
        cpu, wakes = sum(process.cpu_times()[:2]), _wakes(nursery.pid)
        time.sleep(IDLE_S)
        cpu, wakes = sum(process.cpu_times()[:2]) - cpu, _wakes(nursery.pid) - wakes
        after = (watching.pragma("data_version"), _log_of(nursery.places.database), _jobs(watching))
        watching.close()
        nursery.signal(signal.SIGTERM)
        assert nursery.ended() == 0
    told(f"idle: {IDLE_S:g} s, {100 * cpu / IDLE_S:.2f} % of a core, {wakes / IDLE_S:.1f} wake-ups a second, 0 writes")
    assert after == before
    assert wakes / IDLE_S <= MOST_WAKES_PER_S
    assert cpu / IDLE_S <= MOST_CPU_SHARE


def test_thousands_of_jobs_leave_threads_descriptors_and_queue_as_they_were(
    tmp_path: Path, memory_disk: Path | None, told: Callable[[str], None]
) -> None:
    """I14: 500 files in four versions each, through the whole engine on a real disk."""
    base = (memory_disk or tmp_path) / "bounded"
    notes = base / "notes"
    for folder in (notes, base / "inbox"):
        folder.mkdir(parents=True)
    _write_all(notes, 0)
    life = Life(base / "home", base)
    try:
        life.settle()
        descriptors, threads = _open_descriptors(), threading.active_count()
        longest = 0
        for version in range(1, VERSIONS):
            _write_all(notes, version)
            ticket = life.daemon.rescan()

            def settled(ticket: int = ticket) -> bool:
                nonlocal longest
                live = life.read(
                    "SELECT count(*), count(DISTINCT path) FROM jobs WHERE state IN ('queued', 'processing')"
                )
                assert live[0][0] == live[0][1], "one job a path"
                longest = max(longest, live[0][0])
                return life.daemon.settled(ticket)

            life.until(settled, 100.0)
        jobs = life.read("SELECT count(*) FROM jobs WHERE state = 'done'")[0][0]
        told(f"bounded: {jobs} jobs, at most {longest} at once, {_open_descriptors() - descriptors} descriptors more")
        assert jobs >= FILES * VERSIONS
        assert longest <= FILES
        assert threading.active_count() <= threads
        # A connection, of two descriptors, for each thread that came to read at the same time; none for a job.
        assert _open_descriptors() <= descriptors + 2 * threads < descriptors + jobs / 10
        assert os.listdir(base / "home" / "data" / "staging") == []
    finally:
        life.stop()


def _write_all(notes: Path, version: int) -> None:
    for number in range(FILES):
        (notes / f"{number}.md").write_text(f"# Number {number}\n\nThe quince of version {version} ripens late.\n")


def _open_descriptors() -> int:
    return psutil.Process().num_fds()


def _log_of(database: str) -> tuple[float, int]:
    there = os.stat(f"{database}-wal")
    return there.st_mtime, there.st_size


def _jobs(connection: apsw.Connection) -> object:
    return connection.execute("SELECT count(*), max(id) FROM jobs").fetchall()


def _wakes(pid: int) -> int:
    """Return how often the threads of a process went to sleep by themselves, and so were woken."""
    told = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        lines = (thread / "status").read_text().splitlines()
        told += sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))
    return told
