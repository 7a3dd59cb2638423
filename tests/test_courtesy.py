"""How a process yields: in a process of its own, since nobody comes forward again."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from kbsync.courtesy import Conduct, Courtesy

_LOOK = """
import json, os, sys, threading
import psutil
from kbsync.courtesy import Courtesy, yield_to_others
threads = [threading.Thread(target=threading.Event().wait, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
refused = [yield_to_others(Courtesy(nice, io)) for nice, io in json.loads(sys.argv[1])]
ids = [os.getpid(), *(thread.native_id for thread in threads)]
nice = [os.getpriority(os.PRIO_PROCESS, one) for one in ids]
io = [list(map(int, psutil.Process(one).ionice())) for one in ids] if sys.platform == "linux" else []
print(json.dumps([refused, nice, io]))
"""


def yielded(*courtesies: tuple[int, str]) -> tuple[list[list[str]], list[int], list[list[int]]]:
    """Return (what was refused each time, nice of all threads, their I/O class and place)."""
    done = subprocess.run(
        [sys.executable, "-c", _LOOK, json.dumps(courtesies)], capture_output=True, check=True, timeout=60
    )
    refused, nice, io = json.loads(done.stdout)
    return refused, nice, io


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads have no priorities of their own")
def test_all_threads_yield_and_nothing_is_added_up() -> None:
    """S06: reading in the background leaves the disk to others."""
    before = os.nice(0)
    refused, nice, io = yielded((before, "low"), (before + 1, "low"), (before + 1, "low"))
    assert refused == [[], [], []]
    assert nice == [before + 1] * 3
    best_effort = 2
    assert io in ([[best_effort, 7]] * 3, [[best_effort, 7], [0, 0], [0, 0]])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there are no I/O classes")
def test_who_yields_more_already_stays_so_and_nobody_comes_forward() -> None:
    before = os.nice(0)
    refused, nice, io = yielded((before + 2, "idle"), (before, "low"))
    assert (refused, nice) == ([[], []], [before + 2] * 3)
    assert io[0][0] == 3


def test_what_the_system_refuses_is_told_and_never_a_failure() -> None:
    seen: list[Courtesy] = []

    def refuse(courtesy: Courtesy) -> list[str]:
        seen.append(courtesy)
        return ["It is not allowed."]

    of_children: list[Courtesy] = []
    conduct = Conduct(Courtesy(3), refuse, lambda courtesy: of_children.append(courtesy) or [])  # type: ignore[func-returns-value]
    assert (conduct.children(), conduct.refused) == (Courtesy(3), [])
    conduct.follow(Courtesy(5, "low"), Courtesy(10, "low", 2))
    assert (seen, conduct.refused) == ([Courtesy(5, "low")], ["It is not allowed."])
    assert conduct.children() == Courtesy(10, "low", 2)
    assert of_children == [Courtesy(10, "low", 2)]


_CHILD = """
import os, sys, threading
thread = threading.Thread(target=sys.stdin.read)
thread.start()
print(os.getpid(), thread.native_id, flush=True)
thread.join()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads have no priorities of their own")
def test_children_that_live_are_taken_back_with_all_their_threads() -> None:
    before = os.nice(0)
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        threads = [int(one) for one in child.stdout.readline().split()]
        conduct = Conduct(Courtesy(), lambda _own: [])
        conduct.follow(Courtesy(), Courtesy(before + 3))
        assert [os.getpriority(os.PRIO_PROCESS, one) for one in threads] == [before + 3] * 2
        conduct.follow(Courtesy(), Courtesy(before + 1))
        assert [os.getpriority(os.PRIO_PROCESS, one) for one in threads] == [before + 3] * 2, "nobody comes forward"
        assert conduct.refused == []
        child.stdin.close()
    assert os.nice(0) == before
