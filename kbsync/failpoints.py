"""Named places on the road at which a test ends the process, fills the disk or has a call fail.

Nothing in kbsync listens: a place then costs one comparison. A name says what has just been done, `part.what`.
"""

from __future__ import annotations

from collections.abc import Callable

_listener: Callable[[str], None] | None = None


def failpoint(name: str) -> None:
    """Say that the work has come to this place. Raises whatever the listener of a test raises."""
    if _listener is not None:
        _listener(name)


def listen(listener: Callable[[str], None] | None) -> None:
    """Have every place be told to `listener` in the thread that comes to it; None: to nobody."""
    global _listener
    _listener = listener
