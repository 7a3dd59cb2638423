"""The cage: whatever a document does to the child that reads it costs that job alone, and leaves nothing behind."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil
import pytest

from kbsync.clock import Clock, SystemClock
from kbsync.courtesy import Courtesy
from kbsync.errors import FailFile, KbsyncError, RetryLater
from kbsync.pipelines.isolation import Cage, CageLimits
from kbsync.pipelines.isolation_plan import Slots
from kbsync.reasons import Reason
from tests.fakes import faulty_work
from tests.fakes.faulty_work import Inside, Order
from tests.fakes.manual_clock import ManualClock

pytestmark = [
    pytest.mark.timeout(90),
    pytest.mark.skipif(sys.platform != "linux", reason="looks at the children through /proc"),
]

MEGABYTE = 1 << 20
GIGABYTE = 1 << 30
LIMITS = CageLimits(
    memory_bytes=600 * MEGABYTE, recycle_bytes=200 * MEGABYTE, answer_bytes=64 * MEGABYTE, idle_s=300, start_s=60
)
NICE = 3
# A child that does not answer within it hangs; a good job takes none of it.
LONG, SHORT = 30.0, 0.5


@contextmanager
def caged(
    folder: Path,
    count: int = 1,
    *,
    clock: Clock | None = None,
    prepare: Callable[[], None] | None = None,
    limits: CageLimits = LIMITS,
    room: Callable[[int], bool] = lambda _needed: True,
) -> Iterator[Cage[Order, object]]:
    cage = Cage(
        faulty_work.work,
        Slots(count, 1),
        str(folder),
        clock or SystemClock(),
        prepare=prepare,
        limits=limits,
        courtesy=lambda: Courtesy(NICE),
        room=room,
    )
    try:
        yield cage
    finally:
        cage.close()


@pytest.fixture
def children_left() -> Callable[[], list[BaseProcess]]:
    """Return what tells the children that this test started and that still live; other tests keep some of their own."""
    before = set(multiprocessing.active_children())
    return lambda: [child for child in multiprocessing.active_children() if child not in before]


def outcome(cage: Cage[Order, object], order: Order, limit: float = LONG) -> object:
    """Run it; a failure is returned as its class and reason."""
    try:
        return cage.run(order, limit)
    except (FailFile, RetryLater) as error:
        named = error
    assert order.name in str(named), "the sentence names the file"
    return type(named), named.reason


def pid_of(cage: Cage[Order, object], number: int = 0) -> int:
    pid = cage.status()[number].pid
    assert pid is not None
    return pid


def until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Look until it holds; False where it never did."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_an_error_of_the_work_arrives_whole(tmp_path: Path) -> None:
    with caged(tmp_path) as cage:
        with pytest.raises(FailFile) as ours:
            cage.run(Order("a.pdf", "raise_ours"), LONG)
        with pytest.raises(FailFile) as foreign:
            cage.run(Order("b.pdf", "raise"), LONG)
        with pytest.raises(RetryLater) as died:
            cage.run(Order("c.pdf", "segfault"), LONG)
        assert not list((tmp_path / "cage").iterdir()), "answers are gone as soon as they are read"
    assert (ours.value.message, ours.value.hint) == ("a.pdf is locked.", "Give the password.")
    assert str(foreign.value) == "b.pdf: it could not be read (ValueError)."  # its words may be the document's
    assert "faulty_work.py" in "".join(foreign.value.__notes__), "where it came from is not lost"
    assert str(died.value) == "c.pdf: the process that read it was ended by SIGSEGV."


def test_a_failure_leaves_the_child_warm_and_a_large_one_is_replaced(tmp_path: Path) -> None:
    """P07: what leaks a little with each job is let go before it hurts."""
    with caged(tmp_path) as cage:
        cage.run(Order("a.pdf"), LONG)
        first = pid_of(cage)
        for deed in ("raise", "unpicklable", "large"):
            outcome(cage, Order(f"{deed}.pdf", deed))
        cage.run(Order("c.pdf"), LONG)
        assert pid_of(cage) == first
        cage.run(Order("d.pdf", "fat"), LONG)
        assert not lives(first), "it held more memory than a warm child may"
        assert cage.status()[0].state == "none"
        assert cage.status()[0].peak_bytes > 200 * MEGABYTE
        cage.run(Order("e.pdf"), LONG)
        assert pid_of(cage) != first


def test_an_idle_child_killed_from_outside_costs_no_job(tmp_path: Path) -> None:
    """P05: it is begun anew, and no attempt counts."""
    with caged(tmp_path) as cage:
        for pool_knows in (False, True):
            cage.run(Order("a.pdf"), LONG)
            (slot,) = cage._slots
            os.kill(pid_of(cage), signal.SIGKILL)
            assert not pool_knows or until(lambda slot=slot: not slot.usable)  # type: ignore[misc]
            assert cage.run(Order("b.pdf", number=2), LONG) == (2, pid_of(cage))


def test_a_child_outlives_the_thread_that_ran_its_first_job(tmp_path: Path) -> None:
    with caged(tmp_path) as cage:
        thread = threading.Thread(target=cage.run, args=(Order("a.pdf"), LONG))
        thread.start()
        thread.join()
        first = pid_of(cage)
        # What the kernel sends at the end of a thread is sent when the thread is no longer listed.
        assert until(lambda: not os.path.exists(f"/proc/self/task/{thread.native_id}"))
        assert cage.run(Order("b.pdf", number=1), LONG) == (1, first)


def test_an_idle_child_is_let_go_after_its_time_and_not_before(tmp_path: Path) -> None:
    clock = ManualClock()
    with caged(tmp_path, clock=clock) as cage:
        cage.run(Order("a.pdf"), LONG)
        pid = pid_of(cage)
        clock.advance(299)
        cage.step()
        assert lives(pid)
        clock.advance(1)
        cage.step()
        assert not lives(pid)
        assert cage.run(Order("b.pdf", number=5), LONG) == (5, pid_of(cage))


def test_a_child_has_no_descriptor_secret_or_network_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A16: neither what is open, nor what is secret, nor where and how its parent was started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_TOKEN", "hf_1")
    monkeypatch.setenv("DATABASE_URL", "postgres://user:word@host")
    monkeypatch.setenv("KBSYNC_HTTP__PORT", "1")
    monkeypatch.setenv("LC_TIME", "C")
    inotify = ctypes.CDLL(None).inotify_init()  # without close-on-exec, as some libraries open it
    with open(tmp_path / "kb.sqlite3", "w") as database, socket.socket() as listener:
        for descriptor in (database.fileno(), listener.fileno()):
            os.set_inheritable(descriptor, True)
        with caged(tmp_path) as cage:
            inside = cage.run(Order("a.pdf", "look"), LONG)
    os.close(inotify)
    assert isinstance(inside, Inside)
    assert [inside.descriptors[standard] for standard in (0, 1, 2)] == [os.devnull] * 3
    kinds = {target.partition(":")[0] for target in inside.descriptors.values()}
    assert kinds == {os.devnull, "pipe"}, "the pool's own pipes"
    assert not {"HF_TOKEN", "DATABASE_URL", "KBSYNC_HTTP__PORT"} & set(inside.environment)
    assert inside.environment["LC_TIME"] == "C"
    assert inside.environment["HF_HUB_OFFLINE"] == inside.environment["ORT_DISABLE_TELEMETRY"] == "1"
    assert inside.environment["OMP_NUM_THREADS"] == "1"
    assert inside.refused == ("connect", "resolve", "send")
    assert inside.nice == max(NICE, os.nice(0)), "so far back at least, and nothing is added up"
    assert (inside.folder, inside.umask) == (os.sep, 0o077)


def test_where_memory_runs_out_the_kernel_ends_a_child_first(tmp_path: Path) -> None:
    """P07: before the daemon, and before the user's programs."""
    with caged(tmp_path) as cage:
        inside = cage.run(Order("a.pdf", "look"), LONG)
    assert isinstance(inside, Inside)
    assert inside.oom_score_adj == 1000


def test_each_child_sees_its_own_gpu(tmp_path: Path) -> None:
    cage = Cage(faulty_work.work, Slots(2, 3, ("4", "7")), str(tmp_path), SystemClock(), limits=LIMITS)
    try:
        with ThreadPoolExecutor(2) as threads:
            both = list(threads.map(lambda name: cage.run(Order(name, "look"), LONG), ("a.pdf", "b.pdf")))
        seen = [inside.environment["CUDA_VISIBLE_DEVICES"] for inside in both if isinstance(inside, Inside)]
        assert set(seen) <= {"4", "7"}
        assert len(seen) == 2
        assert isinstance(both[0], Inside)
        assert both[0].environment["OMP_NUM_THREADS"] == "3"
    finally:
        cage.close()


def test_the_time_limit_begins_when_the_child_is_ready_and_the_sentence_names_it(
    tmp_path: Path, children_left: Callable[[], list[BaseProcess]]
) -> None:
    """P06: also for a child that hears no SIGTERM and holds the GIL."""
    with caged(tmp_path, prepare=faulty_work.starts_slowly) as cage:
        assert cage.run(Order("a.pdf", number=3), 0.3) == (3, pid_of(cage)), "preparing does not count"
        began = time.monotonic()
        with pytest.raises(FailFile) as late:
            cage.run(Order("b.pdf", "hang"), 0.3)
        assert time.monotonic() - began < LONG, "far less than it may take to start"
        assert not children_left(), "what hangs does not wait for the next job in its slot"
    assert str(late.value) == "b.pdf: reading it took longer than 0.3 seconds."


def test_a_job_that_learns_how_much_there_is_to_do_sets_its_time_limit_itself(tmp_path: Path) -> None:
    with caged(tmp_path) as cage:
        with pytest.raises(FailFile) as late:
            cage.run(Order("a.pdf", "allow_and_hang", number=5), LONG)
        assert cage.run(Order("b.pdf", "allow_and_rest", number=8), 0.4) == (8, pid_of(cage))
        assert os.listdir(tmp_path / "cage") == []
    assert late.value.reason is Reason.TIMEOUT
    assert str(late.value) == "a.pdf: reading it took longer than 0.5 seconds."


@pytest.mark.parametrize("is_room", [True, False])
def test_a_second_child_starts_only_where_memory_is_free_for_it_and_the_first_one_grown_up(
    tmp_path: Path, is_room: bool
) -> None:
    asked: list[int] = []

    def room(needed: int) -> bool:
        asked.append(needed)
        return is_room

    with caged(tmp_path, 2, room=room) as cage, ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda number: cage.run(Order("a.pdf", "allow_and_rest", number), LONG), (5, 5)))
        used = [status.pid for status in cage.status() if status.pid is not None]
    assert len(used) == (2 if is_room else 1), "one may always run"
    assert LIMITS.recycle_bytes < asked[0] <= 2 * LIMITS.recycle_bytes


def test_a_memory_hog_is_ended_near_the_limit_and_the_sentence_names_it(
    tmp_path: Path, children_left: Callable[[], list[BaseProcess]]
) -> None:
    """P07: by its resident memory, which the parent watches."""
    with caged(tmp_path) as cage:
        with pytest.raises(FailFile) as hog:
            cage.run(Order("a.pdf", "grow"), LONG)
        assert cage.status()[0].peak_bytes < 1_200 * MEGABYTE
        assert not children_left()
    assert hog.value.reason is Reason.MEMORY
    assert str(hog.value) == "a.pdf: reading it took more than 0.59 GB of memory."


@pytest.mark.alone
def test_close_ends_busy_children_within_a_second_and_gives_their_jobs_back(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as threads, caged(tmp_path, 2) as cage:
        running = [threads.submit(cage.run, Order(f"{deed}.pdf", deed), LONG) for deed in ("hang", "slow")]
        assert until(lambda: all(status.pid for status in cage.status()))
        children = [pid_of(cage, number) for number in range(2)]
        assert {status.file for status in cage.status()} == {"hang.pdf", "slow.pdf"}
        began = time.monotonic()
        cage.close()
        took = time.monotonic() - began
        for job in running:
            assert isinstance(job.exception(5), RetryLater)
        cage.close()
        with pytest.raises(RetryLater):
            cage.run(Order("c.pdf"), LONG)
    assert took < 1.1
    assert not any(lives(pid) for pid in children)


def test_close_while_children_start_leaves_none(tmp_path: Path, children_left: Callable[[], list[BaseProcess]]) -> None:
    with ThreadPoolExecutor(2) as threads, caged(tmp_path, 2) as cage:
        running = [threads.submit(cage.run, Order(f"{number}.pdf"), LONG) for number in range(2)]
        assert until(lambda: any(status.state == "busy" for status in cage.status()))
        cage.close()
        for job in running:
            error = job.exception(5)
            assert error is None or isinstance(error, RetryLater)
    assert not children_left()


@pytest.mark.parametrize(
    ("prepare", "sentence"),
    [
        (
            faulty_work.not_ready,
            "a.pdf: what reads such files does not start: libGL.so.1: cannot open shared object file (ImportError).",
        ),
        (faulty_work.not_ready_ours, "cv2 is broken. Install it again."),
    ],
)
def test_a_child_that_cannot_prepare_tells_why_from_the_first_job(
    tmp_path: Path, prepare: Callable[[], None], sentence: str
) -> None:
    clock = ManualClock()
    with caged(tmp_path, clock=clock, prepare=prepare) as cage:
        with pytest.raises(KbsyncError) as told:
            cage.run(Order("a.pdf"), LONG)
        first = pid_of(cage)
        with pytest.raises(FailFile) as again:
            cage.run(Order("a.pdf"), LONG)
        assert pid_of(cage) == first, "those that come at once do not each wait for a new start"
        clock.advance(61)
        with pytest.raises(FailFile):
            cage.run(Order("a.pdf"), LONG)
        assert pid_of(cage) != first, "what was mended meanwhile is noticed"
    assert isinstance(told.value, FailFile)
    assert told.value.reason is again.value.reason is Reason.MODEL
    assert str(told.value) == sentence


def test_children_that_die_at_their_start_end_the_job_and_not_the_cage(tmp_path: Path) -> None:
    with caged(tmp_path, prepare=faulty_work.dies_at_start) as cage:
        assert outcome(cage, Order("a.pdf")) == (RetryLater, Reason.MODEL)


@pytest.mark.alone
def test_a_parent_killed_leaves_no_child_after_two_seconds(tmp_path: Path) -> None:
    """P09: also one that is in native code and holds the GIL."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=here()
    )
    assert parent.stdout is not None
    with parent.stdout:
        children = [int(pid) for pid in parent.stdout.readline().split()]
        others = [child.pid for child in psutil.Process(parent.pid).children(recursive=True)]
        assert len(children) == 2
        assert set(children) <= set(others)
        parent.kill()
        parent.wait()
        assert until(lambda: not any(lives(pid) for pid in others), 2)


# One child hangs in native code with the GIL, the other one is idle.
PARENT = """
import sys, threading, time
from kbsync.clock import SystemClock
from kbsync.pipelines.isolation import Cage
from kbsync.pipelines.isolation_plan import Slots
from tests.fakes.faulty_work import Order, work
cage = Cage(work, Slots(2, 1), sys.argv[1], SystemClock())
threading.Thread(target=cage.run, args=(Order("hang.pdf", "hang"), 60)).start()
while not cage.status()[0].pid:
    time.sleep(0.02)
cage.run(Order("idle.pdf"), 60)
print(*(status.pid for status in cage.status()), flush=True)
time.sleep(60)
"""


def here() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
