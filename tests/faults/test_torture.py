"""T8: whatever forty jobs do to the children that run them, each costs itself alone, and nothing is left of any."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from kbsync.clock import SystemClock
from kbsync.errors import FailFile, RetryLater
from kbsync.pipelines.isolation import Cage, CageLimits
from kbsync.pipelines.isolation_plan import Slots
from kbsync.reasons import Reason
from tests.fakes import faulty_work
from tests.fakes.faulty_work import Order
from tests.faults.nursery import lives

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform != "linux", reason="looks at the children through /proc"),
]

SEED, JOBS, SLOTS = 8, 40, 2
MEGABYTE = 1 << 20
LIMITS = CageLimits(
    memory_bytes=600 * MEGABYTE, recycle_bytes=200 * MEGABYTE, answer_bytes=64 * MEGABYTE, idle_s=300, start_s=60
)
# A job may take so long; one that hangs does not wait for it. To end a child and begin another takes the grace.
LONG_S, DEADLINE_S, GRACE_S, REST_S = 30.0, 1.0, 4.0, 60.0
# What a deed must come to; the good ones, and those that only talk or leak, are done.
FAULTS: dict[str, object] = {
    "raise": (FailFile, Reason.CORRUPT),
    "raise_ours": (FailFile, Reason.PASSWORD_REQUIRED),
    "recurse": (FailFile, Reason.TOO_COMPLEX),
    "unpicklable": (FailFile, Reason.CORRUPT),
    "hang": (FailFile, Reason.TIMEOUT),
    "segfault": (RetryLater, Reason.CRASHED),
    "kill": (RetryLater, Reason.CRASHED),
    "exit": (RetryLater, Reason.CRASHED),
    "exit_7": (RetryLater, Reason.CRASHED),
    "close_all": (RetryLater, Reason.CRASHED),
    "large": (FailFile, Reason.TOO_COMPLEX),
    "grow": (FailFile, Reason.MEMORY),
    "burst": (FailFile, Reason.MEMORY),
}
HARMLESS = ("junk", "fat")


def orders_of(seed: int) -> list[Order]:
    """Return the jobs: every fault at least once, the rest good, in an order that the seed draws."""
    deeds = [*FAULTS, *HARMLESS]
    deeds += ["good"] * (JOBS - len(deeds))
    random.Random(seed).shuffle(deeds)
    return [Order(f"{deed}-{number}.pdf", deed, number) for number, deed in enumerate(deeds)]


def outcome(cage: Cage[Order, object], order: Order) -> object:
    """Run it; a failure is returned as its class and reason."""
    try:
        return cage.run(order, DEADLINE_S if order.deed == "hang" else LONG_S)
    except (FailFile, RetryLater) as error:
        named = error
    assert order.name in str(named), "the sentence names the file"
    return type(named), named.reason


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_of_forty_jobs_the_good_ones_are_done_and_the_faulty_ones_fail_with_their_reason(
    tmp_path: Path, told: Callable[[str], None], tally: Callable[..., None]
) -> None:
    """P05, P06 and P07: a child that crashes, hangs in C or eats memory costs its job and no other."""
    cage = Cage(faulty_work.work, Slots(1, 1), str(tmp_path), SystemClock(), limits=LIMITS)
    try:  # what the first cage of a process opens for good: the resource tracker
        cage.run(Order("a.pdf"), LONG_S)
    finally:
        cage.close()
    before, others = descriptors(), set(multiprocessing.active_children())
    orders, seen = orders_of(SEED), set[int]()
    began = time.monotonic()
    cage = Cage(faulty_work.work, Slots(SLOTS, 1), str(tmp_path), SystemClock(), limits=LIMITS)
    try:
        with ThreadPoolExecutor(SLOTS) as threads:
            outcomes = list(threads.map(lambda order: outcome(cage, order), orders))
        seconds = time.monotonic() - began
        children = [psutil.Process(status.pid) for status in cage.status() if status.pid]
    finally:
        cage.close()
    for order, came in zip(orders, outcomes, strict=True):
        if order.deed in FAULTS:
            assert came == FAULTS[order.deed], order
        else:
            assert isinstance(came, tuple)
            assert came[0] == order.number, order
            seen.add(int(came[1]))
    ended = Counter("done" if order.deed not in FAULTS else "failed" for order in orders)
    told(f"T8 seed {SEED}: {JOBS} jobs, {dict(ended)}, {len(seen)} children seen at good jobs, {seconds:.1f} s")
    tally(faults_in_children=len(FAULTS))
    assert ended == {"done": JOBS - len(FAULTS), "failed": len(FAULTS)}
    assert seconds <= len(FAULTS) * (DEADLINE_S + GRACE_S) / SLOTS + REST_S
    assert not set(multiprocessing.active_children()) - others
    assert not any(lives(child) for child in children)
    assert descriptors() == before
    assert not list(tmp_path.iterdir()), "no answer stays on the disk"
