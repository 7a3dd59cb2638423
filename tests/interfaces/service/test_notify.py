"""What the service manager hears over its socket, and that nobody hears anything where there is none."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbsync.interfaces.service.notify import Notifier


@contextmanager
def listening(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + address[1:] if address.startswith("@") else address)
        listener.setblocking(False)
        yield listener


def heard(listener: socket.socket) -> list[list[str]]:
    found = []
    while True:
        try:
            found.append(listener.recv(4096).decode().split("\n"))
        except BlockingIOError:
            return found


@pytest.fixture
def address(tmp_path: Path) -> str:
    return str(tmp_path / "notify")


def test_a_start_extends_its_time_and_what_stands_is_ready(address: str) -> None:
    with listening(address) as listener:
        notifier = Notifier(address)
        notifier.starting("bringing the\ndatabase  to its current form")
        notifier.ready("watching 3 folders")
        notifier.stopping()
        assert heard(listener) == [
            ["STATUS=bringing the database to its current form", "EXTEND_TIMEOUT_USEC=120000000", "WATCHDOG=1"],
            ["READY=1", "STATUS=watching 3 folders", "WATCHDOG=1"],
            ["STOPPING=1", "STATUS=ending"],
        ]


@pytest.mark.parametrize("name", ["@kbsync-test-abstract", "path"])
def test_both_kinds_of_addresses_are_reached(tmp_path: Path, name: str) -> None:
    address = name if name.startswith("@") else str(tmp_path / name)
    with listening(address) as listener:
        Notifier(address).stopping()
        assert len(heard(listener)) == 1


def test_a_reload_carries_the_moment_at_which_it_began(address: str) -> None:
    """As Type=notify-reload asks for it: microseconds of the clock that never jumps."""
    with listening(address) as listener:
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        Notifier(address).reloading()
        [[reloading, moment]] = heard(listener)
        assert reloading == "RELOADING=1"
        name, _, value = moment.partition("=")
        assert name == "MONOTONIC_USEC"
        assert before <= int(value) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def test_signs_of_life_are_few_and_extend_the_time_of_a_start_only(address: str) -> None:
    with listening(address) as listener:
        notifier = Notifier(address)
        for _ in range(1000):
            notifier.alive()
        assert heard(listener) == [["WATCHDOG=1", "EXTEND_TIMEOUT_USEC=120000000"]]
        # So short a watchdog wants one each time.
        impatient = Notifier(address, watchdog_s=0.0)
        impatient.ready("watching")
        heard(listener)
        impatient.alive()
        assert heard(listener) == [["WATCHDOG=1"]]


def test_no_child_inherits_the_address(address: str) -> None:
    environ = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "600000000", "WATCHDOG_PID": "7", "HOME": "/home/me"}
    notifier = Notifier.taken_from(environ)
    assert notifier.is_heard
    assert environ == {"HOME": "/home/me"}


@pytest.mark.parametrize("value", ["", "@", "relative", "vsock:2:1"])
def test_without_an_address_that_is_one_nothing_is_said(value: str) -> None:
    notifier = Notifier.taken_from({"NOTIFY_SOCKET": value, "WATCHDOG_USEC": "soon"})
    assert not notifier.is_heard
    notifier.starting("getting ready")
    notifier.alive()


def test_a_manager_that_is_gone_or_takes_nothing_is_no_error(address: str) -> None:
    notifier = Notifier(address)
    notifier.ready("watching")
    with listening(address) as listener:
        for _ in range(10_000):
            notifier.reloading()  # nobody reads: its queue is full long before
        assert 0 < len(heard(listener)) < 10_000
