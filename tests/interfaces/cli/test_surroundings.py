"""A daemon goes on whoever reads what it tells, or does not."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

TELLS = """
import signal, sys, time
from kbsync.interfaces.cli import signals, surroundings
from kbsync.interfaces.cli.exits import complain
if sys.argv[1] == "tells":
    surroundings.never_wait_for_readers()
    for number in range(int(sys.argv[2])):
        complain(f"{number} the quince ripens late, and nobody reads of it")
    complain("the end")
else:
    signals.END_S = 0.2
    signals.Signals().end_in_time()
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="opens what is open again through /proc")
@pytest.mark.parametrize("kind", ["pipe", "terminal"])
@pytest.mark.parametrize("deed", ["tells", "is to end"])
def test_what_nobody_reads_holds_up_neither_the_work_nor_the_end(kind: str, deed: str) -> None:
    """P18: a pipe that is full, a terminal that was halted."""
    reading, writing = os.pipe() if kind == "pipe" else pty.openpty()
    os.set_blocking(writing, False)
    try:
        while os.write(writing, b"x" * 512):
            pass
    except BlockingIOError:
        os.set_blocking(writing, True)
    ended = subprocess.run(
        [sys.executable, "-c", TELLS, deed, "3000"], stdin=subprocess.DEVNULL, stderr=writing, timeout=50
    )
    assert ended.returncode == (0 if deed == "tells" else 1)
    assert os.get_blocking(writing), "other programs have it too"
    for descriptor in (reading, writing):
        os.close(descriptor)


@pytest.mark.skipif(sys.platform != "linux", reason="opens what is open again through /proc")
def test_what_somebody_reads_comes_whole() -> None:
    command = [sys.executable, "-c", TELLS, "tells", "500"]  # less than a pipe holds
    told = subprocess.run(command, stderr=subprocess.PIPE, timeout=50, check=True).stderr.decode()
    assert told.splitlines()[-1] == "kbsync: the end"
    assert len(told.splitlines()) == 501


@pytest.mark.parametrize("command", [["completion", "bash"], ["--version"]])
def test_a_reader_that_has_enough_is_no_failure(command: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    program = [sys.executable, "-c", "from kbsync.__main__ import main; main()", *command]
    ended = subprocess.run(program, stdout=writing, stderr=subprocess.PIPE, check=False, timeout=50)
    os.close(writing)
    assert (ended.stderr, ended.returncode) in ((b"", 0), (b"", 1))
