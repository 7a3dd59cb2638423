"""What a program finds around it and may not rely on: standard streams that are open, a locale that knows all names."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys


def make_whole() -> None:
    """Open the standard streams that are closed, and have names and output be UTF-8, whatever the locale says.

    For the very start: where the locale is another one, the process begins anew under the same number.
    """
    _open_closed()
    if sys.getfilesystemencoding().lower() != "utf-8" and not sys.flags.utf8_mode and sys.executable:
        os.environ["PYTHONUTF8"] = "1"
        # Without -P a `queue.py` in the folder where it is started would be imported in place of the real one.
        os.execv(sys.executable, [sys.executable, "-P", "-m", "kbsync", *sys.argv[1:]])
    for stream in (sys.stdout, sys.stderr):
        # Somebody asked for another encoding of the output alone: what it lacks is escaped.
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() not in ("utf-8", "utf8"):
            stream.reconfigure(errors="backslashreplace")


def never_wait_for_readers() -> None:
    """Have what is written to stderr be dropped where its reader takes nothing more, for a process that must go on.

    A pipe that nobody empties, or a terminal that was halted (Ctrl+S), would hold up all who have something to tell.
    """
    stream = sys.stderr
    try:
        descriptor = stream.fileno()
        freely = opened_anew(descriptor)
    except (OSError, ValueError):
        return  # no file of the system, or one that cannot be opened twice, such as a socket
    # Unbuffered: what is not taken is gone, and nothing of it is left to be tried again at the end.
    raw = io.FileIO(freely, "w")
    sys.stderr = io.TextIOWrapper(raw, encoding=stream.encoding, errors=stream.errors, write_through=True)


def end_output() -> None:
    """Write what is left of the answer. A reader that has enough, such as `head`, is no failure."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # What is in the buffer would fail again at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), sys.stdout.fileno())
    except (OSError, ValueError):
        return  # a full disk, a closed stream: the end of the process tells it


def opened_anew(descriptor: int) -> int:
    """Return another descriptor of the pipe or terminal that is open, which never waits. Raises OSError.

    Of its own: to change the first one would change it for every other program that has it.
    """
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISFIFO(mode) or os.isatty(descriptor)):
        raise OSError(errno.EINVAL, "it never waits")
    return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def _open_closed() -> None:
    """Else the next file that is opened gets the number, and what any library prints is written into it."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name, descriptor, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8", closefd=False))
