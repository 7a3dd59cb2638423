"""Tells the service manager that started us how we are: systemd's notification protocol, over its datagram socket.

Without such a manager every method does nothing.
"""

from __future__ import annotations

import socket
import time
from collections.abc import MutableMapping

# A start that shows a sign of life may take so much longer from then on, in microseconds.
_EXTENDED_US = 120_000_000
# Signs of life come with every piece of work; the manager hears of so many at most.
_BETWEEN_SIGNS_S = 5.0
# Longer lines are cut: they are for `systemctl status`.
_LONGEST_STATUS = 300


class Notifier:
    """`address` as in NOTIFY_SOCKET; `watchdog_s`: the manager ends us after so long without a sign of life.

    Every method may be called from any thread and never blocks; a manager that takes nothing is no error of ours.
    """

    def __init__(self, address: str | None, watchdog_s: float | None = None) -> None:
        self._address = address
        self._between_signs_s = _BETWEEN_SIGNS_S if watchdog_s is None else min(_BETWEEN_SIGNS_S, watchdog_s / 4)
        self._signed_at = float("-inf")
        self._is_ready = False

    @classmethod
    def taken_from(cls, environ: MutableMapping[str, str]) -> Notifier:
        """Return the one that the environment names, and take it out there: no child shall speak for us."""
        address = environ.pop("NOTIFY_SOCKET", "")
        microseconds = environ.pop("WATCHDOG_USEC", "")
        environ.pop("WATCHDOG_PID", None)
        usable = address if address.startswith(("/", "@")) and len(address) > 1 else None
        return cls(usable, int(microseconds) / 1e6 if microseconds.isdecimal() else None)

    @property
    def is_heard(self) -> bool:
        """Return whether there is a manager that listens."""
        return self._address is not None

    def starting(self, doing: str) -> None:
        """Say what the start is busy with, and that it goes on."""
        self._is_ready = False
        self._signed_at = time.monotonic()
        self._send(f"STATUS={_one_line(doing)}", f"EXTEND_TIMEOUT_USEC={_EXTENDED_US}", "WATCHDOG=1")

    def ready(self, status: str) -> None:
        """Say that all stands, after a start or a reload."""
        self._is_ready = True
        self._send("READY=1", f"STATUS={_one_line(status)}", "WATCHDOG=1")

    def reloading(self) -> None:
        """Say that the settings are read again; `ready` follows."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        """Say that we end by ourselves, or as we were told."""
        self._send("STOPPING=1", "STATUS=ending")

    def alive(self) -> None:
        """Give a sign of life: for the main loop, and for whatever it may have to wait for."""
        if self._address is None or time.monotonic() - self._signed_at < self._between_signs_s:
            return
        self._signed_at = time.monotonic()
        self._send("WATCHDOG=1", *([] if self._is_ready else [f"EXTEND_TIMEOUT_USEC={_EXTENDED_US}"]))

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        # A leading @ stands for the NUL byte of an abstract address.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.sendto("\n".join(lines).encode("utf-8", "surrogateescape"), address)
        except OSError:
            pass  # it is gone, or its queue is full: it asks nothing of us then


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_STATUS else line[: _LONGEST_STATUS - 3] + "..."
