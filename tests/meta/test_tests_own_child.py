"""The child that converts for the tests ends with them, however they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil

from tests.fakes.eventually import eventually
from tests.meta.checkout import ROOT

TESTS = """
import time
from tests.fakes.conversions import Conversions
if __name__ == "__main__":
    child = Conversions("")
    pid = child.pid()
    reading = child._pool.submit(time.sleep, 60)
    while not reading.running():
        time.sleep(0.01)
    print(pid, flush=True)
    time.sleep(60)
"""


def test_the_child_that_converts_ends_when_the_tests_are_killed_while_it_reads() -> None:
    tests = subprocess.Popen(
        [sys.executable, "-c", TESTS],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert tests.stdout is not None
    with tests.stdout:
        child = psutil.Process(int(tests.stdout.readline()))
        assert child.is_running()
        tests.send_signal(signal.SIGKILL)
        tests.wait()
    eventually(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
