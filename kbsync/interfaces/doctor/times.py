"""The clock: whether the time can be right, and stays in step."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kbsync.clock import Clock
from kbsync.interfaces.doctor.finding import Finding, fine, problem, warning
from kbsync.interfaces.doctor.patience import is_there, ran
from kbsync.interfaces.doctor.subject import Record, Subject

_ASK = ("timedatectl", "show", "--property=NTPSynchronized", "--value")
_ASK_S = 3.0
_SET = "sudo timedatectl set-ntp true"
# So long the two clocks are compared, and they may differ by so much (seconds).
_COMPARED_S, _DRIFT_S = 0.2, 0.1
# A file's time may be ahead by as much where another machine wrote it.
_AHEAD_S = 3600.0


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds since 1970. `built` is the newest file of the program: it is not later than now.

    `ahead`: what was written later than now, with its time. `drift`: by how much the wall clock ran ahead of the
    monotonic one in `_COMPARED_S` seconds. `is_synchronised`: as the system says, None where it does not.
    """

    now: float
    built: float
    ahead: tuple[tuple[str, float], ...]
    drift: float
    is_synchronised: bool | None


def look(subject: Subject) -> list[Finding]:
    """Examine the clock."""
    places, now = subject.places, subject.clock.now()
    written = _modified((places.database, places.log_file, places.lock_file, places.token_file))
    written += runs_in(subject.status or {})
    return judge(
        Times(
            now,
            max((at for _, at in _modified(_program())), default=0.0),
            tuple((what, at) for what, at in written if at > now + _AHEAD_S),
            drift_of(subject.clock),
            _synchronised(subject) if subject.platform == "linux" else None,
        )
    )


def judge(found: Times) -> list[Finding]:
    """Say whether the time can be right."""
    shown = datetime.fromtimestamp(found.now, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if found.now < found.built - _AHEAD_S:
        built = datetime.fromtimestamp(found.built, UTC).strftime("%Y-%m-%d")
        return [problem(f"The clock says {shown}, but kbsync was installed on {built}.", _SET)]
    if found.ahead:
        what, at = max(found.ahead, key=lambda one: one[1])
        later = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
        remedy = (
            f"{_SET}; if the clock is right: touch {shlex.quote(what)}"
            if os.sep in what
            else f"{_SET}, then kbsync check"
        )
        return [warning(f"The clock says {shown}, but {what} is from {later}.", remedy)]
    if abs(found.drift) > _DRIFT_S:
        return [warning(f"The clock is being set: it moved by {found.drift:+.1f} s in {_COMPARED_S} s.", _SET)]
    if found.is_synchronised is False:
        return [warning(f"{shown}; the system says that its clock is not synchronised.", _SET)]
    return [fine(f"{shown}{', synchronised' if found.is_synchronised else ''}.")]


def runs_in(status: Record) -> list[tuple[str, float]]:
    """Return what the daemon says that it did last, with the times."""
    told = {"the last check": (status.get("last_check") or {}).get("at")}
    told |= {f"the last run of {job['name']}": job.get("last") for job in status.get("schedule") or ()}
    return [(what, datetime.fromisoformat(at).timestamp()) for what, at in told.items() if isinstance(at, str)]


def drift_of(clock: Clock, wait: Callable[[float], object] = time.sleep) -> float:
    """Return by how many seconds the wall clock runs ahead of the monotonic one in a moment."""
    wall, steady = clock.now(), clock.monotonic()
    wait(_COMPARED_S)
    return (clock.now() - wall) - (clock.monotonic() - steady)


def _synchronised(subject: Subject) -> bool | None:
    if not is_there(_ASK[0], subject.environ):
        return None
    answer = ran(_ASK, _ASK_S, subject.environ)
    return {"yes": True, "no": False}.get(answer.output.strip()) if answer.code == 0 else None


def _program() -> Sequence[str]:
    here = os.path.dirname(os.path.abspath(__file__))
    return [os.path.join(here, name) for name in os.listdir(here) if name.endswith(".py")]


def _modified(paths: Iterable[str]) -> list[tuple[str, float]]:
    found = []
    for path in paths:
        try:
            found.append((path, os.stat(path).st_mtime))
        except OSError:
            continue  # it is not there yet
    return found
