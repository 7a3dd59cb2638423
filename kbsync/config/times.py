"""How a setting says when something is done: after so long, at a time of the day, or never."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import time

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WHOLE_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
OFF = "off"

# Nothing that is looked after is worth a look more often, and what comes once in longer is forgotten.
SHORTEST_S, LONGEST_S = 60.0, 30 * 86_400.0

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(?:(s|m|h|d|w)|(second|minute|min|hour|day|week)s?)?")
_TIME = re.compile(r"(?:([a-z]+)\s+)?(\d{1,2}):(\d{2})")
_EXAMPLES = '"6h", "03:30", "sun 04:00"'


@dataclass(frozen=True, slots=True)
class Every:
    """So many seconds after the last time."""

    seconds: float


@dataclass(frozen=True, slots=True)
class At:
    """At a time of the day in local time, each day or on one `weekday` (0: Monday)."""

    hour: int
    minute: int
    weekday: int | None = None


When = Every | At


def parse(text: str) -> When | None:
    """Return when it is; None for never. Raises ValueError, for people."""
    text = text.strip().lower()
    if text == OFF:
        return None
    if (span := _SPAN.fullmatch(text)) is not None:
        return _every(span)
    if (at := _TIME.fullmatch(text)) is not None:
        return _at(at)
    raise ValueError(f'must be a time such as {_EXAMPLES}, a number of seconds, or "{OFF}"')


def written(value: object) -> str:
    """Return what stands in a setting as text: a number counts seconds, and TOML has times of its own.

    Raises ValueError, for people, where it is nothing that `parse` takes.
    """
    if isinstance(value, time) and not (value.second or value.microsecond):
        value = f"{value:%H:%M}"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        value = f"{value:f}".rstrip("0").rstrip(".") + "s"
    text = " ".join(value.lower().split()) if isinstance(value, str) else "?"
    parse(text)
    return text


def _every(span: re.Match[str]) -> Every:
    number, short, long = span.groups()
    seconds = float(number) * _UNITS[short or (long or "s")[0]]
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise ValueError("must be from a minute to 30 days")
    return Every(seconds)


def _at(found: re.Match[str]) -> At:
    day, hour, minute = found.groups()
    if int(hour) > 23 or int(minute) > 59:
        raise ValueError("must be a time of the day from 00:00 to 23:59")
    if day is None:
        return At(int(hour), int(minute))
    for number, names in enumerate(zip(WEEKDAYS, _WHOLE_DAYS, strict=True)):
        if day in names:
            return At(int(hour), int(minute), number)
    raise ValueError(f"{day} is no day of the week: one of {', '.join(WEEKDAYS)}")
