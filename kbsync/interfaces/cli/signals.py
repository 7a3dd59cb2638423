"""What the operating system asks of `kbsync run` by signals, and that it ends in time whatever hangs."""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import time

from kbsync.interfaces.cli import surroundings

# What has not ended by then after a signal never will: the process ends all the same, and the next start puts right
# what it left, as after a crash.
END_S = 9.5


class Signals:
    """What the operating system asked for. Handlers only set flags: anything more could deadlock the main thread."""

    def __init__(self) -> None:
        self.stop = False
        self.reload = False
        self._timed = False
        self._rung: int | None = None

    def asked_to_stop(self) -> bool:
        return self.stop

    def install(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGHUP, self._on_reload)
        # A handler cannot wake who sleeps; the interpreter writes into this pipe as soon as a signal comes.
        self._rung, ringing = os.pipe()
        for descriptor in (self._rung, ringing):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(ringing, warn_on_full_buffer=False)

    def wait(self, seconds: float) -> None:
        """Wait so long, or until a signal comes."""
        if self._rung is None:
            time.sleep(seconds)
        elif select.select([self._rung], [], [], seconds)[0]:
            os.read(self._rung, 512)

    def end_in_time(self) -> None:
        """Have the process end within `END_S` seconds from now, whatever hangs: it tells where, then exits with 1.

        The timer is no Python and needs no lock. From the first call on it runs; a second one changes nothing.
        """
        if not self._timed:
            self._timed = True
            try:
                told = surroundings.opened_anew(2)  # a pipe that nobody empties would hold up the timer as well
            except OSError:
                # Some have closed their stderr; the timer insists on a file.
                told = os.dup(2) if _is_open(2) else os.open(os.devnull, os.O_WRONLY)
            faulthandler.dump_traceback_later(END_S, exit=True, file=told)

    def ended(self) -> None:
        """All has ended in time."""
        if self._timed:
            self._timed = False
            faulthandler.cancel_dump_traceback_later()

    def _on_stop(self, _number: int, _frame: object) -> None:
        self.stop = True
        self.end_in_time()

    def _on_reload(self, _number: int, _frame: object) -> None:
        self.reload = True


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
