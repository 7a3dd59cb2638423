"""`kbsync pause` and `kbsync resume`: all work rests for a while, or goes on."""

from __future__ import annotations

import math
import re
import time
from datetime import datetime
from typing import Annotated

import typer

from kbsync.errors import UsageError
from kbsync.interfaces.cli.exits import errors_told
from kbsync.interfaces.cli.output import line, print_json
from kbsync.interfaces.cli.session import session

_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_UNITS = {"w": 604_800.0, "d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(w|d|h|m|s)(?:eeks?|ays?|ours?|in(?:ute)?s?|ec(?:ond)?s?)?")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})")
_EXAMPLES = "Such as 30m, 1h, 2h30m, 1d, 1w, until 18:00, until 2031-05-01."


def pause(
    duration: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DURATION]", help="30m, 2h30m, 1d, until 18:00; without it until `resume`."),
    ] = None,
    as_json: _Json = False,
) -> None:
    """Have all work rest: changes are noticed and wait, search goes on. It outlives a restart.

    What you ask for yourself is done all the same: `add`, `check`, `backup`, `run --once`. What is being read just now
    is read to its end. `kbsync sources pause FOLDER` leaves one folder alone, and the others are kept in step.
    """
    with errors_told():
        seconds = seconds_of(" ".join(duration or []), time.time())
        with session() as operations:
            answer = operations.pause(seconds)
    if as_json:
        print_json(answer)
    else:
        line(answer["rest"]["detail"])


def resume(as_json: _Json = False) -> None:
    """Go on after `kbsync pause`. Quiet hours, and the battery, still hold as the configuration says."""
    with errors_told(), session() as operations:
        answer = operations.resume()
    if as_json:
        print_json(answer)
        return
    said = "The pause is over." if answer["was_paused"] else "It was not paused."
    line(said if answer["rest"] is None else f"{said} {answer['rest']['detail']}")


def seconds_of(text: str, now: float) -> float | None:
    """Return how long a pause is to last that begins `now` (seconds since 1970); None: without an end.

    Raises UsageError.
    """
    text = " ".join(text.lower().split())
    if not text:
        return None
    word, _, moment = text.removeprefix("for ").partition(" ")
    seconds = _until(moment, now) - now if word == "until" else _sum((word + moment).replace(" ", ""))
    if not seconds > 0:
        raise UsageError(f"{text!r} is no time in the future.", hint=_EXAMPLES)
    return seconds


def _sum(text: str) -> float:
    parts = list(_PART.finditer(text))
    if not parts or "".join(part.group() for part in parts) != text:
        raise UsageError(f"{text!r} is no duration.", hint=_EXAMPLES)
    return sum(float(part.group(1)) * _UNITS[part.group(2)] for part in parts)


def _until(moment: str, now: float) -> float:
    """Return the next time that a clock shows so, or the moment of a date, in local time."""
    clock = _CLOCK.fullmatch(moment)
    if clock is None:
        try:
            return datetime.fromisoformat(moment).astimezone().timestamp()
        except (ValueError, OverflowError, OSError) as error:
            raise UsageError(f"{moment!r} is neither a time nor a date.", hint=_EXAMPLES) from error
    hour, minute = int(clock.group(1)), int(clock.group(2))
    if hour > 23 or minute > 59:
        raise UsageError(f"No clock shows {moment}.", hint=_EXAMPLES)
    today = time.localtime(now)
    days = (time.mktime((*today[:2], today.tm_mday + n, hour, minute, 0, 0, 0, -1)) for n in range(2))
    return next((at for at in days if at > now), math.nan)
