"""How long a job waits before it is tried again, and when it is not tried any more."""

from __future__ import annotations

from kbsync.reasons import Reason

# A transient error is tried this many times over about 20 minutes, then the file has failed until it changes.
MAX_ATTEMPTS = 6
# A process that dies over a file does so because of the file: a third time is the last.
MAX_DEATHS = 3
_FIRST_S, _FACTOR, _LONGEST_S = 5.0, 4.0, 900.0


def delay(attempts: int, reason: Reason) -> float | None:
    """Return the seconds to wait after the given number of attempts, the last for `reason`; None: they are used up."""
    if attempts >= (MAX_DEATHS if reason is Reason.CRASHED else MAX_ATTEMPTS):
        return None
    return min(_FIRST_S * _FACTOR ** (attempts - 1), _LONGEST_S)
