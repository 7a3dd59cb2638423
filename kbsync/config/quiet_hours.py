"""Hours of the day in which kbsync leaves the machine alone: `09:00-18:00`, in local time. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MINUTES = 24 * 60
_WRITTEN = re.compile(r"\s*(\d{1,2}):(\d{2})\s*(?:-|\N{EN DASH})\s*(\d{1,2}):(\d{2})\s*")


@dataclass(frozen=True, slots=True)
class QuietHours:
    """From the minute `begin` of a day to before the minute `end`, of the next day where that is not later."""

    begin: int
    end: int

    def cover(self, minute: int) -> bool:
        """Return whether a minute of the day lies in them."""
        if self.begin < self.end:
            return self.begin <= minute < self.end
        return minute >= self.begin or minute < self.end

    def __str__(self) -> str:
        return f"{_clock(self.begin)}-{_clock(self.end)}"


def parse(text: str) -> QuietHours:
    """Return the hours that are written as `22:00-06:30`. Raises ValueError."""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise ValueError(f'{text!r} is not written like "09:00-18:00"')
    begin, end = (_minute(text, *found.group(n, n + 1)) for n in (1, 3))
    if begin == end or (begin, end) == (0, MINUTES):
        raise ValueError(f"{text!r} would be always: `kbsync pause` does that")
    return QuietHours(begin % MINUTES, end % MINUTES)


def leave_no_time(hours: Iterable[QuietHours]) -> bool:
    """Return whether they cover the whole day together."""
    found = list(hours)
    return all(any(one.cover(minute) for one in found) for minute in range(MINUTES))


def _minute(text: str, hour: str, minute: str) -> int:
    if int(minute) > 59 or int(hour) * 60 + int(minute) > MINUTES:
        raise ValueError(f"{text!r} holds a time that no clock shows")
    return int(hour) * 60 + int(minute)


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
